/* y = x with updates written to the index tuples, one after the other. */
#include "scatter_reduction.h"

static qv_status scatter_nd_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 3, 1, 1);
  if (status != QV_OK) return status;
  if ((status = qv_check_scatter(m, n, qv_word(n, 0))) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *index = qv_in(m, n, 1), *updates = qv_in(m, n, 2);
  int tuples = index->rank - 1, depth = index->rank ? index->shape[tuples] : 0;
  if (depth < 1 || depth > x->rank) return qv_fail_operands(m, n, "tuples of 1 to %d indices", x->rank);
  if (updates->rank != tuples + x->rank - depth) return qv_fail_operands(m, n, "updates of rank %d", tuples + x->rank - depth);
  for (int k = 0; k < updates->rank; k++) {
    int32_t want = k < tuples ? index->shape[k] : x->shape[depth + k - tuples];
    if (updates->shape[k] != want) return qv_fail(m, n, QV_E_FORMAT, "dim %d of the updates is %d, wanted %d", k, updates->shape[k], want);
  }
  return QV_OK;
}

static qv_status scatter_nd_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *index = qv_in(s->model, n, 1);
  int depth = index->shape[index->rank - 1];
  int64_t inner = 1;
  for (int k = depth; k < x->rank; k++) inner *= x->shape[k];
  size_t bytes = (size_t)inner * qv_dtype_size(x->dtype);
  const uint8_t *updates = qv_data(s, qv_in(s->model, n, 2));
  uint8_t *to = qv_data(s, qv_out(s->model, n, 0));
  memcpy(to, qv_data(s, x), (size_t)x->dense_bytes);
  for (int64_t i = 0; i < index->elements / depth; i++, updates += bytes) {
    int64_t place = 0;
    for (int k = 0; k < depth; k++) {
      int64_t at = 0;
      qv_status status = qv_index(s, n, 1, i * depth + k, x->shape[k], &at);
      if (status != QV_OK) return status;
      place = place * x->shape[k] + at;
    }
    qv_scatter(to + (size_t)place * bytes, updates, x->dtype, inner, qv_word(n, 0));
  }
  return QV_OK;
}

const qv_op qv_op_scatter_nd = {"scatter_nd", scatter_nd_check, NULL, scatter_nd_run};
