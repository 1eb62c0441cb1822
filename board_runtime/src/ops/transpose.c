/* y[i_perm] = x[i]: dim k of y is dim word k of x. */
#include "op.h"

static qv_status transpose_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, -1);
  if (status != QV_OK) return status;
  if ((status = qv_check_copy(m, n)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  uint32_t seen = 0;
  if (n->n_words != x->rank || x->rank != y->rank)
    return qv_fail(m, n, QV_E_FORMAT, "%d words for rank %d in, %d out; wanted %d and one rank", n->n_words, x->rank, y->rank, x->rank);
  for (int k = 0; k < y->rank; k++) {
    int32_t from = qv_word(n, k);
    if (from < 0 || from >= x->rank || (seen >> from & 1))
      return qv_fail(m, n, QV_E_FORMAT, "word %d is %d, wanted each of 0 to %d once", k, from, x->rank - 1);
    if (y->shape[k] != x->shape[from]) return qv_fail(m, n, QV_E_FORMAT, "dim %d is %d, wanted %d", k, y->shape[k], x->shape[from]);
    seen |= 1u << from;
  }
  return QV_OK;
}

static qv_status transpose_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int64_t stride[QV_MAX_RANK] = {0}, dense[QV_MAX_RANK] = {0};
  qv_broadcast_strides(x, x, dense);
  for (int k = 0; k < y->rank; k++) stride[k] = y->shape[k] == 1 ? 0 : dense[qv_word(n, k)];
  qv_copy_strided(y, stride, 0, qv_data(s, x), qv_data(s, y));
  return QV_OK;
}

const qv_op qv_op_transpose = {"transpose", transpose_check, NULL, transpose_run};
