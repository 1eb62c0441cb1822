/* y = x rounded to float16 (nearest, ties to even), stored as float32 or, at the ends of the graph, as float16. */
#include "op.h"
#include <math.h>

static int is_float(const qv_tensor *t) { return t->dtype == QV_F32 || t->dtype == QV_F16; }

static qv_status half_float_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 0);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || !is_float(x) || !is_float(y) || (x->dtype == QV_F16 && y->dtype == QV_F16) || x->elements != y->elements)
    return qv_fail_operands(m, n, "float32 in and out, or one of them float16, of one shape");
  return QV_OK;
}

static float rounded(float x) {
  if (x != x) return NAN;
  uint32_t bits;
  memcpy(&bits, &x, 4);
  uint32_t sign = bits & 0x80000000u, size = bits & 0x7FFFFFFFu;
  if (size >= 0x477FF000u) size = 0x7F800000u; /* 65520 and more */
  else if (size >= 0x38800000u) size = (size + 0xFFFu + (size >> 13 & 1u)) & ~0x1FFFu;
  else { /* below 2^-14: multiples of 2^-24 */ float small = fabsf(x) * 16777216.0f;
    uint32_t whole = (uint32_t)small;
    float rest = small - (float)whole;
    if (rest > 0.5f || (rest == 0.5f && (whole & 1u))) whole++;
    small = (float)whole / 16777216.0f;
    memcpy(&size, &small, 4);
  }
  bits = sign | size;
  memcpy(&x, &bits, 4);
  return x;
}

/* Returns the bits of a value that rounded() returned, as float16. */
static uint16_t narrow(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  uint32_t sign = bits >> 16 & 0x8000u, size = bits & 0x7FFFFFFFu;
  if (size > 0x7F800000u) return 0x7E00u; /* NaN */
  if (size >= 0x477FF000u) size = 0x7C00u;
  else if (size >= 0x38800000u) size = (size - 0x38000000u) >> 13;
  else size = (uint32_t)(fabsf(x) * 16777216.0f);
  return (uint16_t)(sign | size);
}

static qv_status half_float_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  const void *from = qv_data(s, x);
  void *to = qv_data(s, y);
  for (int64_t i = 0; i < x->elements; i++) {
    float value = x->dtype == QV_F16 ? qv_load_f16(from, i) : rounded(((const float *)from)[i]);
    if (y->dtype == QV_F16) ((uint16_t *)to)[i] = narrow(value);
    else ((float *)to)[i] = value;
  }
  return QV_OK;
}

const qv_op qv_op_half_float = {"half_float", half_float_check, NULL, half_float_run};
