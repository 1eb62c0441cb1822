/* y = sum (a-za)(b-zb) in int32, which wraps (NUMERICS.md, matmul_integer). */
#include "integer_product.h"

static qv_status matmul_integer_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 4, 1, 0);
  return status == QV_OK ? qv_check_integer_product(m, n, QV_I32) : status;
}

static qv_status matmul_integer_run(const qv_session *s, const qv_node *n) {
  qv_integer_product(s, n);
  return QV_OK;
}

const qv_op qv_op_matmul_integer = {"matmul_integer", matmul_integer_check, NULL, matmul_integer_run};
