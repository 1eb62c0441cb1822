/* Faults in the values of parameters: zero points, scales, biases, limits, signs. */
#include "parameter_faults.h"

static qv_why shifted_zero(qv_tensor *t, uint64_t seed) {
  if (!t || !t->n_scales) return "it has no zero point there";
  int32_t *zero = qv_shadow_zero(t);
  for (int32_t i = 0; i < t->n_scales; i++)
    zero[i] = zero[i] && seed % 2 == 0 ? 0 : zero[i] < qv_qmax(t->dtype) ? zero[i] + 1 : zero[i] - 1;
  return NULL;
}
qv_why qv_parameter_zero_input(qv_shadow *w) { return shifted_zero(qv_shadow_in(w, 0), w->seed); }
qv_why qv_parameter_zero_weight(qv_shadow *w) { return shifted_zero(qv_shadow_in(w, qv_roles_of(&w->node)->weights), w->seed); }
qv_why qv_parameter_zero_output(qv_shadow *w) { return shifted_zero(qv_shadow_out(w), w->seed); }

/* Each channel uses the requantization scale of the next one, or (per_tensor) of the first one. */
static qv_why scales_from(qv_shadow *w, int per_tensor) {
  qv_tensor *rq = qv_shadow_in(w, qv_roles_of(&w->node)->rq);
  if (!rq) return "it has no requantization scales";
  int32_t columns = rq->shape[rq->rank - 1];
  size_t size = qv_dtype_size(rq->dtype), count = (size_t)columns;
  uint8_t *at = qv_shadow_bytes(rq), first[8];
  if (columns < 2) return "it has one scale only";
  for (int64_t row = 0; row < rq->elements / columns; row++, at += size * count) {
    memcpy(first, at, size);
    for (size_t i = 1; per_tensor && i < count; i++) memcpy(at + i * size, first, size);
    if (per_tensor) continue;
    memmove(at, at + size, size * (count - 1));
    memcpy(at + size * (count - 1), first, size);
  }
  return NULL;
}
qv_why qv_parameter_scales_shifted(qv_shadow *w) { return scales_from(w, 0); }
qv_why qv_parameter_scales_per_tensor(qv_shadow *w) { return scales_from(w, 1); }

static qv_tensor *bias_of(qv_shadow *w) { return qv_shadow_in(w, qv_roles_of(&w->node)->bias); }
qv_why qv_parameter_bias_missing(qv_shadow *w) {
  qv_tensor *b = bias_of(w);
  if (!b) return "it has no bias";
  memset(qv_shadow_bytes(b), 0, (size_t)b->dense_bytes);
  return NULL;
}
qv_why qv_parameter_bias_shifted(qv_shadow *w) {
  qv_tensor *b = bias_of(w);
  if (!b || b->elements < 2) return "it has no bias of several channels";
  size_t size = qv_dtype_size(b->dtype), bytes = (size_t)b->dense_bytes;
  uint8_t first[8], *at = qv_shadow_bytes(b);
  memcpy(first, at, size);
  memmove(at, at + size, bytes - size);
  memcpy(at + bytes - size, first, size);
  return NULL;
}
/* The bias keeps its low 16 bits only. */
qv_why qv_parameter_bias_narrow(qv_shadow *w) {
  qv_tensor *b = bias_of(w);
  if (!b || b->dtype != QV_I32) return "it has no bias of 32 bits";
  int32_t *at = qv_shadow_bytes(b);
  for (int64_t i = 0; i < b->elements; i++) at[i] = ((at[i] & 0xffff) ^ 0x8000) - 0x8000;
  return NULL;
}

static int32_t *limits_of(qv_shadow *w) {
  int at = qv_roles_of(&w->node)->low;
  return at < 0 || !qv_is_q(qv_shadow_out(w)) ? NULL : &w->words[at];
}
qv_why qv_parameter_clamp_missing(qv_shadow *w) {
  int32_t *limit = limits_of(w), dtype = qv_shadow_out(w)->dtype;
  if (!limit || (limit[0] == qv_qmin(dtype) && limit[1] == qv_qmax(dtype))) return "it has no clamp inside its type's range";
  limit[0] = qv_qmin(dtype);
  limit[1] = qv_qmax(dtype);
  return NULL;
}
/* Adds a Relu to a node without one, otherwise a Relu6. */
qv_why qv_parameter_clamp_extra(qv_shadow *w) {
  int32_t *limit = limits_of(w);
  const qv_tensor *y = qv_shadow_out(w);
  if (!limit) return "it has no limits";
  double six = (double)y->zero_point[0] + 6.0 / (double)y->scale[0];
  int relu = limit[0] < y->zero_point[0];
  if (!relu && six >= limit[1]) return "a Relu6 there changes nothing";
  if (relu) limit[0] = y->zero_point[0] < limit[1] ? y->zero_point[0] : limit[1];
  else limit[1] = (int32_t)(six + 0.5);
  return NULL;
}

/* The bytes are read with the other signedness; the zero point does not change. */
static qv_why other_sign(qv_tensor *t) {
  if (!t || !(qv_is_8bit(t) || qv_is_16bit(t)) || !t->n_scales) return "it has no quantized tensor there";
  t->dtype = t->dtype == QV_U8 ? QV_S8 : t->dtype == QV_S8 ? QV_U8 : t->dtype == QV_U16 ? QV_S16 : QV_U16;
  return NULL;
}
qv_why qv_parameter_sign_input(qv_shadow *w) { return other_sign(qv_shadow_in(w, 0)); }
qv_why qv_parameter_sign_weight(qv_shadow *w) { return other_sign(qv_shadow_in(w, qv_roles_of(&w->node)->weights)); }
