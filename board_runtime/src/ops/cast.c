/* y = x in another type; floats are truncated toward 0 (NUMERICS.md, cast). */
#include "op.h"

static int is_of_type(const qv_tensor *t) { return t && t->dtype != QV_F64; }

static qv_status cast_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 0);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!is_of_type(x) || !is_of_type(y) || !qv_same_shape(x, y))
    return qv_fail_operands(m, n, "any type but float64 in, any but float64 of its shape out");
  return QV_OK;
}

static void store_whole(void *to, int32_t dtype, int64_t i, int64_t v) {
  if (dtype == QV_F32) ((float *)to)[i] = (float)v;
  else qv_store64(to, dtype, i, dtype == QV_BOOL ? v != 0 : v);
}

static void store_float(void *to, int32_t dtype, int64_t i, float v) {
  float end = dtype == QV_I64 ? 9223372036854775808.0f : 2147483648.0f;
  int inside = v >= -end && v < end; /* 0 for NaN */
  switch (dtype) {
    case QV_F32: memcpy((float *)to + i, &v, 4); break;
    case QV_I64: ((int64_t *)to)[i] = inside ? (int64_t)v : INT64_MIN; break;
    case QV_BOOL: ((uint8_t *)to)[i] = v != 0.0f; break;
    default: qv_store(to, dtype, i, inside ? (int32_t)v : INT32_MIN); break; /* 8 and 16 bits: the low bits */
  }
}

static qv_status cast_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  const void *from = qv_data(s, x);
  void *to = qv_data(s, y);
  for (int64_t i = 0; i < x->elements; i++) {
    if (x->dtype == QV_F32) store_float(to, y->dtype, i, ((const float *)from)[i]);
    else store_whole(to, y->dtype, i, x->dtype == QV_I64 ? ((const int64_t *)from)[i] : qv_load(from, x->dtype, i));
  }
  return QV_OK;
}

const qv_op qv_op_cast = {"cast", cast_check, NULL, cast_run};
