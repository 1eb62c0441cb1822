/* The common part of arg_max and arg_min. */
#include "arg_search.h"

qv_status qv_check_arg(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 2);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || y->dtype != QV_I64 || x->dtype == QV_F64) return qv_fail_operands(m, n, "no float64 in, int64 out");
  int32_t axis = qv_word(n, 0);
  if (axis < 0 || axis >= x->rank) return qv_fail(m, n, QV_E_FORMAT, "axis %d, wanted 0 to %d", axis, x->rank - 1);
  if (y->elements * x->shape[axis] != x->elements) return qv_fail_operands(m, n, "an output without axis %d, or with 1 there", axis);
  return QV_OK;
}

void qv_arg(const qv_session *s, const qv_node *n, int least) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int32_t axis = qv_word(n, 0);
  int64_t inner = 1, size = x->shape[axis];
  for (int k = axis + 1; k < x->rank; k++) inner *= x->shape[k];
  const void *from = qv_data(s, x);
  int64_t *to = qv_data(s, y);
  for (int64_t at = 0; at < y->elements; at++) {
    int64_t start = at / inner * size * inner + at % inner, best = 0;
    for (int64_t i = 1; i < size; i++) {
      int64_t a = start + i * inner, b = start + best * inner;
      if (least) {
        int64_t other = a;
        a = b;
        b = other;
      }
      int more, equal;
      if (x->dtype == QV_F32) {
        float p = ((const float *)from)[a], q = ((const float *)from)[b];
        more = p > q;
        equal = p == q;
      } else {
        int64_t p = qv_load64(from, x->dtype, a), q = qv_load64(from, x->dtype, b);
        more = p > q;
        equal = p == q;
      }
      if (more || (equal && qv_word(n, 1))) best = i;
    }
    to[at] = best;
  }
}
