/* y[i0, i1, ...] = x[index0[i0], index1[i1], ...]. */
#include "op.h"

static qv_status resize_nearest_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 2, 1, 0);
  if (status != QV_OK) return status;
  if ((status = qv_check_copy(m, n)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  const qv_tensor *index = qv_in(m, n, 1);
  int64_t entries = 0;
  if (x->rank != y->rank) return qv_fail_operands(m, n, "one rank in and out");
  for (int k = 0; k < y->rank; k++) entries += y->shape[k];
  if (!index || !index->constant || index->dtype != QV_I32 || index->elements != entries)
    return qv_fail_operands(m, n, "a constant int32 table of %ld indices", (long)entries);
  const int32_t *at = index->constant;
  for (int k = 0; k < y->rank; k++)
    for (int32_t i = 0; i < y->shape[k]; i++, at++)
      if (*at < 0 || *at >= x->shape[k])
        return qv_fail(m, n, QV_E_FORMAT, "index %d of dim %d is %d, wanted 0 to %d", i, k, *at, x->shape[k] - 1);
  return QV_OK;
}

static qv_status resize_nearest_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  const int32_t *table[QV_MAX_RANK] = {0};
  int64_t dense[QV_MAX_RANK] = {0}, index[QV_MAX_RANK] = {0};
  const int32_t *next = qv_in(s->model, n, 1)->constant;
  size_t size = qv_dtype_size(y->dtype);
  qv_broadcast_strides(x, x, dense);
  for (int k = 0; k < y->rank; k++) {
    table[k] = next;
    next += y->shape[k];
  }
  const uint8_t *from = qv_data(s, x);
  uint8_t *to = qv_data(s, y);
  int last = y->rank - 1;
  if (y->rank == 0) {
    memcpy(to, from, size);
    return QV_OK;
  }
  for (int64_t done = 0; done < y->elements; done += y->shape[last]) {
    int64_t row = 0;
    for (int k = 0; k < last; k++) row += dense[k] * table[k][index[k]];
    for (int32_t i = 0; i < y->shape[last]; i++, to += size) memcpy(to, from + (size_t)(row + table[last][i]) * size, size);
    for (int k = last - 1; k >= 0; k--) {
      if (++index[k] < y->shape[k]) break;
      index[k] = 0;
    }
  }
  return QV_OK;
}

const qv_op qv_op_resize_nearest = {"resize_nearest", resize_nearest_check, NULL, resize_nearest_run};
