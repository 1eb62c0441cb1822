/* y = ((dx2*dy2*X11 + dx1*dy2*X21) + dx2*dy1*X12) + dx1*dy1*X22, every step in float32. */
#include "op.h"
#include "../arithmetic/float32.h"

static float sample(const qv_tensor *x, const void *from, int truncate, int64_t at) {
  if (x->dtype == QV_F32) return ((const float *)from)[at];
  int32_t q = qv_load(from, x->dtype, at);
  return truncate ? (float)q : qv_dequantize(q, x->scale[0], x->zero_point[0]);
}

static qv_status resize_linear_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 3, 1, 1);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  const qv_tensor *index = qv_in(m, n, 1), *weight = qv_in(m, n, 2);
  if (!x || x->rank < 2 || x->rank != y->rank) return qv_fail_operands(m, n, "one rank in and out, 2 or more");
  if (qv_word(n, 0) & ~1) return qv_fail(m, n, QV_E_FORMAT, "word 0 is %d, wanted 0 or 1", qv_word(n, 0));
  int floats = x->dtype == QV_F32 && y->dtype == QV_F32 && !qv_word(n, 0);
  if (!floats && !(qv_is_q(x) && qv_is_q(y) && x->n_scales == 1 && y->n_scales == 1))
    return qv_fail_operands(m, n, "one scale each for a quantized input and output, or float32 for both and word 0 = 0");
  for (int k = 0; k < x->rank - 2; k++)
    if (x->shape[k] != y->shape[k])
      return qv_fail(m, n, QV_E_FORMAT, "dim %d is %d in and %d out, wanted a change in the last two dims only", k, x->shape[k],
                     y->shape[k]);
  int64_t rows = y->shape[y->rank - 2], columns = y->shape[y->rank - 1];
  if (!index || !weight || !index->constant || !weight->constant || index->dtype != QV_I32 || weight->dtype != QV_F32 ||
      index->elements != 2 * (rows + columns) || weight->elements != index->elements)
    return qv_fail_operands(m, n, "constant tables of %ld int32 indices and float32 weights", (long)(2 * (rows + columns)));
  const int32_t *at = index->constant;
  for (int64_t i = 0; i < index->elements; i++)
    if (at[i] < 0 || at[i] >= x->shape[i < 2 * rows ? x->rank - 2 : x->rank - 1])
      return qv_fail(m, n, QV_E_FORMAT, "index %ld is %d, wanted 0 to %d", (long)i, at[i],
                     x->shape[i < 2 * rows ? x->rank - 2 : x->rank - 1] - 1);
  return QV_OK;
}

static qv_status resize_linear_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int64_t rows = y->shape[y->rank - 2], columns = y->shape[y->rank - 1], width = x->shape[x->rank - 1],
          plane = width * x->shape[x->rank - 2];
  const int32_t *r1 = qv_in(s->model, n, 1)->constant, *r2 = r1 + rows, *c1 = r2 + rows, *c2 = c1 + columns;
  const float *dy2 = qv_in(s->model, n, 2)->constant, *dy1 = dy2 + rows, *dx2 = dy1 + rows, *dx1 = dx2 + columns;
  const void *from = qv_data(s, x);
  void *to = qv_data(s, y);
  int truncate = qv_word(n, 0);
  int64_t at = 0;
  for (int64_t p = 0; p < x->elements; p += plane)
    for (int64_t i = 0; i < rows; i++) {
      int64_t top = p + r1[i] * width, bottom = p + r2[i] * width;
      for (int64_t j = 0; j < columns; j++, at++) {
        float v = (dx2[j] * dy2[i]) * sample(x, from, truncate, top + c1[j]);
        float b = (dx1[j] * dy2[i]) * sample(x, from, truncate, top + c2[j]);
        float c = (dx2[j] * dy1[i]) * sample(x, from, truncate, bottom + c1[j]);
        float d = (dx1[j] * dy1[i]) * sample(x, from, truncate, bottom + c2[j]);
        v = ((v + b) + c) + d;
        if (y->dtype == QV_F32) ((float *)to)[at] = v;
        else qv_store(to, y->dtype, at, truncate ? (int32_t)v : qv_quantize(v, y->scale[0], y->zero_point[0], y->dtype));
      }
    }
  return QV_OK;
}

const qv_op qv_op_resize_linear = {"resize_linear", resize_linear_check, NULL, resize_linear_run};
