/* The largest or smallest elements along axis, in order, and their indices; of equal ones the first comes first. */
#include "op.h"

static qv_status top_k_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 2, 2);
  if (status != QV_OK) return status;
  if (!qv_in(m, n, 0)) return qv_fail_operands(m, n, "a first input");
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0), *index = qv_out(m, n, 1);
  if (!qv_same_quantization(x, y) || x->dtype == QV_F64 || index->dtype != QV_I64 || !qv_same_shape(y, index) || x->rank != y->rank)
    return qv_fail_operands(m, n, "values of the input's type, their indices of int64, of one shape");
  int32_t axis = qv_word(n, 0);
  if (axis < 0 || axis >= x->rank) return qv_fail(m, n, QV_E_FORMAT, "axis %d, wanted 0 to %d", axis, x->rank - 1);
  for (int k = 0; k < x->rank; k++)
    if (k == axis ? y->shape[k] > x->shape[k] : y->shape[k] != x->shape[k])
      return qv_fail(m, n, QV_E_FORMAT, "dim %d is %d, the input's is %d", k, y->shape[k], x->shape[k]);
  return QV_OK;
}

/* Whether element a comes before element b, whose index is lower: not where they are equal; NaN comes after every number. */
static int before(const void *from, int32_t dtype, int largest, int64_t a, int64_t b) {
  if (dtype == QV_F32) {
    float p = ((const float *)from)[a], q = ((const float *)from)[b];
    if (p != p) return 0;
    return q != q || (largest ? p > q : p < q);
  }
  int64_t p = qv_load64(from, dtype, a), q = qv_load64(from, dtype, b);
  return largest ? p > q : p < q;
}

static qv_status top_k_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int largest = qv_word(n, 1);
  int64_t inner = 1, size = x->shape[qv_word(n, 0)], kept = y->shape[qv_word(n, 0)];
  for (int k = qv_word(n, 0) + 1; k < x->rank; k++) inner *= x->shape[k];
  size_t bytes = qv_dtype_size(x->dtype);
  const uint8_t *from = qv_data(s, x);
  uint8_t *to = qv_data(s, y);
  int64_t *index = qv_data(s, qv_out(s->model, n, 1));
  for (int64_t line = 0; line < x->elements / size; line++) {
    int64_t first = line / inner * size * inner + line % inner, start = line / inner * kept * inner + line % inner, held = 0;
    for (int64_t i = 0; i < size; i++) {
      int64_t low = 0, high = held; /* the place of i among those held, after its equals */
      while (low < high) {
        int64_t middle = (low + high) / 2;
        if (before(from, x->dtype, largest, first + i * inner, first + index[start + middle * inner] * inner)) high = middle;
        else low = middle + 1;
      }
      if (low == kept) continue;
      held += held < kept;
      for (int64_t k = held - 1; k > low; k--) index[start + k * inner] = index[start + (k - 1) * inner];
      index[start + low * inner] = i;
    }
    for (int64_t k = 0; k < kept; k++)
      memcpy(to + (size_t)(start + k * inner) * bytes, from + (size_t)(first + index[start + k * inner] * inner) * bytes, bytes);
  }
  return QV_OK;
}

const qv_op qv_op_top_k = {"top_k", top_k_check, NULL, top_k_run};
