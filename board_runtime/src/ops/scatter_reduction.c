/* The common part of scatter_elements and scatter_nd. */
#include "scatter_reduction.h"

qv_status qv_check_scatter(qv_model *m, const qv_node *n, int32_t reduction) {
  qv_status status = qv_check_copy(m, n);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *index = qv_in(m, n, 1), *updates = qv_in(m, n, 2), *y = qv_out(m, n, 0);
  if (!qv_is_index(index) || !updates || !qv_same_quantization(x, updates) || !qv_same_shape(x, y))
    return qv_fail_operands(m, n, "indices of int64 or int32, updates of the first input's type, an output of its shape");
  if (reduction < QV_SCATTER_NONE || reduction > QV_SCATTER_MIN)
    return qv_fail(m, n, QV_E_FORMAT, "reduction %d, wanted 0 to %d", reduction, QV_SCATTER_MIN);
  if (reduction != QV_SCATTER_NONE && x->dtype != QV_F32 && !qv_is_index(x))
    return qv_fail_operands(m, n, "float32, int32 or int64 for a reduction");
  return QV_OK;
}

static float of_floats(int32_t reduction, float a, float b) {
  switch (reduction) {
    case QV_SCATTER_ADD: return a + b;
    case QV_SCATTER_MUL: return a * b;
    case QV_SCATTER_MAX: return b > a ? b : a;
    default: return b < a ? b : a;
  }
}

static int64_t of_integers(int32_t reduction, int64_t a, int64_t b) {
  switch (reduction) {
    case QV_SCATTER_ADD: return qv_wrapped((uint64_t)a + (uint64_t)b);
    case QV_SCATTER_MUL: return qv_wrapped((uint64_t)a * (uint64_t)b);
    case QV_SCATTER_MAX: return b > a ? b : a;
    default: return b < a ? b : a;
  }
}

void qv_scatter(void *to, const void *from, int32_t dtype, int64_t count, int32_t reduction) {
  if (reduction == QV_SCATTER_NONE) {
    memcpy(to, from, (size_t)count * qv_dtype_size(dtype));
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    if (dtype == QV_F32) ((float *)to)[i] = of_floats(reduction, ((const float *)to)[i], ((const float *)from)[i]);
    else qv_store64(to, dtype, i, of_integers(reduction, qv_load64(to, dtype, i), qv_load64(from, dtype, i)));
  }
}
