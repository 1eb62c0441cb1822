/* y = a - b * floor(a / b) on integers; a divisor of 0 is an error (NUMERICS.md, mod). */
#include "op.h"

typedef struct {
  const void *a, *b;
  void *y;
  int32_t dtype;
} dividing;

static void row(void *user, int64_t a, int64_t b, int64_t y, int64_t step_a, int64_t step_b, int64_t length) {
  const dividing *w = user;
  for (int64_t i = 0; i < length; i++, a += step_a, b += step_b) {
    int64_t by = qv_load64(w->b, w->dtype, b), left = by == -1 ? 0 : qv_load64(w->a, w->dtype, a) % by; /* INT64_MIN % -1 traps */
    if (left != 0 && (left < 0) != (by < 0)) left += by;
    qv_store64(w->y, w->dtype, y + i, left);
  }
}

static qv_status mod_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 2, 1, 0);
  if (status != QV_OK) return status;
  const qv_tensor *a = qv_in(m, n, 0), *b = qv_in(m, n, 1), *y = qv_out(m, n, 0);
  if ((status = qv_check_broadcast(m, n, 0, 1)) != QV_OK) return status;
  int integer = y->dtype == QV_I32 || y->dtype == QV_I64 || y->dtype == QV_U8 || y->dtype == QV_S8;
  if (!integer || a->dtype != y->dtype || b->dtype != y->dtype)
    return qv_fail_operands(m, n, "int32, int64, uint8 or int8 in and out, all of one type");
  return qv_check_divisors(m, n);
}

static qv_status mod_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *a = qv_in(s->model, n, 0), *b = qv_in(s->model, n, 1), *y = qv_out(s->model, n, 0);
  qv_status status = qv_divisors(s, n);
  if (status != QV_OK) return status;
  dividing w = {qv_data(s, a), qv_data(s, b), qv_data(s, y), y->dtype};
  qv_for_rows(a, b, y, row, &w);
  return QV_OK;
}

const qv_op qv_op_mod = {"mod", mod_check, NULL, mod_run};
