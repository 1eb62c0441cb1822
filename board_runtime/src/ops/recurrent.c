/* The common part of lstm, lstm_integer, gru and rnn (NUMERICS.md, lstm). */
#include "recurrent.h"

#include <math.h>

#include "../arithmetic/float32.h"

enum { SIGMOID, TANH, RELU, HARD_SIGMOID, AFFINE, LEAKY_RELU, THRESHOLDED_RELU, ELU, SOFTSIGN, SOFTPLUS, SCALED_TANH, FUNCTIONS };
enum { REVERSE = 1, BIDIRECTIONAL = 2 };

static int is_float(const qv_tensor *t, int rank, int64_t a, int64_t b, int64_t c, int64_t d) {
  const int64_t want[4] = {a, b, c, d};
  if (!t || t->dtype != QV_F32 || t->rank != rank) return 0;
  for (int k = 0; k < rank; k++)
    if (t->shape[k] != want[k]) return 0;
  return 1;
}

static int is_absent_or(const qv_tensor *t, int rank, int64_t a, int64_t b, int64_t c) { return !t || is_float(t, rank, a, b, c, 0); }

static qv_status check_words(qv_model *m, const qv_node *n, const qv_recurrent_op *op, int directions) {
  int count = directions * op->functions;
  if (n->n_words != op->words + 3 * count) return qv_fail(m, n, QV_E_FORMAT, "%d words, wanted %d", n->n_words, op->words + 3 * count);
  if (qv_word(n, 0) < 0 || qv_word(n, 0) > 2 || directions != (qv_word(n, 0) == BIDIRECTIONAL ? 2 : 1))
    return qv_fail(m, n, QV_E_FORMAT, "direction %d with %d directions of weights", qv_word(n, 0), directions);
  if (!(qv_word_f32(n, 1) >= 0) || qv_word_f32(n, 1) - qv_word_f32(n, 1) != 0)
    return qv_fail(m, n, QV_E_FORMAT, "clip %g, wanted a finite number of 0 or more", (double)qv_word_f32(n, 1));
  if (op->words > 2 && qv_word(n, 2) != 0 && qv_word(n, 2) != 1)
    return qv_fail(m, n, QV_E_FORMAT, "word 2 is %d, wanted 0 or 1", qv_word(n, 2));
  for (int k = 0; k < count; k++) {
    int function = qv_word(n, op->words + k);
    if (function < 0 || function >= FUNCTIONS) return qv_fail(m, n, QV_E_FORMAT, "unknown function %d", function);
    for (int i = 1; i < 3; i++) {
      float v = qv_word_f32(n, op->words + i * count + k);
      if (v - v != 0) return qv_fail(m, n, QV_E_FORMAT, "a parameter of function %d is not a finite number", k);
    }
  }
  return QV_OK;
}

static int is_8bit(const qv_tensor *t, int64_t a, int64_t b, int64_t c) {
  return t && qv_is_8bit(t) && t->rank == 3 && t->shape[0] == a && t->shape[1] == b && t->shape[2] == c;
}

/* Returns whether the scales in input `scale` and the zero points after it fit the weights in input `of`: one for each
   direction, or one for each column of each direction. */
static int are_parameters(const qv_model *m, const qv_node *n, int scale, int of, int64_t d, int64_t columns) {
  const qv_tensor *s = qv_in(m, n, scale), *z = qv_in(m, n, scale + 1);
  return s && s->dtype == QV_F32 && (s->elements == d || s->elements == d * columns) &&
         (!z || (z->dtype == qv_in(m, n, of)->dtype && (z->elements == d || z->elements == d * columns)));
}

