/* y0, y1, ... = x cut along axis. */
#include "op.h"

static qv_status split_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, n->n_outputs, 1);
  if (status != QV_OK || (status = qv_check_copy(m, n)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0);
  int32_t axis = qv_word(n, 0);
  int64_t total = 0;
  if (axis < 0 || axis >= x->rank) return qv_fail(m, n, QV_E_FORMAT, "axis %d, wanted 0 to %d", axis, x->rank - 1);
  for (int i = 0; i < n->n_outputs; i++) {
    const qv_tensor *y = qv_out(m, n, i);
    if (y->rank != x->rank) return qv_fail(m, n, QV_E_FORMAT, "output %d has rank %d, wanted %d", i, y->rank, x->rank);
    for (int k = 0; k < x->rank; k++)
      if (k != axis && y->shape[k] != x->shape[k])
        return qv_fail(m, n, QV_E_FORMAT, "output %d: dim %d is %d, wanted %d", i, k, y->shape[k], x->shape[k]);
    total += y->shape[axis];
  }
  if (total != x->shape[axis])
    return qv_fail(m, n, QV_E_FORMAT, "outputs add up to %ld along axis %d, wanted %d", (long)total, axis, x->shape[axis]);
  return QV_OK;
}

static qv_status split_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0);
  int64_t dense[QV_MAX_RANK] = {0}, at = 0;
  qv_broadcast_strides(x, x, dense);
  for (int i = 0; i < n->n_outputs; i++) {
    const qv_tensor *y = qv_out(s->model, n, i);
    qv_copy_strided(y, dense, at, qv_data(s, x), qv_data(s, y));
    at += dense[qv_word(n, 0)] * y->shape[qv_word(n, 0)];
  }
  return QV_OK;
}

const qv_op qv_op_split = {"split", split_check, NULL, split_run};
