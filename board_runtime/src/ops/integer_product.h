/* sum (a-za)(b-zb) in int32, which wraps, with numpy's matmul broadcasting; za is one number, zb one number or
   one per column. */
#ifndef QV_INTEGER_PRODUCT_H
#define QV_INTEGER_PRODUCT_H
#include "op.h"

/* Checks inputs 0 and 1, their zero points in inputs 2 and 3, and that the output has type dtype. */
static inline qv_status qv_check_integer_product(qv_model *m, const qv_node *n, int32_t dtype) {
  const qv_tensor *a = qv_in(m, n, 0), *b = qv_in(m, n, 1), *za = qv_in(m, n, 2), *zb = qv_in(m, n, 3), *y = qv_out(m, n, 0);
  if (!a || !b || !qv_is_8bit(a) || !qv_is_8bit(b) || y->dtype != dtype || a->rank < 2 || b->rank < 2 || y->rank < 2)
    return qv_fail_operands(m, n, "two 8-bit inputs of rank 2 or more, and an output of the op's type");
  int ra = a->rank, rb = b->rank, ry = y->rank;
  if (a->shape[ra - 1] != b->shape[rb - 2] || y->shape[ry - 2] != a->shape[ra - 2] || y->shape[ry - 1] != b->shape[rb - 1] ||
      ry != (ra > rb ? ra : rb))
    return qv_fail_operands(m, n, "(..., M, K) and (..., K, N) in, (..., M, N) out");
  for (int k = 0; k < ry - 2; k++) {
    int pa = ra - ry + k, pb = rb - ry + k;
    int32_t da = pa < 0 ? 1 : a->shape[pa], db = pb < 0 ? 1 : b->shape[pb];
    if ((da != 1 && db != 1 && da != db) || y->shape[k] != (da > db ? da : db))
      return qv_fail(m, n, QV_E_FORMAT, "dim %d is %d, wanted what %d and %d broadcast to", k, y->shape[k], da, db);
  }
  if ((za && (za->dtype != a->dtype || za->elements != 1)) ||
      (zb && (zb->dtype != b->dtype || (zb->elements != 1 && zb->elements != y->shape[ry - 1]))))
    return qv_fail_operands(m, n, "zero points of their operand's type: one, and one or %d", y->shape[ry - 1]);
  return QV_OK;
}

/* Computes one row of y: the sums of b times the elements of a minus za; then subtracts the share of b's
   zero points. */
static inline void qv_integer_row(const void *a, const qv_tensor *ta, int64_t at_a, int32_t za, const uint8_t *b, int is_signed,
                                  int64_t depth, int64_t columns, const void *zb, const qv_tensor *tzb, uint32_t *y) {
  uint32_t sum = 0;
  memset(y, 0, (size_t)columns * 4);
  for (int64_t k = 0; k < depth; k++, b += columns) {
    int32_t centred = qv_load(a, ta->dtype, at_a + k) - za;
    uint32_t by = (uint32_t)centred;
    sum += by;
    if (centred == 0) continue;
    if (is_signed)
      for (int64_t j = 0; j < columns; j++) y[j] += by * (uint32_t)(int32_t)((const int8_t *)b)[j];
    else
      for (int64_t j = 0; j < columns; j++) y[j] += by * b[j];
  }
  for (int64_t j = 0; tzb && j < columns; j++) y[j] -= sum * (uint32_t)qv_load(zb, tzb->dtype, tzb->elements == 1 ? 0 : j);
}

/* Writes the 32-bit sums of all elements of y to y's memory. */
static inline void qv_integer_product(const qv_session *s, const qv_node *n) {
  const qv_tensor *a = qv_in(s->model, n, 0), *b = qv_in(s->model, n, 1), *za = qv_in(s->model, n, 2), *zb = qv_in(s->model, n, 3);
  const qv_tensor *y = qv_out(s->model, n, 0);
  int64_t rows = a->shape[a->rank - 2], depth = a->shape[a->rank - 1], columns = b->shape[b->rank - 1];
  int32_t zero = za ? qv_load(qv_data(s, za), za->dtype, 0) : 0;
  const uint8_t *from_b = qv_data(s, b);
  uint32_t *to = qv_data(s, y);
  for (int64_t batch = 0, batches = y->elements / (rows * columns); batch < batches; batch++) {
    int64_t at_a = 0, at_b = 0, step_a = rows * depth, step_b = depth * columns, left = batch;
    for (int k = y->rank - 3; k >= 0; k--) {
      int ka = a->rank - y->rank + k, kb = b->rank - y->rank + k;
      int64_t index = left % y->shape[k];
      left /= y->shape[k];
      if (ka >= 0) at_a += a->shape[ka] == 1 ? 0 : index * step_a, step_a *= a->shape[ka];
      if (kb >= 0) at_b += b->shape[kb] == 1 ? 0 : index * step_b, step_b *= b->shape[kb];
    }
    for (int64_t i = 0; i < rows; i++, to += columns)
      qv_integer_row(qv_data(s, a), a, at_a + i * depth, zero, from_b + at_b, b->dtype == QV_S8, depth, columns, zb ? qv_data(s, zb) : NULL,
                     zb, to);
  }
}
#endif
