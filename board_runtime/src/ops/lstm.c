/* Long short-term memory over a whole sequence: gates i, o, f and c of exact sums, states of float32 (NUMERICS.md, lstm). */
#include "recurrent.h"

enum { OF_GATES, OF_CELL, OF_OUTPUT }; /* the functions of a direction */
static const qv_recurrent_op OP = {3, 3, 4, 2, 4};

static qv_status lstm_check(qv_model *m, qv_node *n) { return qv_recurrent_check(m, n, &OP); }

/* v + p * c, where there are peepholes. */
static float peep(const qv_recurrent *q, int64_t at, float c, float v) {
  return q->p ? qv_recurrent_float((double)v + (double)q->p[at] * (double)c) : v;
}

static void unit(const qv_recurrent *q, const float *gate, int64_t j, float c, float *next_h, float *next_c) {
  int64_t h = q->hidden;
  float i = qv_recurrent_gate(q, OF_GATES, 1, peep(q, j, c, gate[j]));
  float forget =
      qv_word(q->n, 2) ? qv_recurrent_float(1.0 - (double)i) : qv_recurrent_gate(q, OF_GATES, 1, peep(q, 2 * h + j, c, gate[2 * h + j]));
  float new = qv_recurrent_gate(q, OF_CELL, 1, gate[3 * h + j]);
  float state = qv_recurrent_float((double)forget * (double)c + (double)i * (double)new);
  float o = qv_recurrent_gate(q, OF_GATES, 1, peep(q, h + j, state, gate[h + j]));
  *next_c = state;
  *next_h = qv_recurrent_float((double)o * (double)qv_recurrent_gate(q, OF_OUTPUT, 0, state));
}

static void cell(qv_recurrent *q) {
  int64_t wide = 4 * q->hidden;
  qv_recurrent_product(q, q->h, q->batch, q->hidden, q->packed, wide, q->now, wide, q->gate, wide);
  for (int64_t b = 0; b < q->batch; b++)
    for (int64_t j = 0; j < q->hidden; j++) {
      int64_t at = b * q->hidden + j;
      unit(q, q->gate + b * wide, j, q->c[at], q->next_h + at, q->next_c + at);
    }
}

static qv_status lstm_run(const qv_session *s, const qv_node *n) { return qv_recurrent_run(s, n, &OP, qv_recurrent_add_biases, cell); }

const qv_op qv_op_lstm = {"lstm", lstm_check, NULL, lstm_run};
