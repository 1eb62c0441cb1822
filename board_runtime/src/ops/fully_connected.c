/* y = clip(requantize(b + sum (x-zx)(w-zw), S) + zy): x [M,K], w [N,K]. */
#include "../arithmetic/requantize.h"

static qv_status fully_connected_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 4, 1, 2);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *k = qv_in(m, n, 1), *b = qv_in(m, n, 2), *y = qv_out(m, n, 0);
  if (!x || !k || !k->constant || !qv_is_q(x) || !qv_is_q(k) || x->n_scales != 1 || x->rank != 2 || k->rank != 2 || y->rank != 2 || x->shape[1] != k->shape[1] ||
      y->shape[0] != x->shape[0] || y->shape[1] != k->shape[0] || (k->n_scales > 1 && k->channel_axis != 0))
    return qv_fail(m, n, QV_E_FORMAT, "bad shapes or types");
  if (b && (!b->constant || b->elements != y->shape[1] || b->dtype != (qv_is_wide(x, k, y) ? QV_I64 : QV_I32))) return qv_fail(m, n, QV_E_FORMAT, "bad bias");
  return qv_check_rq(m, n, 3, y->shape[1], 0);
}

static qv_status fully_connected_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *k = qv_in(s->model, n, 1), *b = qv_in(s->model, n, 2), *y = qv_out(s->model, n, 0);
  int wide = qv_is_wide(x, k, y);
  int64_t depth = x->shape[1], outputs = y->shape[1];
  qv_requantizer r;
  qv_requantizer_of(s, n, 3, 0, wide, &r);
  const void *from = qv_data(s, x);
  for (int64_t i = 0; i < x->shape[0]; i++)
    for (int64_t o = 0; o < outputs; o++) {
      int64_t acc = !b ? 0 : b->dtype == QV_I64 ? ((const int64_t *)b->constant)[o] : ((const int32_t *)b->constant)[o];
      int32_t zero_x = x->zero_point[0], zero_w = qv_zero(k, o);
      for (int64_t p = 0; p < depth; p++)
        acc += (int64_t)(qv_load(from, x->dtype, i * depth + p) - zero_x) * (qv_load(k->constant, k->dtype, o * depth + p) - zero_w);
      qv_store(qv_data(s, y), y->dtype, i * outputs + o, qv_requantize(&r, wide ? acc : (int32_t)(uint32_t)acc, o));
    }
  return QV_OK;
}

const qv_op qv_op_fully_connected = {"fully_connected", fully_connected_check, NULL, fully_connected_run};
