/* y = clip(requantize(sum (x-zx), sx/(sy*count)) + zy); for float32 fl32(sequential float64 sum / count). */
#include "op.h"
#include "../arithmetic/requantize.h"

static qv_status reduce_mean_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 2, 1, 3);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || (x->dtype == QV_F32) != (y->dtype == QV_F32) || (x->dtype != QV_F32 && !(qv_is_q(x) && x->n_scales == 1)))
    return qv_fail_operands(m, n, "float32 in and out, or a quantized input of one scale and a quantized output");
  if ((uint32_t)qv_word(n, 0) >= 1u << x->rank) return qv_fail(m, n, QV_E_FORMAT, "axes 0x%x of rank %d", (unsigned)qv_word(n, 0), x->rank);
  int64_t kept = 1;
  for (int k = 0; k < x->rank; k++)
    if (!(qv_word(n, 0) >> k & 1)) kept *= x->shape[k];
  if (kept != y->elements) return qv_fail_operands(m, n, "%ld elements out over axes 0x%x", (long)kept, (unsigned)qv_word(n, 0));
  if (x->dtype != QV_F32 && (status = qv_check_rq(m, n, 1, 1, 1)) != QV_OK) return status;
  return QV_OK;
}

static qv_status reduce_mean_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int64_t dense[QV_MAX_RANK] = {0}, out_index[QV_MAX_RANK] = {0}, count = x->elements / y->elements;
  int wide = qv_is_wide(x, NULL, y);
  qv_broadcast_strides(x, x, dense);
  const void *from = qv_data(s, x);
  qv_requantizer r;
  if (x->dtype != QV_F32) qv_requantizer_of(s, n, 1, 1, wide, &r);
  for (int64_t at = 0; at < y->elements; at++) {
    int64_t base = 0, in_index[QV_MAX_RANK] = {0}, acc = 0;
    double total = 0.0;
    for (int k = 0; k < x->rank; k++) base += dense[k] * out_index[k];
    for (int64_t i = 0; i < count; i++) {
      int64_t where = base;
      for (int k = 0; k < x->rank; k++) where += dense[k] * in_index[k];
      if (x->dtype == QV_F32) {
        total = i ? total + (double)((const float *)from)[where] : (double)((const float *)from)[where];
      } else {
        acc += qv_load(from, x->dtype, where) - x->zero_point[0];
      }
      for (int k = x->rank - 1; k >= 0; k--) {
        if (!(qv_word(n, 0) >> k & 1)) continue;
        if (++in_index[k] < x->shape[k]) break;
        in_index[k] = 0;
      }
    }
    if (x->dtype == QV_F32) ((float *)qv_data(s, y))[at] = (float)(total / (double)count);
    else qv_store(qv_data(s, y), y->dtype, at, qv_requantize(&r, wide ? acc : (int32_t)(uint32_t)acc, 0));
    for (int k = x->rank - 1; k >= 0; k--) {
      if (qv_word(n, 0) >> k & 1) continue;
      if (++out_index[k] < x->shape[k]) break;
      out_index[k] = 0;
    }
  }
  return QV_OK;
}

const qv_op qv_op_reduce_mean = {"reduce_mean", reduce_mean_check, NULL, reduce_mean_run};
