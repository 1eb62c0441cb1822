/* y = x rounded to float16 (nearest, ties to even) and converted back to float32. */
#include "op.h"
#include <math.h>

static qv_status half_float_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 0);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || x->dtype != QV_F32 || y->dtype != QV_F32 || x->elements != y->elements)
    return qv_fail_operands(m, n, "float32 in and out, of one shape");
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

static qv_status half_float_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0);
  const float *from = qv_data(s, x);
  float *to = qv_data(s, qv_out(s->model, n, 0));
  for (int64_t i = 0; i < x->elements; i++) to[i] = rounded(from[i]);
  return QV_OK;
}

const qv_op qv_op_half_float = {"half_float", half_float_check, NULL, half_float_run};
