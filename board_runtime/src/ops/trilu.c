/* y = x on and to one side of a diagonal of the last two dims, 0 on the other side. */
#include "op.h"

static qv_status trilu_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 2);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || x->dtype != y->dtype || x->n_scales || y->n_scales || x->rank < 2 || !qv_same_shape(x, y))
    return qv_fail_operands(m, n, "matrices that are not quantized, in and out alike");
  return QV_OK;
}

static qv_status trilu_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  size_t size = qv_dtype_size(x->dtype);
  int64_t rows = x->shape[x->rank - 2], columns = x->shape[x->rank - 1];
  const uint8_t *from = qv_data(s, x);
  uint8_t *to = qv_data(s, y);
  for (int64_t i = 0; i < x->elements; i++, from += size, to += size) {
    int64_t right = i % columns - i / columns % rows; /* columns to the right of the main diagonal */
    if (qv_word(n, 1) ? right >= qv_word(n, 0) : right <= qv_word(n, 0)) memcpy(to, from, size);
    else memset(to, 0, size);
  }
  return QV_OK;
}

const qv_op qv_op_trilu = {"trilu", trilu_check, NULL, trilu_run};
