/* y[i] = x[start + i*step] in every dim. */
#include "op.h"

static qv_status slice_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, -1);
  if (status != QV_OK) return status;
  if ((status = qv_check_copy(m, n)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (x->rank != y->rank || n->n_words != 2 * x->rank)
    return qv_fail(m, n, QV_E_FORMAT, "%d words for rank %d in, %d out; wanted %d and one rank", n->n_words, x->rank, y->rank, 2 * x->rank);
  for (int k = 0; k < y->rank; k++) {
    int64_t first = qv_word(n, k), last = first + (int64_t)(y->shape[k] - 1) * qv_word(n, x->rank + k);
    if (first < 0 || first >= x->shape[k] || last < 0 || last >= x->shape[k])
      return qv_fail(m, n, QV_E_FORMAT, "dim %d reads %ld to %ld, wanted within 0 to %d", k, (long)first, (long)last, x->shape[k] - 1);
  }
  return QV_OK;
}

static qv_status slice_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int64_t stride[QV_MAX_RANK] = {0}, dense[QV_MAX_RANK] = {0}, start = 0;
  qv_broadcast_strides(x, x, dense);
  for (int k = 0; k < y->rank; k++) {
    stride[k] = dense[k] * qv_word(n, x->rank + k);
    start += dense[k] * qv_word(n, k);
  }
  qv_copy_strided(y, stride, start, qv_data(s, x), qv_data(s, y));
  return QV_OK;
}

const qv_op qv_op_slice = {"slice", slice_check, NULL, slice_run};
