/* y = clip(requantize(sum over the plane of (x-zx), S) + zy), or a quotient of integers. */
#include "op.h"
#include "../arithmetic/requantize.h"

static qv_status global_average_pool_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 2, 1, 2);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || !qv_is_q(x) || x->n_scales != 1 || x->rank < 3 || y->rank != x->rank || y->shape[0] != x->shape[0] ||
      y->shape[1] != x->shape[1] || y->elements != (int64_t)x->shape[0] * x->shape[1])
    return qv_fail_operands(m, n, "(N, C, ...) quantized with one scale, to (N, C, 1 ...)");
  return qv_is_quotient(qv_in(m, n, 1)) ? qv_check_quotient(m, n, qv_in(m, n, 1), 0) : qv_check_rq(m, n, 1, 1, 0);
}

static qv_status global_average_pool_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int64_t plane = x->elements / y->elements;
  int wide = qv_is_wide(x, NULL, y), divides = qv_is_quotient(qv_in(s->model, n, 1));
  qv_requantizer r;
  qv_requantizer_of(s, n, 1, 0, wide, &r);
  const void *from = qv_data(s, x);
  for (int64_t c = 0; c < y->elements; c++) {
    int64_t acc = 0;
    for (int64_t i = 0; i < plane; i++) acc += qv_load(from, x->dtype, c * plane + i) - x->zero_point[0];
    int32_t v = divides ? qv_quotient(&r, acc, plane) : qv_requantize(&r, wide ? acc : (int32_t)(uint32_t)acc, 0);
    qv_store(qv_data(s, y), y->dtype, c, v);
  }
  return QV_OK;
}

const qv_op qv_op_global_average_pool = {"global_average_pool", global_average_pool_check, NULL, global_average_pool_run};
