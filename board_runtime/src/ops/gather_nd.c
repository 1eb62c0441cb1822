/* y = the slices of x at the index tuples, separately for each batch; negative indices count from the end. */
#include "op.h"

/* Returns the length of an index tuple, which is the number of x's dims that it indexes. */
static int depth_of(const qv_tensor *index) { return index->shape[index->rank - 1]; }

static qv_status gather_nd_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 2, 1, 1);
  if (status != QV_OK) return status;
  if ((status = qv_check_copy(m, n)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *index = qv_in(m, n, 1), *y = qv_out(m, n, 0);
  int32_t batch = qv_word(n, 0);
  if (!qv_is_index(index) || index->rank < 1) return qv_fail_operands(m, n, "indices of int64 or int32, of rank 1 or more");
  if (batch < 0 || batch >= index->rank || batch >= x->rank || depth_of(index) < 1 || depth_of(index) > x->rank - batch)
    return qv_fail_operands(m, n, "fewer batch dims than %d, and tuples of 1 to %d indices", batch, x->rank - batch);
  int fixed = batch + depth_of(index), rank = index->rank - 1 + x->rank - fixed;
  if (y->rank != rank) return qv_fail_operands(m, n, "an output of rank %d", rank);
  for (int k = 0; k < rank; k++) {
    int32_t want = k < index->rank - 1 ? index->shape[k] : x->shape[fixed + k - (index->rank - 1)];
    if (y->shape[k] != want || (k < batch && x->shape[k] != want))
      return qv_fail(m, n, QV_E_FORMAT, "dim %d is %d, wanted %d", k, y->shape[k], want);
  }
  return QV_OK;
}

static qv_status gather_nd_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *index = qv_in(s->model, n, 1);
  int batch = qv_word(n, 0), depth = depth_of(index);
  int64_t batches = 1, inner = 1, tuples = index->elements / depth;
  for (int k = 0; k < batch; k++) batches *= x->shape[k];
  for (int k = batch + depth; k < x->rank; k++) inner *= x->shape[k];
  size_t bytes = (size_t)inner * qv_dtype_size(x->dtype);
  const uint8_t *from = qv_data(s, x);
  uint8_t *to = qv_data(s, qv_out(s->model, n, 0));
  for (int64_t i = 0; i < tuples; i++, to += bytes) {
    int64_t place = i / (tuples / batches);
    for (int k = 0; k < depth; k++) {
      int64_t at = 0;
      qv_status status = qv_index(s, n, 1, i * depth + k, x->shape[batch + k], &at);
      if (status != QV_OK) return status;
      place = place * x->shape[batch + k] + at;
    }
    memcpy(to, from + (size_t)place * bytes, bytes);
  }
  return QV_OK;
}

const qv_op qv_op_gather_nd = {"gather_nd", gather_nd_check, NULL, gather_nd_run};
