/* y = a sum, extremum or product of integers over the axes of the mask (NUMERICS.md, reduce_integer). */
#include "op.h"

enum { SUM, MAX, MIN, PROD, FUNCTIONS };

static qv_status reduce_integer_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 2);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || x->dtype != y->dtype || !(qv_is_index(x) || qv_is_8bit(x)))
    return qv_fail_operands(m, n, "int32, int64, uint8 or int8 in, the same out");
  if (qv_word(n, 0) < 0 || qv_word(n, 0) >= FUNCTIONS)
    return qv_fail(m, n, QV_E_FORMAT, "function %d, wanted 0 to %d", qv_word(n, 0), FUNCTIONS - 1);
  if ((uint32_t)qv_word(n, 1) >= 1u << x->rank) return qv_fail(m, n, QV_E_FORMAT, "axes 0x%x of rank %d", (unsigned)qv_word(n, 1), x->rank);
  int64_t kept = 1;
  for (int k = 0; k < x->rank; k++)
    if (!(qv_word(n, 1) >> k & 1)) kept *= x->shape[k];
  if (kept != y->elements) return qv_fail_operands(m, n, "%ld elements out over axes 0x%x", (long)kept, (unsigned)qv_word(n, 1));
  return QV_OK;
}

static int64_t combined(int32_t function, int64_t a, int64_t b) {
  switch (function) {
    case SUM: return qv_wrapped((uint64_t)a + (uint64_t)b);
    case MAX: return b > a ? b : a;
    case MIN: return b < a ? b : a;
    default: return qv_wrapped((uint64_t)a * (uint64_t)b);
  }
}

static qv_status reduce_integer_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int64_t stride[QV_MAX_RANK] = {0}, index[QV_MAX_RANK] = {0}, at = 0, step = 1;
  const void *from = qv_data(s, x);
  void *to = qv_data(s, y);
  for (int k = x->rank - 1; k >= 0; k--) {
    if (qv_word(n, 1) >> k & 1) continue;
    stride[k] = step;
    step *= x->shape[k];
  }
  for (int64_t i = 0; i < x->elements; i++) {
    int first = 1; /* 1 for the first element of x that is combined into this element of y */
    for (int k = 0; k < x->rank; k++) first &= !(qv_word(n, 1) >> k & 1) || index[k] == 0;
    int64_t v = qv_load64(from, x->dtype, i);
    qv_store64(to, y->dtype, at, first ? v : combined(qv_word(n, 0), qv_load64(to, y->dtype, at), v));
    for (int k = x->rank - 1; k >= 0; k--) {
      at += stride[k];
      if (++index[k] < x->shape[k]) break;
      at -= stride[k] * x->shape[k];
      index[k] = 0;
    }
  }
  return QV_OK;
}

const qv_op qv_op_reduce_integer = {"reduce_integer", reduce_integer_check, NULL, reduce_integer_run};