static int are_weights(const qv_model *m, const qv_node *n, const qv_recurrent_op *op, int64_t d, int64_t i, int64_t h) {
  const qv_tensor *w = qv_in(m, n, QV_RNN_W), *r = qv_in(m, n, QV_RNN_R);
  int64_t wide = op->gates * h;
  if (!op->integer) return is_float(w, 3, d, wide, i, 0) && is_float(r, 3, d, wide, h, 0);
  return is_8bit(w, d, i, wide) && is_8bit(r, d, h, wide) && are_parameters(m, n, QV_RNN_W_SCALE, QV_RNN_W, d, wide) &&
         are_parameters(m, n, QV_RNN_R_SCALE, QV_RNN_R, d, wide) && qv_in(m, n, QV_RNN_X)->shape[1] == 1 && !qv_in(m, n, QV_RNN_LENGTHS);
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Return sizes of the parts of the scratch memory in floats, of which each begins at an even index. qv_recurrent_run
   assigns the parts. */
static int64_t even(int64_t count) { return count + count % 2; }
static int64_t packed_floats(int64_t gates, int64_t inputs, int64_t hidden) {
  return most(qv_recurrent_tiles(gates * hidden) * inputs, (qv_recurrent_tiles(gates * hidden) + QV_FLOAT_TILE) * hidden);
}

qv_status qv_recurrent_check(qv_model *m, qv_node *n, const qv_recurrent_op *op) {
  int has_c = op->states > 1;
  qv_status status = qv_arity(m, n, op->integer ? 12 : has_c ? 8 : 6, 1 + op->states, -1);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, QV_RNN_X), *w = qv_in(m, n, QV_RNN_W), *r = qv_in(m, n, QV_RNN_R), *l = qv_in(m, n, QV_RNN_LENGTHS);
  if (!x || !w || !r || x->rank != 3 || w->rank != 3 || r->rank != 3) return qv_fail_operands(m, n, "x, w and r of rank 3");
  int64_t t = x->shape[0], b = x->shape[1], i = x->shape[2], d = w->shape[0], h = r->shape[op->integer ? 1 : 2], g = op->gates;
  if (d < 1 || d > 2 || !is_float(x, 3, t, b, i, 0) || !are_weights(m, n, op, d, i, h) ||
      !is_absent_or(qv_in(m, n, QV_RNN_B), 2, d, 2 * g * h, 0) || !is_absent_or(qv_in(m, n, QV_RNN_H), 3, d, b, h) ||
      (has_c && (!is_absent_or(qv_in(m, n, QV_RNN_C), 3, d, b, h) || !is_absent_or(qv_in(m, n, QV_RNN_P), 2, d, 3 * h, 0))) ||
      (l && (l->dtype != QV_I32 || l->elements != b)) || !is_float(qv_out(m, n, 0), 4, t, d, b, h) ||
      !is_float(qv_out(m, n, 1), 3, d, b, h, 0) || (has_c && !is_float(qv_out(m, n, 2), 3, d, b, h, 0)))
    return qv_fail_operands(m, n, "x (T, N, I), w (D, %d*H, I), r (D, %d*H, H) and what belongs to them", op->gates, op->gates);
  if ((status = check_words(m, n, op, (int)d)) != QV_OK) return status;
  int64_t wide = g * h, floats = even(wide) + even(t * b * wide) + even(packed_floats(g, i, h)) + 2 * even(b * wide) + 4 * even(b * h);
  n->scratch_bytes = floats * 4 + (most(t, 1) * b + qv_recurrent_tiles(wide) + QV_FLOAT_TILE) * 8;
  return QV_OK;
}

/* Packs weights of shape [columns][depth] in tiles, and computes the norm of each of their rows. */
static void pack(const float *weights, int64_t columns, int64_t depth, float *to, double *norms) {
  for (int64_t first = 0; first < columns; first += QV_FLOAT_TILE, to += QV_FLOAT_TILE * depth) {
    for (int64_t j = 0; j < QV_FLOAT_TILE; j++)
      for (int64_t k = 0; k < depth; k++) to[k * QV_FLOAT_TILE + j] = first + j < columns ? weights[(first + j) * depth + k] : 0.0f;
    for (int64_t j = 0; j < QV_FLOAT_TILE; j += QV_FLOAT_COLUMNS) qv_column_norms(to + j, QV_FLOAT_TILE, depth, norms + first + j);
  }
}

