/* y = x at indices along axis; negative indices count from the end. */
#include "op.h"

static qv_status gather_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 2, 1, 1);
  if (status != QV_OK) return status;
  if ((status = qv_check_copy(m, n)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  const qv_tensor *index = qv_in(m, n, 1);
  int32_t axis = qv_word(n, 0);
  if (!qv_is_index(index)) return qv_fail_operands(m, n, "indices of int64 or int32");
  if (axis < 0 || axis >= x->rank) return qv_fail(m, n, QV_E_FORMAT, "axis %d, wanted 0 to %d", axis, x->rank - 1);
  if (y->rank != x->rank - 1 + index->rank) return qv_fail_operands(m, n, "an output of rank %d", x->rank - 1 + index->rank);
  for (int k = 0; k < y->rank; k++) {
    int32_t want = k < axis ? x->shape[k] : k < axis + index->rank ? index->shape[k - axis] : x->shape[k - index->rank + 1];
    if (y->shape[k] != want) return qv_fail(m, n, QV_E_FORMAT, "dim %d is %d, wanted %d", k, y->shape[k], want);
  }
  return QV_OK;
}

static qv_status gather_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  const qv_tensor *index = qv_in(s->model, n, 1);
  int32_t axis = qv_word(n, 0);
  int64_t inner = (int64_t)qv_dtype_size(x->dtype), outer = 1, size = x->shape[axis];
  for (int k = axis + 1; k < x->rank; k++) inner *= x->shape[k];
  for (int k = 0; k < axis; k++) outer *= x->shape[k];
  const uint8_t *from = qv_data(s, x);
  uint8_t *to = qv_data(s, y);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < index->elements; i++, to += inner) {
      int64_t at = 0;
      qv_status status = qv_index(s, n, 1, i, size, &at);
      if (status != QV_OK) return status;
      memcpy(to, from + (o * size + at) * inner, (size_t)inner);
    }
  return QV_OK;
}

const qv_op qv_op_gather = {"gather", gather_check, NULL, gather_run};
