/* y = clip(RNE(fl32(x/s)) + z), per tensor or per channel. */
#include "op.h"
#include "../arithmetic/float32.h"
#include "../arithmetic/instructions.h"

static qv_status quantize_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 0);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || x->dtype != QV_F32 || !qv_is_q(y) || !qv_same_shape(x, y))
    return qv_fail_operands(m, n, "float32 in, a quantized tensor of its shape out");
  return QV_OK;
}

static qv_status quantize_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  const qv_tensor *q = y;
  int64_t inner = 1, channels = 1;
  if (q->n_scales > 1) {
    channels = q->shape[q->channel_axis];
    for (int k = q->channel_axis + 1; k < q->rank; k++) inner *= q->shape[k];
  }
  const float *from = qv_data(s, x);
  void *to = qv_data(s, y);
  const qv_elementwise *kernels = s->plain_only || !qv_is_8bit(y) ? NULL : qv_chosen_instructions().elementwise;
  if (kernels) {
    int64_t run = channels > 1 ? inner : y->elements;
    for (int64_t i = 0; i < y->elements; i += run)
      kernels->quantize(from + i, q->scale[i / run % channels], q->zero_point[i / run % channels], y->dtype, run, (uint8_t *)to + i);
    return QV_OK;
  }
  for (int64_t i = 0; i < y->elements; i++) {
    int64_t c = i / inner % channels;
    qv_store(to, y->dtype, i, qv_quantize(from[i], q->scale[c], q->zero_point[c], y->dtype));
  }
  return QV_OK;
}

const qv_op qv_op_quantize = {"quantize", quantize_check, NULL, quantize_run};
