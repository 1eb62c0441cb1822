/* y = cond ? a : b; an operand whose scale or zero point differs from y's is dequantized and quantized again. */
#include "op.h"
#include "../arithmetic/float32.h"

static qv_status where_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 3, 1, 0);
  if (status != QV_OK) return status;
  const qv_tensor *cond = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if ((status = qv_check_broadcast(m, n, 0, 2)) != QV_OK) return status;
  if (cond->dtype != QV_BOOL) return qv_fail_operands(m, n, "a bool condition");
  for (int i = 1; i < 3; i++) {
    const qv_tensor *x = qv_in(m, n, i);
    if (!qv_same_quantization(x, y) && !(qv_is_q(x) && qv_is_q(y) && x->n_scales == 1 && y->n_scales == 1))
      return qv_fail_operands(m, n, "branch %d of the output's dtype and scale, or both quantized with one scale", i);
  }
  return QV_OK;
}

static qv_status where_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *y = qv_out(s->model, n, 0);
  int64_t stride[3][QV_MAX_RANK] = {{0}}, at[3] = {0}, index[QV_MAX_RANK] = {0};
  size_t size = qv_dtype_size(y->dtype);
  uint8_t *to = qv_data(s, y);
  for (int i = 0; i < 3; i++) qv_broadcast_strides(qv_in(s->model, n, i), y, stride[i]);
  const uint8_t *cond = qv_data(s, qv_in(s->model, n, 0));
  for (int64_t done = 0; done < y->elements; done++) {
    int pick = cond[at[0]] ? 1 : 2;
    const qv_tensor *x = qv_in(s->model, n, pick);
    const uint8_t *from = qv_data(s, x);
    if (qv_same_quantization(x, y)) memcpy(to + (size_t)done * size, from + (size_t)at[pick] * size, size);
    else
      qv_store(to, y->dtype, done,
               qv_quantize(qv_dequantize(qv_load(from, x->dtype, at[pick]), x->scale[0], x->zero_point[0]), y->scale[0], y->zero_point[0],
                           y->dtype));
    for (int k = y->rank - 1; k >= 0; k--) {
      for (int i = 0; i < 3; i++) at[i] += stride[i][k];
      if (++index[k] < y->shape[k]) break;
      for (int i = 0; i < 3; i++) at[i] -= stride[i][k] * y->shape[k];
      index[k] = 0;
    }
  }
  return QV_OK;
}

const qv_op qv_op_where = {"where", where_check, NULL, where_run};
