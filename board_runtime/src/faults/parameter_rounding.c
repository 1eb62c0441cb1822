/* Faults by another rounding mode at one node: its rq is rewritten as a compiler for that mode would have done. */
#include <math.h>

#include "../arithmetic/requantize.h"
#include "parameter_faults.h"

/* Returns the real scale of an output channel, from the scales of the tensors if the weights have any, otherwise from
   the rq. If the input has a scale for each channel, every output channel reads one input channel; transposed weights
   have the scales of one group. */
static double scale_of(qv_shadow *w, const qv_roles *at, int32_t channel, const float *rq) {
  const qv_tensor *x = qv_shadow_in(w, 0), *k = qv_shadow_in(w, at->weights), *y = qv_shadow_out(w);
  if (!k || !k->n_scales) return (double)rq[channel];
  int32_t read = x->n_scales > 1 ? channel / (y->shape[1] / x->n_scales) : 0;
  return (double)x->scale[read] * (double)k->scale[channel % k->n_scales] / (double)y->scale[0];
}

/* Splits a scale S = q * 2^e into a multiplier of `bits` bits and an exponent. */
static void multiplier(double scale, int bits, int32_t *mul, int32_t *exponent) {
  int e;
  double q = frexp(scale, &e);
  int64_t m = (int64_t)floor(ldexp(q, bits) + 0.5);
  int carry = m == (int64_t)1 << bits;
  *mul = (int32_t)(carry ? m / 2 : m);
  *exponent = e + carry;
}

static int bits_of(qv_rounding r, int wide) {
  int bits = r == QV_MUL8 ? 8 : r == QV_MUL15 ? 15 : r == QV_MUL16 ? 16 : r == QV_MUL24 ? 24 : 31;
  return wide && bits > 15 ? 15 : bits;
}

static void field(qv_rounding r, int wide, double scale, int32_t *mul, int32_t *shift) {
  int power = r >= QV_POW2_HALF_UP && r <= QV_POW2_FLOOR, bits = bits_of(r, wide), exponent;
  multiplier(scale, bits, mul, &exponent);
  *shift = (r == QV_GEMMLOWP || r == QV_CMSIS) && !wide ? exponent : bits - exponent;
  if (!power) return;
  *mul = 1;
  *shift = -(int32_t)nearbyint(log2(scale));
}

static qv_why rounding(qv_shadow *w, qv_rounding r) {
  const qv_roles *at = qv_roles_of(&w->node);
  qv_tensor *rq = qv_shadow_in(w, at->rq);
  float scales[4096];
  if (!rq || rq->dtype != QV_F32 || rq->rank != 1 || rq->elements > 4096) return "it has no requantization by scales";
  int32_t columns = (int32_t)rq->elements;
  memcpy(scales, rq->constant, (size_t)columns * 4);
  int32_t *fields = qv_shadow_replace(rq, QV_I32, 2, columns);
  if (!fields) return "no memory";
  int wide = qv_is_wide(qv_shadow_in(w, 0), qv_shadow_in(w, 1), qv_shadow_out(w));
  for (int32_t c = 0; c < columns; c++) field(r, wide, scale_of(w, at, c, scales), &fields[c], &fields[columns + c]);
  w->model.rounding = r;
  return NULL;
}

qv_why qv_parameter_round_tflite_single(qv_shadow *w) { return rounding(w, QV_TFLITE_SINGLE); }
qv_why qv_parameter_round_gemmlowp(qv_shadow *w) { return rounding(w, QV_GEMMLOWP); }
qv_why qv_parameter_round_cmsis(qv_shadow *w) { return rounding(w, QV_CMSIS); }
qv_why qv_parameter_round_pow2_half_up(qv_shadow *w) { return rounding(w, QV_POW2_HALF_UP); }
qv_why qv_parameter_round_pow2_half_away(qv_shadow *w) { return rounding(w, QV_POW2_HALF_AWAY); }
qv_why qv_parameter_round_pow2_floor(qv_shadow *w) { return rounding(w, QV_POW2_FLOOR); }
qv_why qv_parameter_round_mul8(qv_shadow *w) { return rounding(w, QV_MUL8); }
qv_why qv_parameter_round_mul15(qv_shadow *w) { return rounding(w, QV_MUL15); }
qv_why qv_parameter_round_mul16(qv_shadow *w) { return rounding(w, QV_MUL16); }
qv_why qv_parameter_round_mul24(qv_shadow *w) { return rounding(w, QV_MUL24); }
qv_why qv_parameter_round_mul31(qv_shadow *w) { return rounding(w, QV_MUL31); }

qv_why qv_parameter_round_f64(qv_shadow *w) {
  const qv_roles *at = qv_roles_of(&w->node);
  qv_tensor *rq = qv_shadow_in(w, at->rq);
  float scales[4096];
  if (!rq || rq->dtype != QV_F32 || rq->rank != 1 || rq->elements > 4096) return "it has no requantization by scales";
  int32_t columns = (int32_t)rq->elements;
  memcpy(scales, rq->constant, (size_t)columns * 4);
  double *wide = qv_shadow_replace(rq, QV_F64, 0, columns);
  for (int32_t c = 0; wide && c < columns; c++) wide[c] = scale_of(w, at, c, scales);
  return wide ? NULL : "no memory";
}
