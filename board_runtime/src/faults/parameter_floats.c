/* Slight faults in nodes that compute in float or add 16-bit values: a value of gamma, epsilon, the divisor of the
   variance, a bias. */
#include "parameter_faults.h"
#include <math.h>

static int is_norm(const qv_shadow *w) { return strcmp(w->node.op_name, "layer_norm") == 0; }

static void set_epsilon(qv_shadow *w, double value) {
  float narrow = (float)value;
  memcpy(&w->words[1], &narrow, sizeof narrow);
}

/* One element of gamma is replaced by the next one. */
qv_why qv_parameter_gamma_row(qv_shadow *w) {
  qv_tensor *gamma = qv_shadow_in(w, 1);
  if (!is_norm(w) || !gamma || gamma->elements < 2) return "it has no gamma of several elements";
  float *at = qv_shadow_bytes(gamma);
  int64_t row = (int64_t)(w->seed % (uint64_t)gamma->elements);
  at[row] = at[(row + 1) % gamma->elements];
  return NULL;
}

qv_why qv_parameter_epsilon_tenfold(qv_shadow *w) {
  if (!is_norm(w)) return "it has no epsilon";
  set_epsilon(w, 10.0 * (double)qv_word_f32(&w->node, 1));
  return NULL;
}

/* The sum of squares is divided by n - 1 instead of n, by a factor of sqrt((n - 1) / n) in gamma and (n - 1) /
   n in epsilon. */
qv_why qv_parameter_variance_unbiased(qv_shadow *w) {
  qv_tensor *gamma = qv_shadow_in(w, 1);
  if (!is_norm(w) || !gamma || gamma->elements < 2) return "it has no variance with a gamma after it";
  double share = (double)(gamma->elements - 1) / (double)gamma->elements;
  float *at = qv_shadow_bytes(gamma);
  for (int64_t i = 0; i < gamma->elements; i++) at[i] = (float)((double)at[i] * sqrt(share));
  set_epsilon(w, share * (double)qv_word_f32(&w->node, 1));
  return NULL;
}

/* Adds 2^-9 of the output's range to the bias: half a step of an 8-bit output, 128 steps of a 16-bit one. */
qv_why qv_parameter_bias_slight(qv_shadow *w) {
  qv_tensor *rq = qv_shadow_in(w, qv_roles_of(&w->node)->rq), *b = qv_shadow_in(w, qv_roles_of(&w->node)->bias);
  if (!rq || rq->dtype != QV_F64 || !b || b->dtype == QV_F32) return "it has no bias with scales in float64";
  const double *scale = qv_shadow_bytes(rq);
  double step = ldexp(1.0, qv_is_8bit(qv_shadow_out(w)) ? -1 : 7);
  for (int64_t i = 0; i < b->elements; i++) {
    double more = floor(step / scale[rq->elements > 1 ? i : 0] + 0.5);
    if (b->dtype == QV_I32) ((int32_t *)qv_shadow_bytes(b))[i] += (int32_t)more;
    else ((int64_t *)qv_shadow_bytes(b))[i] += (int64_t)more;
  }
  return NULL;
}
