/* y, scale, zero point: x quantized to uint8 with the parameters of its own range, extended to include 0 (NUMERICS.md,
   dynamic_quantize). */
#include "op.h"
#include "../arithmetic/float32.h"

static qv_status dynamic_quantize_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 3, 0);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0), *scale = qv_out(m, n, 1), *zero = qv_out(m, n, 2);
  if (!x || x->dtype != QV_F32 || y->dtype != QV_U8 || !qv_same_shape(x, y) || scale->dtype != QV_F32 || scale->elements != 1 ||
      zero->dtype != QV_U8 || zero->elements != 1)
    return qv_fail_operands(m, n, "float32 in; uint8 of its shape, one float32 and one uint8 out");
  return QV_OK;
}

static qv_status dynamic_quantize_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0);
  const float *from = qv_data(s, x);
  uint8_t *to = qv_data(s, qv_out(s->model, n, 0));
  float scale;
  int32_t zero;
  qv_dynamic_parameters(from, x->elements, &scale, &zero);
  for (int64_t i = 0; i < x->elements; i++) to[i] = (uint8_t)qv_quantize(from[i], scale, zero, QV_U8);
  memcpy(qv_data(s, qv_out(s->model, n, 1)), &scale, 4);
  *(uint8_t *)qv_data(s, qv_out(s->model, n, 2)) = (uint8_t)zero;
  return QV_OK;
}

const qv_op qv_op_dynamic_quantize = {"dynamic_quantize", dynamic_quantize_check, NULL, dynamic_quantize_run};
