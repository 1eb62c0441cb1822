/* y = T[x - qmin(x)], where the table T contains any function of an 8-bit or 16-bit tensor. */
#include "op.h"

static qv_status lookup_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 2, 1, 0);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  const qv_tensor *table = qv_in(m, n, 1);
  if (!x || !table || !table->constant || !(qv_is_8bit(x) || qv_is_16bit(x)) || table->dtype != y->dtype || x->elements != y->elements ||
      table->elements != (qv_is_8bit(x) ? 256 : 65536))
    return qv_fail_operands(m, n, "8 or 16 bits in, as many elements out, and a constant table of 256 or 65536 of the output's dtype");
  return QV_OK;
}

static qv_status lookup_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  const void *from = qv_data(s, x), *table = qv_in(s->model, n, 1)->constant;
  void *to = qv_data(s, y);
  int32_t low = qv_qmin(x->dtype);
  if (qv_is_8bit(x) && qv_is_8bit(y)) {
    const uint8_t *in = from, *map = table;
    uint8_t *out = to, flip = x->dtype == QV_S8 ? 128 : 0;
    for (int64_t i = 0; i < y->elements; i++) out[i] = map[in[i] ^ flip];
    return QV_OK;
  }
  size_t size = qv_dtype_size(y->dtype);
  for (int64_t i = 0; i < y->elements; i++)
    memcpy((uint8_t *)to + (size_t)i * size, (const uint8_t *)table + (size_t)(qv_load(from, x->dtype, i) - low) * size, size);
  return QV_OK;
}

const qv_op qv_op_lookup = {"lookup", lookup_check, NULL, lookup_run};
