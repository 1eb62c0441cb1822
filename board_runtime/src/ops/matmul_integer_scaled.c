/* y = sum (a-za)(b-zb) * (sa * sb) + bias, each step after the sum in float32 (NUMERICS.md, matmul_integer_scaled). */
#include "integer_product.h"

static qv_status matmul_integer_scaled_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 7, 1, 0);
  if (status != QV_OK || (status = qv_check_integer_product(m, n, QV_F32)) != QV_OK) return status;
  const qv_tensor *sa = qv_in(m, n, 4), *sb = qv_in(m, n, 5), *bias = qv_in(m, n, 6), *y = qv_out(m, n, 0);
  int32_t columns = y->shape[y->rank - 1];
  if (!sa || !sb || sa->dtype != QV_F32 || sb->dtype != QV_F32 || sa->elements != 1 || (sb->elements != 1 && sb->elements != columns) ||
      (bias && (bias->dtype != QV_F32 || bias->elements != columns)))
    return qv_fail_operands(m, n, "float32 scales, one, and one or %d; float32 biases, %d or none", columns, columns);
  return QV_OK;
}

static qv_status matmul_integer_scaled_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *sb = qv_in(s->model, n, 5), *b = qv_in(s->model, n, 6), *y = qv_out(s->model, n, 0);
  const float *scale_a = qv_data(s, qv_in(s->model, n, 4)), *scale_b = qv_data(s, sb), *bias = b ? qv_data(s, b) : NULL;
  char *to = qv_data(s, y);
  int64_t columns = y->shape[y->rank - 1];
  qv_integer_product(s, n);
  for (int64_t i = 0; i < y->elements; i++) {
    int32_t acc;
    memcpy(&acc, to + i * 4, 4);
    int64_t j = i % columns;
    float by = scale_a[0] * scale_b[sb->elements == 1 ? 0 : j], v = (float)acc * by;
    if (bias) v = v + bias[j];
    memcpy(to + i * 4, &v, 4);
  }
  return QV_OK;
}

const qv_op qv_op_matmul_integer_scaled = {"matmul_integer_scaled", matmul_integer_scaled_check, NULL, matmul_integer_scaled_run};
