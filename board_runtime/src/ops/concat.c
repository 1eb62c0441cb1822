/* y = the inputs joined along axis; an input whose scale or zero point differs from y's is dequantized and
   quantized again. */
#include "op.h"
#include "../arithmetic/float32.h"

static qv_status concat_check(qv_model *m, qv_node *n) {
  const qv_tensor *y = qv_out(m, n, 0);
  qv_status status = qv_arity(m, n, n->n_inputs, 1, 1);
  if (status != QV_OK) return status;
  int32_t axis = qv_word(n, 0);
  int64_t total = 0;
  if (axis < 0 || axis >= y->rank) return qv_fail(m, n, QV_E_FORMAT, "axis %d, wanted 0 to %d", axis, y->rank - 1);
  for (int i = 0; i < n->n_inputs; i++) {
    const qv_tensor *x = qv_in(m, n, i);
    if (!x || x->rank != y->rank || !(qv_same_quantization(x, y) || (qv_is_q(x) && qv_is_q(y) && x->n_scales == 1 && y->n_scales == 1)))
      return qv_fail_operands(m, n, "input %d of the output's rank, and of its dtype and scale or both quantized with one scale", i);
    for (int k = 0; k < y->rank; k++)
      if (k != axis && x->shape[k] != y->shape[k])
        return qv_fail(m, n, QV_E_FORMAT, "input %d: dim %d is %d, wanted %d", i, k, x->shape[k], y->shape[k]);
    total += x->shape[axis];
  }
  if (total != y->shape[axis])
    return qv_fail(m, n, QV_E_FORMAT, "inputs add up to %ld along axis %d, wanted %d", (long)total, axis, y->shape[axis]);
  return QV_OK;
}

static qv_status concat_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *y = qv_out(s->model, n, 0);
  int32_t axis = qv_word(n, 0);
  int64_t inner = 1, outer = 1, at = 0;
  for (int k = axis + 1; k < y->rank; k++) inner *= y->shape[k];
  for (int k = 0; k < axis; k++) outer *= y->shape[k];
  size_t size = qv_dtype_size(y->dtype);
  uint8_t *to = qv_data(s, y);
  for (int i = 0; i < n->n_inputs; i++) {
    const qv_tensor *x = qv_in(s->model, n, i);
    const uint8_t *from = qv_data(s, x);
    int64_t run = x->shape[axis] * inner;
    for (int64_t o = 0; o < outer; o++) {
      int64_t target = o * y->shape[axis] * inner + at;
      if (qv_same_quantization(x, y)) {
        memcpy(to + (size_t)target * size, from + (size_t)(o * run) * size, (size_t)run * size);
        continue;
      }
      for (int64_t k = 0; k < run; k++)
        qv_store(to, y->dtype, target + k,
                 qv_quantize(qv_dequantize(qv_load(from, x->dtype, o * run + k), x->scale[0], x->zero_point[0]), y->scale[0],
                             y->zero_point[0], y->dtype));
    }
    at += run;
  }
  return QV_OK;
}

const qv_op qv_op_concat = {"concat", concat_check, NULL, concat_run};
