/* y = fl32(fl32(q-z)*s), per tensor or per channel. */
#include "op.h"
#include "../arithmetic/float32.h"
#include "../arithmetic/instructions.h"

static qv_status dequantize_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 0);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || !(qv_is_q(x) || (x->dtype == QV_I32 && x->n_scales > 0)) || y->dtype != QV_F32 || !qv_same_shape(x, y))
    return qv_fail_operands(m, n, "a quantized tensor in, float32 of its shape out");
  return QV_OK;
}

static qv_status dequantize_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  const qv_tensor *q = x;
  int64_t inner = 1, channels = 1;
  if (q->n_scales > 1) {
    channels = q->shape[q->channel_axis];
    for (int k = q->channel_axis + 1; k < q->rank; k++) inner *= q->shape[k];
  }
  const void *from = qv_data(s, x);
  float *to = qv_data(s, y);
  const qv_elementwise *kernels = s->plain_only || !qv_is_8bit(x) ? NULL : qv_chosen_instructions().elementwise;
  if (kernels) {
    int64_t run = channels > 1 ? inner : y->elements;
    for (int64_t i = 0; i < y->elements; i += run)
      kernels->dequantize((const uint8_t *)from + i, qv_byte_of(x->dtype, q->zero_point[i / run % channels]), q->scale[i / run % channels],
                          run, to + i);
    return QV_OK;
  }
  for (int64_t i = 0; i < y->elements; i++) {
    int64_t c = i / inner % channels;
    to[i] = qv_dequantize(qv_load(from, x->dtype, i), q->scale[c], q->zero_point[c]);
  }
  return QV_OK;
}

const qv_op qv_op_dequantize = {"dequantize", dequantize_check, NULL, dequantize_run};
