/* y = sum over blocks of (s * sw) * sum q(w-z), + bias, in float64, rounded once (NUMERICS.md, matmul_blocks). */
#include "../arithmetic/float32.h"
#include "op.h"

#define LONGEST 256 /* elements of a block */

static int is_table(const qv_tensor *t, int32_t dtype, int64_t rows, int64_t columns) {
  return t && t->dtype == dtype && t->rank == 2 && t->shape[0] == rows && t->shape[1] == columns;
}

static qv_status matmul_blocks_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 6, 1, 0);
  if (status != QV_OK) return status;
  const qv_tensor *q = qv_in(m, n, 0), *s = qv_in(m, n, 1), *w = qv_in(m, n, 2), *bias = qv_in(m, n, 5), *y = qv_out(m, n, 0);
  if (!q || !s || !w || q->dtype != QV_S8 || s->dtype != QV_F32 || w->dtype != QV_U8 || y->dtype != QV_F32 || q->rank < 2 ||
      s->rank != q->rank || w->rank != 3 || y->rank != q->rank - 1)
    return qv_fail_operands(m, n, "int8, float32 of its rank and uint8 of rank 3 in, float32 out");
  int last = q->rank - 1;
  int32_t columns = w->shape[0], blocks = w->shape[1], length = w->shape[2];
  int wrong = q->shape[last] != length || q->shape[last - 1] != blocks || s->shape[last] != 1 || s->shape[last - 1] != blocks ||
              y->shape[last - 1] != columns;
  for (int k = 0; k < last - 1; k++) wrong |= s->shape[k] != q->shape[k] || y->shape[k] != q->shape[k];
  if (wrong || length > LONGEST)
    return qv_fail_operands(m, n, "(..., B, L), (..., B, 1) and (N, B, L) in, (..., N) out, L at most %d", LONGEST);
  if (!is_table(qv_in(m, n, 3), QV_F32, columns, blocks) || !is_table(qv_in(m, n, 4), QV_U8, columns, blocks))
    return qv_fail_operands(m, n, "float32 scales and uint8 zero points (%d, %d)", columns, blocks);
  if (bias && (bias->dtype != QV_F32 || bias->rank != 1 || bias->shape[0] != columns))
    return qv_fail_operands(m, n, "float32 biases (%d), or none", columns);
  return QV_OK;
}

static int32_t sum_products(const int8_t *q, const uint8_t *w, int32_t zero, int64_t length) {
  int32_t sum = 0;
  for (int64_t k = 0; k < length; k++) sum += q[k] * (w[k] - zero);
  return sum;
}

static qv_status matmul_blocks_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *q = qv_in(s->model, n, 0), *w = qv_in(s->model, n, 2), *b = qv_in(s->model, n, 5);
  const int8_t *rows = qv_data(s, q);
  const float *scale = qv_data(s, qv_in(s->model, n, 1)), *scale_w = qv_data(s, qv_in(s->model, n, 3)), *bias = b ? qv_data(s, b) : NULL;
  const uint8_t *weights = qv_data(s, w), *zero = qv_data(s, qv_in(s->model, n, 4));
  float *to = qv_data(s, qv_out(s->model, n, 0));
  int64_t columns = w->shape[0], blocks = w->shape[1], length = w->shape[2], count = q->elements / (blocks * length);
  for (int64_t j = 0; j < columns; j++)
    for (int64_t i = 0; i < count; i++) {
      double sum = 0;
      for (int64_t k = 0; k < blocks; k++) {
        int64_t left = i * blocks + k, right = j * blocks + k;
        int32_t acc = sum_products(rows + left * length, weights + right * length, zero[right], length);
        sum += qv_wide_product(scale[left], scale_w[right]) * (double)acc;
      }
      to[i * columns + j] = (float)(bias ? sum + (double)bias[j] : sum);
    }
  return QV_OK;
}

const qv_op qv_op_matmul_blocks = {"matmul_blocks", matmul_blocks_check, NULL, matmul_blocks_run};
