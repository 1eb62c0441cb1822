/* y[i] = x at position i with its coordinate along axis replaced by index[i]; negative indices count from the end. */
#include "op.h"

static qv_status gather_elements_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 2, 1, 1);
  if (status != QV_OK) return status;
  if ((status = qv_check_copy(m, n)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *index = qv_in(m, n, 1), *y = qv_out(m, n, 0);
  int32_t axis = qv_word(n, 0);
  if (!qv_is_index(index) || !qv_same_shape(index, y)) return qv_fail_operands(m, n, "indices of int64 or int32, of the output's shape");
  if (axis < 0 || axis >= x->rank) return qv_fail(m, n, QV_E_FORMAT, "axis %d, wanted 0 to %d", axis, x->rank - 1);
  if (x->rank != y->rank) return qv_fail_operands(m, n, "an output of rank %d", x->rank);
  for (int k = 0; k < y->rank; k++)
    if (k != axis && y->shape[k] > x->shape[k])
      return qv_fail(m, n, QV_E_FORMAT, "dim %d is %d, wanted at most %d", k, y->shape[k], x->shape[k]);
  return QV_OK;
}

static qv_status gather_elements_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int32_t axis = qv_word(n, 0);
  int64_t stride[QV_MAX_RANK] = {0}, place[QV_MAX_RANK] = {0}, base = 0, step = 1;
  size_t size = qv_dtype_size(x->dtype);
  const uint8_t *from = qv_data(s, x);
  uint8_t *to = qv_data(s, y);
  for (int k = x->rank - 1; k >= 0; step *= x->shape[k], k--) stride[k] = step;
  for (int64_t i = 0; i < y->elements; i++) {
    int64_t at = 0;
    qv_status status = qv_index(s, n, 1, i, x->shape[axis], &at);
    if (status != QV_OK) return status;
    memcpy(to + (size_t)i * size, from + (size_t)(base + at * stride[axis]) * size, size);
    for (int k = y->rank - 1; k >= 0; k--) {
      int64_t by = k == axis ? 0 : stride[k];
      base += by;
      if (++place[k] < y->shape[k]) break;
      base -= by * y->shape[k];
      place[k] = 0;
    }
  }
  return QV_OK;
}

const qv_op qv_op_gather_elements = {"gather_elements", gather_elements_check, NULL, gather_elements_run};
