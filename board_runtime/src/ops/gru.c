/* Gated recurrent unit over a whole sequence: gates z, r and h from exact sums, states in float32
   (NUMERICS.md, gru). */
#include "../arithmetic/float32.h"
#include "recurrent.h"

enum { OF_GATES, OF_NEW }; /* indices of the functions of a direction */
static const qv_recurrent_op OP = {3, 2, 3, 1, 2, 0};

static qv_status gru_check(qv_model *m, qv_node *n) { return qv_recurrent_check(m, n, &OP); }

/* Returns the attribute linear_before_reset: 1 if the reset gate multiplies the recurrent sum of h, including its bias,
   which is then not added to the other bias. */
static int linear(const qv_recurrent *q) { return qv_word(q->n, 2); }

static void begin(qv_recurrent *q) {
  qv_recurrent_add_biases(q);
  if (q->b && linear(q)) memcpy(q->added + 2 * q->hidden, q->b + 2 * q->hidden, (size_t)q->hidden * 4);
  qv_recurrent_begin(q);
}

/* Returns the new h. */
static float unit(const qv_recurrent *q, float z, float candidate, float h) {
  float new = qv_recurrent_gate(q, OF_NEW, 1, candidate);
  return qv_recurrent_float((1.0 - (double)z) * (double)new + qv_wide_product(z, h));
}

static void cell(qv_recurrent *q) {
  int64_t hidden = q->hidden, wide = 3 * hidden, count = q->batch * hidden;
  const float *of_h = q->packed + qv_recurrent_tiles(2 * hidden) * hidden;
  float *part = q->next_c; /* N*H; a GRU has no cell state, so this memory is free */
  qv_recurrent_product(q, q->h, q->batch, hidden, q->packed, 2 * hidden, q->now, wide, q->gate, wide);
  for (int64_t b = 0; b < q->batch; b++)
    for (int64_t j = 0; j < 2 * hidden; j++) q->gate[b * wide + j] = qv_recurrent_gate(q, OF_GATES, 1, q->gate[b * wide + j]);
  if (linear(q)) {
    qv_recurrent_product(q, q->h, q->batch, hidden, of_h, hidden, q->b ? q->b + 5 * hidden : NULL, 0, part, hidden);
    for (int64_t i = 0; i < count; i++) {
      const float *gate = q->gate + i / hidden * wide, *now = q->now + i / hidden * wide;
      int64_t j = i % hidden;
      float candidate = qv_recurrent_float((double)now[2 * hidden + j] + qv_wide_product(gate[hidden + j], part[i]));
      q->next_h[i] = unit(q, gate[j], candidate, q->h[i]);
    }
    return;
  }
  for (int64_t i = 0; i < count; i++)
    part[i] = qv_recurrent_float(qv_wide_product(q->gate[i / hidden * wide + hidden + i % hidden], q->h[i]));
  qv_recurrent_product(q, part, q->batch, hidden, of_h, hidden, q->now + 2 * hidden, wide, q->gate + 2 * hidden, wide);
  for (int64_t i = 0; i < count; i++) {
    const float *gate = q->gate + i / hidden * wide;
    q->next_h[i] = unit(q, gate[i % hidden], gate[2 * hidden + i % hidden], q->h[i]);
  }
}

static qv_status gru_run(const qv_session *s, const qv_node *n) { return qv_recurrent_run(s, n, &OP, begin, cell); }

const qv_op qv_op_gru = {"gru", gru_check, NULL, gru_run};
