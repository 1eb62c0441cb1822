/* y = fl32(fl32(x*k) + b) per channel (axis 1). */
#include "op.h"

static qv_status batch_norm_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 3, 1, 0);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  const qv_tensor *k = qv_in(m, n, 1), *b = qv_in(m, n, 2);
  if (!x || !k || !b || x->rank < 2 || x->dtype != QV_F32 || y->dtype != QV_F32 || k->dtype != QV_F32 || b->dtype != QV_F32 ||
      k->elements != x->shape[1] || b->elements != x->shape[1] || x->elements != y->elements)
    return qv_fail_operands(m, n, "float32 of one size in and out, rank 2 or more, and two float32 values a channel");
  return QV_OK;
}

static qv_status batch_norm_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  const float *from = qv_data(s, x), *k = qv_data(s, qv_in(s->model, n, 1)), *b = qv_data(s, qv_in(s->model, n, 2));
  float *to = qv_data(s, y);
  int64_t channels = x->shape[1], plane = x->elements / x->shape[0] / channels;
  for (int64_t i = 0; i < x->elements; i++) {
    int64_t c = i / plane % channels;
    float scaled = from[i] * k[c];
    to[i] = scaled + b[c];
  }
  return QV_OK;
}

const qv_op qv_op_batch_norm = {"batch_norm", batch_norm_check, NULL, batch_norm_run};
