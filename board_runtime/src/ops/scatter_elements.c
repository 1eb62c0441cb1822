/* y = x with updates written to the indices along axis, one after the other in row-major order. */
#include "scatter_reduction.h"

static qv_status scatter_elements_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 3, 1, 2);
  if (status != QV_OK) return status;
  if ((status = qv_check_scatter(m, n, qv_word(n, 1))) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *index = qv_in(m, n, 1);
  int32_t axis = qv_word(n, 0);
  if (axis < 0 || axis >= x->rank) return qv_fail(m, n, QV_E_FORMAT, "axis %d, wanted 0 to %d", axis, x->rank - 1);
  if (!qv_same_shape(index, qv_in(m, n, 2)) || index->rank != x->rank)
    return qv_fail_operands(m, n, "indices and updates of one shape, of the first input's rank");
  for (int k = 0; k < x->rank; k++)
    if (k != axis && index->shape[k] > x->shape[k])
      return qv_fail(m, n, QV_E_FORMAT, "dim %d of the indices is %d, wanted at most %d", k, index->shape[k], x->shape[k]);
  return QV_OK;
}

static qv_status scatter_elements_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *index = qv_in(s->model, n, 1);
  int32_t axis = qv_word(n, 0);
  int64_t stride[QV_MAX_RANK] = {0}, place[QV_MAX_RANK] = {0}, base = 0, step = 1;
  size_t size = qv_dtype_size(x->dtype);
  const uint8_t *updates = qv_data(s, qv_in(s->model, n, 2));
  uint8_t *to = qv_data(s, qv_out(s->model, n, 0));
  memcpy(to, qv_data(s, x), (size_t)x->dense_bytes);
  for (int k = x->rank - 1; k >= 0; step *= x->shape[k], k--) stride[k] = step;
  for (int64_t i = 0; i < index->elements; i++) {
    int64_t at = 0;
    qv_status status = qv_index(s, n, 1, i, x->shape[axis], &at);
    if (status != QV_OK) return status;
    qv_scatter(to + (size_t)(base + at * stride[axis]) * size, updates + (size_t)i * size, x->dtype, 1, qv_word(n, 1));
    for (int k = index->rank - 1; k >= 0; k--) {
      int64_t by = k == axis ? 0 : stride[k];
      base += by;
      if (++place[k] < index->shape[k]) break;
      base -= by * index->shape[k];
      place[k] = 0;
    }
  }
  return QV_OK;
}

const qv_op qv_op_scatter_elements = {"scatter_elements", scatter_elements_check, NULL, scatter_elements_run};
