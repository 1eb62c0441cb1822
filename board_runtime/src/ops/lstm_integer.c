/* LSTM with 8-bit weights: x, and h before each step, are quantized with the parameters of their own range
   (NUMERICS.md, lstm_integer). */
#include "../arithmetic/float32.h"
#include "recurrent.h"

static const qv_recurrent_op OP = {3, 3, 4, 2, 4, 1};

static qv_status lstm_integer_check(qv_model *m, qv_node *n) { return qv_recurrent_check(m, n, &OP); }

/* One of the two products that are added for the gates: x with w, or h with r. */
typedef struct {
  const float *scales;
  const void *weights, *zeros; /* those of this direction */
  int64_t depth, scale_step, zero_step;
  int32_t dtype, zero;
  float scale; /* scale of the quantized x or h */
} side;

static side side_of(const qv_recurrent *q, int weights, int scale, int64_t depth) {
  const qv_model *m = q->s->model;
  const qv_tensor *w = qv_in(m, q->n, weights), *s = qv_in(m, q->n, scale), *z = qv_in(m, q->n, scale + 1);
  int64_t wide = 4 * q->hidden, directions = w->shape[0];
  side made = {.depth = depth, .dtype = w->dtype, .scale_step = s->elements > directions, .zero_step = z && z->elements > directions};
  made.scales = (const float *)qv_data(q->s, s) + q->direction * (made.scale_step ? wide : 1);
  made.weights = (const uint8_t *)qv_data(q->s, w) + q->direction * depth * wide;
  made.zeros = z ? (const uint8_t *)qv_data(q->s, z) + q->direction * (made.zero_step ? wide : 1) : NULL;
  return made;
}

/* Computes y[j] = fl32(acc) * fl32(scale * scales[j]) for one row. */
static void multiply(const qv_recurrent *q, const side *of, const float *row, float *y) {
  int64_t wide = 4 * q->hidden;
  uint32_t *acc = (uint32_t *)(void *)q->packed, sum = 0;
  memset(acc, 0, (size_t)wide * 4);
  for (int64_t k = 0; k < of->depth; k++) {
    uint32_t by = (uint32_t)(qv_quantize(row[k], of->scale, of->zero, QV_U8) - of->zero);
    sum += by;
    if (of->dtype == QV_S8)
      for (int64_t j = 0; j < wide; j++) acc[j] += by * (uint32_t)(int32_t)((const int8_t *)of->weights)[k * wide + j];
    else
      for (int64_t j = 0; j < wide; j++) acc[j] += by * ((const uint8_t *)of->weights)[k * wide + j];
  }
  for (int64_t j = 0; j < wide; j++) {
    uint32_t zero = of->zeros ? (uint32_t)qv_load(of->zeros, of->dtype, j * of->zero_step) : 0;
    float by = of->scale * of->scales[j * of->scale_step];
    y[j] = (float)(int32_t)(acc[j] - sum * zero) * by;
  }
}

static void begin(qv_recurrent *q) {
  const float *x = qv_data(q->s, qv_in(q->s->model, q->n, QV_RNN_X));
  side of = side_of(q, QV_RNN_W, QV_RNN_W_SCALE, q->inputs);
  qv_recurrent_add_biases(q);
  qv_dynamic_parameters(x, q->steps * q->inputs, &of.scale, &of.zero);
  for (int64_t t = 0; t < q->steps; t++) multiply(q, &of, x + t * q->inputs, q->sums + t * 4 * q->hidden);
}

static void cell(qv_recurrent *q) {
  side of = side_of(q, QV_RNN_R, QV_RNN_R_SCALE, q->hidden);
  qv_dynamic_parameters(q->h, q->hidden, &of.scale, &of.zero);
  multiply(q, &of, q->h, q->gate);
  for (int64_t j = 0; j < 4 * q->hidden; j++) {
    float sum = q->now[j] + q->gate[j];
    q->gate[j] = qv_recurrent_float((double)(sum + q->added[j]));
  }
  qv_recurrent_lstm(q);
}

static qv_status lstm_integer_run(const qv_session *s, const qv_node *n) { return qv_recurrent_run(s, n, &OP, begin, cell); }

const qv_op qv_op_lstm_integer = {"lstm_integer", lstm_integer_check, NULL, lstm_integer_run};
