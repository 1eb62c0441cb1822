/* y = x with another shape. */
#include "op.h"

static qv_status reshape_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 0);
  if (status != QV_OK) return status;
  if ((status = qv_check_copy(m, n)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (x->elements != y->elements) return qv_fail_operands(m, n, "as many elements out as in");
  return QV_OK;
}

static qv_status reshape_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  memcpy(qv_data(s, y), qv_data(s, x), (size_t)y->dense_bytes);
  return QV_OK;
}

const qv_op qv_op_reshape = {"reshape", reshape_check, NULL, reshape_run};