void qv_recurrent_product(const qv_recurrent *q, const float *a, int64_t rows, int64_t depth, const float *packed, int64_t columns,
                          const float *c, int64_t c_row, float *y, int64_t y_row) {
  qv_float_matrix m = {.a = a, .a_row = depth, .a_step = 1, .b_step = QV_FLOAT_TILE, .b_column = 1, .rows = rows, .depth = depth};
  m.c_row = c_row, m.c_column = 1, m.y_row = y_row, m.y_column = 1, m.alpha = 1.0f, m.beta = 1.0f;
  m.kernel = q->s->plain_only ? NULL : qv_float_kernel_of_cpu(0);
  m.norms = q->norms;
  qv_row_norms(&m, q->norms);
  const double *of_columns = q->of_columns + (packed - q->packed) / depth;
  for (int64_t first = 0; first < columns; first += QV_FLOAT_TILE, packed += QV_FLOAT_TILE * depth) {
    m.b = packed, m.column_norms = of_columns + first, m.c = c ? c + first : NULL, m.y = y + first;
    m.columns = columns - first < QV_FLOAT_TILE ? columns - first : QV_FLOAT_TILE;
    qv_multiply_floats(&m);
  }
}

float qv_recurrent_float(double v) {
  if (v == v) return (float)v + 0.0f;
  uint32_t bits = 0x7fc00000u;
  float nan;
  memcpy(&nan, &bits, 4);
  return nan;
}

static double evaluate(int function, float of, float by, float more) {
  double v, x = (double)of, alpha = (double)by, beta = (double)more;
  switch (function) {
    case SIGMOID: return qv_sigmoid64(x);
    case TANH: return qv_tanh64(x);
    case RELU: return x < 0 ? 0.0 : x;
    case HARD_SIGMOID: v = qv_wide_product(by, of) + beta; return v < 0.0 ? 0.0 : v > 1.0 ? 1.0 : v;
    case AFFINE: return qv_wide_product(by, of) + beta;
    case LEAKY_RELU: return x < 0 ? qv_wide_product(by, of) : x;
    case THRESHOLDED_RELU: return x <= alpha ? 0.0 : x;
    case ELU: return x < 0 ? alpha * (qv_exp64(x) - 1.0) : x;
    case SOFTSIGN: return x / (1.0 + fabs(x));
    case SOFTPLUS: v = qv_log64(1.0 + qv_exp64(-fabs(x))); return x > 0 ? x + v : v;
    default: return alpha * qv_tanh64(qv_wide_product(more, of));
  }
}

float qv_recurrent_gate(const qv_recurrent *q, int which, int limited, float x) {
  int directions = qv_word(q->n, 0) == BIDIRECTIONAL ? 2 : 1, count = directions * q->op->functions;
  int at = q->op->words + (int)q->direction * q->op->functions + which;
  float clip = qv_word_f32(q->n, 1);
  if (limited && clip > 0) x = qv_clamp_f32(x, -clip, clip);
  return qv_recurrent_float(evaluate(qv_word(q->n, at), x, qv_word_f32(q->n, at + count), qv_word_f32(q->n, at + 2 * count)));
}

void qv_recurrent_add_biases(qv_recurrent *q) {
  int64_t wide = q->op->gates * q->hidden;
  for (int64_t j = 0; j < wide; j++) q->added[j] = q->b ? qv_recurrent_float((double)q->b[j] + (double)q->b[wide + j]) : 0.0f;
}

static const float *floats(const qv_recurrent *q, int input, int64_t per_direction) {
  const qv_tensor *t = qv_in(q->s->model, q->n, input);
  return t ? (const float *)qv_data(q->s, t) + q->direction * per_direction : NULL;
}

