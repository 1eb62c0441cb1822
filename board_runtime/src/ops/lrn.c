/* y = fl32(x / pow64(bias + alpha/size * sum of x*x over neighbouring channels, beta)). */
#include "op.h"
#include "../arithmetic/float32.h"

static qv_status lrn_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 4);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || x->dtype != QV_F32 || y->dtype != QV_F32 || x->rank < 2 || x->elements != y->elements)
    return qv_fail_operands(m, n, "float32 of one size in and out, rank 2 or more");
  if (qv_word(n, 0) < 1) return qv_fail(m, n, QV_E_FORMAT, "word 0 is %d, wanted 1 or more", qv_word(n, 0));
  return QV_OK;
}

static qv_status lrn_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int64_t size = qv_word(n, 0), channels = x->shape[1], plane = x->elements / x->shape[0] / channels;
  double alpha = (double)qv_word_f32(n, 1), beta = (double)qv_word_f32(n, 2), bias = (double)qv_word_f32(n, 3);
  const float *from = qv_data(s, x);
  float *to = qv_data(s, y);
  for (int64_t i = 0; i < x->elements; i++) {
    int64_t c = i / plane % channels, first = c - (size - 1) / 2, last = c + size / 2;
    if (first < 0) first = 0;
    if (last >= channels) last = channels - 1;
    double sum = 0.0;
    for (int64_t k = first; k <= last; k++) {
      float v = from[i + (k - c) * plane];
      double square = qv_wide_product(v, v);
      sum = sum + square;
    }
    double product = (alpha / (double)size) * sum;
    to[i] = (float)((double)from[i] / qv_pow64(bias + product, beta));
  }
  return QV_OK;
}

const qv_op qv_op_lrn = {"lrn", lrn_check, NULL, lrn_run};
