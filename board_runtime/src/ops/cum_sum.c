/* y = the sum of x up to each position along axis (NUMERICS.md, cum_sum). */
#include "op.h"

static qv_status cum_sum_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 3);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || x->dtype != y->dtype || (x->dtype != QV_F32 && !qv_is_index(x)) || !qv_same_shape(x, y))
    return qv_fail_operands(m, n, "float32, int32 or int64 in, the same type and shape out");
  int32_t axis = qv_word(n, 0);
  if (axis < 0 || axis >= x->rank) return qv_fail(m, n, QV_E_FORMAT, "axis %d, wanted 0 to %d", axis, x->rank - 1);
  for (int i = 1; i < 3; i++)
    if (qv_word(n, i) != 0 && qv_word(n, i) != 1) return qv_fail(m, n, QV_E_FORMAT, "word %d is %d, wanted 0 or 1", i, qv_word(n, i));
  return QV_OK;
}

static qv_status cum_sum_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0);
  int64_t inner = 1, size = x->shape[qv_word(n, 0)];
  for (int k = qv_word(n, 0) + 1; k < x->rank; k++) inner *= x->shape[k];
  int exclusive = qv_word(n, 1), reverse = qv_word(n, 2);
  const void *from = qv_data(s, x);
  void *to = qv_data(s, qv_out(s->model, n, 0));
  for (int64_t line = 0; line < x->elements / size; line++) {
    int64_t first = line / inner * size * inner + line % inner;
    double sum = 0.0;
    uint64_t whole = 0;
    for (int64_t i = 0; i < size; i++) {
      int64_t at = first + (reverse ? size - 1 - i : i) * inner;
      double before = sum;
      uint64_t whole_before = whole;
      if (x->dtype == QV_F32) {
        double term = (double)((const float *)from)[at];
        sum = i ? sum + term : term;
        ((float *)to)[at] = (float)(exclusive ? before : sum);
      } else {
        whole += (uint64_t)qv_load64(from, x->dtype, at);
        qv_store64(to, x->dtype, at, qv_wrapped(exclusive ? whole_before : whole));
      }
    }
  }
  return QV_OK;
}

const qv_op qv_op_cum_sum = {"cum_sum", cum_sum_check, NULL, cum_sum_run};