void qv_recurrent_begin(qv_recurrent *q) {
  int64_t wide = q->op->gates * q->hidden, first = q->op->together * q->hidden;
  const float *x = qv_data(q->s, qv_in(q->s->model, q->n, QV_RNN_X)), *r = floats(q, QV_RNN_R, wide * q->hidden);
  pack(floats(q, QV_RNN_W, wide * q->inputs), wide, q->inputs, q->packed, q->of_columns);
  qv_recurrent_product(q, x, q->steps * q->batch, q->inputs, q->packed, wide, q->added, 0, q->sums, wide);
  pack(r, first, q->hidden, q->packed, q->of_columns);
  pack(r + first * q->hidden, wide - first, q->hidden, q->packed + qv_recurrent_tiles(first) * q->hidden,
       q->of_columns + qv_recurrent_tiles(first));
}

static void copy_state(float *to, const float *from, int64_t count) {
  if (from) memcpy(to, from, (size_t)count * 4);
  else memset(to, 0, (size_t)count * 4);
}

/* Returns the time index in x that row b of the batch reads at this step; -1 after the end of its sequence. */
static int64_t position(const qv_recurrent *q, int reverse, int64_t step, int64_t b) {
  const qv_tensor *l = qv_in(q->s->model, q->n, QV_RNN_LENGTHS);
  int64_t length = l ? ((const int32_t *)qv_data(q->s, l))[b] : q->steps;
  return step >= length ? -1 : reverse ? length - 1 - step : step;
}

static void run_step(qv_recurrent *q, int reverse, int64_t step, qv_recurrent_part cell) {
  int64_t wide = q->op->gates * q->hidden, directions = qv_in(q->s->model, q->n, QV_RNN_W)->shape[0];
  float *y = qv_data(q->s, qv_out(q->s->model, q->n, 0));
  for (int64_t b = 0; b < q->batch; b++) {
    int64_t at = position(q, reverse, step, b);
    if (at >= 0) memcpy(q->now + b * wide, q->sums + (at * q->batch + b) * wide, (size_t)wide * 4);
    else memset(q->now + b * wide, 0, (size_t)wide * 4);
  }
  cell(q);
  for (int64_t b = 0; b < q->batch; b++) {
    int64_t at = position(q, reverse, step, b);
    if (at < 0) continue;
    size_t bytes = (size_t)q->hidden * 4;
    memcpy(q->h + b * q->hidden, q->next_h + b * q->hidden, bytes);
    if (q->op->states > 1) memcpy(q->c + b * q->hidden, q->next_c + b * q->hidden, bytes);
    memcpy(y + ((at * directions + q->direction) * q->batch + b) * q->hidden, q->next_h + b * q->hidden, bytes);
  }
}

static void store_last(const qv_recurrent *q, int output, const float *state) {
  int64_t count = q->batch * q->hidden;
  float *to = (float *)qv_data(q->s, qv_out(q->s->model, q->n, output)) + q->direction * count;
  memcpy(to, state, (size_t)count * 4);
  for (int64_t b = 0; b < q->batch; b++)
    if (position(q, 0, 0, b) < 0) memset(to + b * q->hidden, 0, (size_t)q->hidden * 4);
}

static void run_direction(qv_recurrent *q, int reverse, qv_recurrent_part begin, qv_recurrent_part cell) {
  int64_t wide = q->op->gates * q->hidden, state = q->batch * q->hidden;
  q->b = floats(q, QV_RNN_B, 2 * wide);
  copy_state(q->h, floats(q, QV_RNN_H, state), state);
  if (q->op->states > 1) {
    q->p = floats(q, QV_RNN_P, 3 * q->hidden);
    copy_state(q->c, floats(q, QV_RNN_C, state), state);
  }
  begin(q);
  for (int64_t step = 0; step < q->steps; step++) run_step(q, reverse, step, cell);
  store_last(q, 1, q->h);
  if (q->op->states > 1) store_last(q, 2, q->c);
}

