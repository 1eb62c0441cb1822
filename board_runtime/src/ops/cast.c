/* y = x in another type; floats are truncated toward 0 (NUMERICS.md, cast). */
#include "op.h"

static int is_target(const qv_tensor *t) { return t->dtype == QV_F32 || t->dtype == QV_I32 || t->dtype == QV_I64 || t->dtype == QV_BOOL; }

static qv_status cast_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 0);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || !(is_target(x) || qv_is_8bit(x)) || !is_target(y) || !qv_same_shape(x, y))
    return qv_fail_operands(m, n, "float32, int32, int64, bool or 8 bits in; float32, int32, int64 or bool of its shape out");
  return QV_OK;
}

static void store_whole(void *to, int32_t dtype, int64_t i, int64_t v) {
  switch (dtype) {
    case QV_F32: ((float *)to)[i] = (float)v; break;
    case QV_I64: ((int64_t *)to)[i] = v; break;
    case QV_I32: ((uint32_t *)to)[i] = (uint32_t)(uint64_t)v; break;
    default: ((uint8_t *)to)[i] = v != 0; break;
  }
}

static void store_float(void *to, int32_t dtype, int64_t i, float v) {
  float end = dtype == QV_I64 ? 9223372036854775808.0f : 2147483648.0f;
  int inside = v >= -end && v < end; /* NaN is not */
  switch (dtype) {
    case QV_F32: memcpy((float *)to + i, &v, 4); break;
    case QV_I64: ((int64_t *)to)[i] = inside ? (int64_t)v : INT64_MIN; break;
    case QV_I32: ((int32_t *)to)[i] = inside ? (int32_t)v : INT32_MIN; break;
    default: ((uint8_t *)to)[i] = v != 0.0f; break;
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
