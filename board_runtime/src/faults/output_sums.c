/* Faults in sums: accumulators that saturate or wrap, padding that is not the zero point, and rounding modes that no
   model.bin can request. */
#include "../arithmetic/float32.h"
#include "output_faults.h"
#include "sums.h"

static int64_t clipped16(int64_t v) { return v > 32767 ? 32767 : v < -32768 ? -32768 : v; }

static int64_t saturating16(int64_t acc, int64_t product, int64_t step, int64_t *held) {
  (void)step;
  (void)held;
  return clipped16(acc + product);
}
/* Two neighbouring products are first added to each other in 16 bits. */
static int64_t saturating_pairs(int64_t acc, int64_t product, int64_t step, int64_t *held) {
  if (step % 2) return acc - *held + clipped16(*held + product);
  *held = product;
  return acc + product;
}
static int64_t wrapped(int64_t v, int bits) {
  uint64_t field = (uint64_t)v & (((uint64_t)1 << bits) - 1), top = (uint64_t)1 << (bits - 1);
  return (int64_t)(field ^ top) - (int64_t)top;
}
static int64_t wrapping16(int64_t acc, int64_t product, int64_t step, int64_t *held) {
  (void)step;
  (void)held;
  return wrapped(acc + product, 16);
}
static int64_t wrapping20(int64_t acc, int64_t product, int64_t step, int64_t *held) {
  (void)step;
  (void)held;
  return wrapped(acc + product, 20);
}

static qv_why summed(const qv_output_fault *f, int64_t (*add)(int64_t, int64_t, int64_t, int64_t *)) {
  const qv_summing how = {.add = add};
  return qv_sum_again(f, &how, NULL);
}
qv_why qv_output_acc_sat16(const qv_output_fault *f) { return summed(f, saturating16); }
qv_why qv_output_acc_sat_pairs(const qv_output_fault *f) { return summed(f, saturating_pairs); }
qv_why qv_output_acc_wrap16(const qv_output_fault *f) { return summed(f, wrapping16); }
qv_why qv_output_acc_wrap20(const qv_output_fault *f) { return summed(f, wrapping20); }

qv_why qv_output_pad_value(const qv_output_fault *f) {
  const qv_summing how = {.pad_is_zero_byte = 1};
  if (strcmp(f->n->op_name, "conv") != 0) return "only a conv is padded";
  return qv_sum_again(f, &how, NULL);
}

/* Rounding modes that no model.bin can request, applied to the scaled accumulator v. */
static double whole(double v) { return (double)(int64_t)v; }
static int32_t away(const qv_output_fault *f, int64_t acc, int64_t c) {
  double v = (double)acc * (double)qv_sum_scale(f, c);
  return qv_sum_limited(f, whole(v < 0 ? v - 0.5 : v + 0.5));
}
static int32_t floored(const qv_output_fault *f, int64_t acc, int64_t c) {
  double v = (double)acc * (double)qv_sum_scale(f, c);
  return qv_sum_limited(f, whole(v) - (v < whole(v)));
}
static int32_t towards_zero(const qv_output_fault *f, int64_t acc, int64_t c) {
  return qv_sum_limited(f, whole((double)acc * (double)qv_sum_scale(f, c)));
}
static int32_t exact_even(const qv_output_fault *f, int64_t acc, int64_t c) {
  return qv_sum_limited(f, (double)qv_round_f64((double)acc * (double)qv_sum_scale(f, c)));
}
/* The accumulator is dequantized to a real number, which is then divided by the output's scale. */
static int32_t through_reals(const qv_output_fault *f, int64_t acc, int64_t c) {
  const qv_tensor *x = qv_in(f->s->model, f->n, 0), *k = strcmp(f->n->op_name, "global_average_pool") ? qv_in(f->s->model, f->n, 1) : NULL;
  int64_t read = x->n_scales > 1 ? c / (f->y->shape[1] / x->n_scales) : 0; /* the input channel of a depthwise convolution */
  float weight = k ? k->scale[k->n_scales > 1 ? c : 0] : 1.0f / (float)(x->elements / f->elements), product = x->scale[read] * weight;
  float real = (float)acc * product, v = real / f->y->scale[0];
  return qv_sum_limited(f, (double)qv_round_f64((double)v));
}

static qv_why finished(const qv_output_fault *f, qv_finish finish) {
  const qv_summing how = {.add = NULL};
  return qv_sum_again(f, &how, finish);
}
qv_why qv_output_round_half_away(const qv_output_fault *f) { return finished(f, away); }
qv_why qv_output_round_floor(const qv_output_fault *f) { return finished(f, floored); }
qv_why qv_output_round_to_zero(const qv_output_fault *f) { return finished(f, towards_zero); }
qv_why qv_output_round_exact_product(const qv_output_fault *f) { return finished(f, exact_even); }
qv_why qv_output_round_through_reals(const qv_output_fault *f) { return finished(f, through_reals); }