static qv_status check_lengths(const qv_recurrent *q) {
  const qv_tensor *l = qv_in(q->s->model, q->n, QV_RNN_LENGTHS);
  for (int64_t b = 0; l && b < q->batch; b++) {
    int32_t length = ((const int32_t *)qv_data(q->s, l))[b];
    if (length < 0 || length > q->steps)
      return qv_fail(q->s->model, q->n, QV_E_INPUT, "input 4: length %ld is %ld, wanted 0 to %ld", (long)b, (long)length, (long)q->steps);
  }
  return QV_OK;
}

qv_status qv_recurrent_run(const qv_session *s, const qv_node *n, const qv_recurrent_op *op, qv_recurrent_part begin,
                           qv_recurrent_part cell) {
  const qv_tensor *x = qv_in(s->model, n, QV_RNN_X), *y = qv_out(s->model, n, 0);
  qv_recurrent q = {.s = s, .n = n, .op = op, .steps = x->shape[0], .batch = x->shape[1], .inputs = x->shape[2], .hidden = y->shape[3]};
  qv_status status = check_lengths(&q);
  if (status != QV_OK) return status;
  int64_t wide = op->gates * q.hidden, state = even(q.batch * q.hidden);
  q.norms = qv_scratch(s, n);
  q.of_columns = q.norms + q.steps * q.batch;
  q.added = (float *)(void *)(q.of_columns + qv_recurrent_tiles(wide) + QV_FLOAT_TILE);
  q.sums = q.added + even(wide);
  q.packed = q.sums + even(q.steps * q.batch * wide);
  q.now = q.packed + even(packed_floats(op->gates, q.inputs, q.hidden));
  q.gate = q.now + even(q.batch * wide);
  q.h = q.gate + even(q.batch * wide), q.c = q.h + state, q.next_h = q.c + state, q.next_c = q.next_h + state;
  memset(qv_data(s, y), 0, (size_t)y->dense_bytes);
  int directions = y->shape[1];
  for (q.direction = 0; q.direction < directions; q.direction++)
    run_direction(&q, q.direction == 1 || qv_word(n, 0) == REVERSE, begin, cell);
  return QV_OK;
}

enum { OF_GATES, OF_CELL, OF_OUTPUT }; /* indices of the functions of a direction of lstm */

/* Returns v + p * c if the node has peepholes, otherwise v. */
static float peep(const qv_recurrent *q, int64_t at, float c, float v) {
  return q->p ? qv_recurrent_float((double)v + qv_wide_product(q->p[at], c)) : v;
}

static void unit(const qv_recurrent *q, const float *gate, int64_t j, float c, float *next_h, float *next_c) {
  int64_t h = q->hidden;
  float i = qv_recurrent_gate(q, OF_GATES, 1, peep(q, j, c, gate[j]));
  float forget =
      qv_word(q->n, 2) ? qv_recurrent_float(1.0 - (double)i) : qv_recurrent_gate(q, OF_GATES, 1, peep(q, 2 * h + j, c, gate[2 * h + j]));
  float new = qv_recurrent_gate(q, OF_CELL, 1, gate[3 * h + j]);
  float state = qv_recurrent_float(qv_wide_product(forget, c) + qv_wide_product(i, new));
  float o = qv_recurrent_gate(q, OF_GATES, 1, peep(q, h + j, state, gate[h + j]));
  *next_c = state;
  *next_h = qv_recurrent_float(qv_wide_product(o, qv_recurrent_gate(q, OF_OUTPUT, 0, state)));
}

void qv_recurrent_lstm(qv_recurrent *q) {
  int64_t wide = 4 * q->hidden;
  for (int64_t b = 0; b < q->batch; b++)
    for (int64_t j = 0; j < q->hidden; j++) {
      int64_t at = b * q->hidden + j;
      unit(q, q->gate + b * wide, j, q->c[at], q->next_h + at, q->next_c + at);
    }
}
