/* Withheld kinds of faults inside sums: approximate multipliers and adders. Nothing in the verifier was written with
   these in mind. */
#include "output_faults.h"
#include "sums.h"

static int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }
static int64_t power_below(int64_t v) {
  int64_t power = 1;
  while (2 * power <= v) power *= 2;
  return power;
}

/* Mitchell's multiplier, which approximates logarithms by straight lines between powers of two. */
static int64_t by_logarithms(const qv_output_fault *f, int64_t i, int64_t tap, int64_t x, int64_t w) {
  (void)f;
  (void)i;
  (void)tap;
  if (!x || !w) return 0;
  int64_t p = power_below(magnitude(x)), q = power_below(magnitude(w)), rest = (magnitude(x) - p) * q + (magnitude(w) - q) * p;
  int64_t size = rest < p * q ? p * q + rest : 2 * rest;
  return (x < 0) == (w < 0) ? size : -size;
}
qv_why qv_output_multiplier_mitchell(const qv_output_fault *f) {
  const qv_summing how = {.product = by_logarithms};
  return qv_sum_again(f, &how, NULL);
}

/* The sum is rounded to eight significant bits after every step, as in bfloat16. */
static int64_t in_eight_digits(int64_t acc, int64_t product, int64_t step, int64_t *held) {
  int64_t sum = acc + product, unit = 1;
  (void)step;
  (void)held;
  while (magnitude(sum) / unit >= 256) unit *= 2;
  int64_t size = (magnitude(sum) + unit / 2) / unit * unit;
  return sum < 0 ? -size : size;
}
qv_why qv_output_sum_in_bfloat16(const qv_output_fault *f) {
  const qv_summing how = {.add = in_eight_digits};
  return qv_sum_again(f, &how, NULL);
}

/* An adder that is clocked too fast: the carry into bit 8 is computed from the four bits below it only. */
static int64_t carried_late(int64_t acc, int64_t product, int64_t step, int64_t *held) {
  int64_t whole = ((acc & 0xff) + (product & 0xff)) >> 8, seen = ((acc & 0xf0) + (product & 0xf0)) >> 8;
  (void)step;
  (void)held;
  return acc + product - (whole - seen) * 256;
}
qv_why qv_output_carry_late(const qv_output_fault *f) {
  const qv_summing how = {.add = carried_late};
  return qv_sum_again(f, &how, NULL);
}

/* Winograd's F(2, 3), whose halved sums of taps are truncated to integers. If the sum of the three taps of a row is
   odd, both halves lose 1/2; the result is the same as with one less in the last tap for even columns and in the first
   tap for odd ones. */
static int64_t by_halves(const qv_output_fault *f, int64_t i, int64_t tap, int64_t x, int64_t w) {
  const qv_tensor *k = qv_in(f->s->model, f->n, 1);
  int64_t o = qv_plane_of(f, i) % f->channels, columns = f->y->shape[f->y->rank - 1], row = o * (k->elements / k->shape[0]) + tap - tap % 3,
          sum = 0;
  for (int64_t at = row; at < row + 3; at++) sum += qv_load(k->constant, k->dtype, at) - qv_zero(k, o);
  return x * (sum % 2 && tap % 3 == (i % columns % 2 ? 0 : 2) ? w - 1 : w);
}
qv_why qv_output_winograd_cut(const qv_output_fault *f) {
  const qv_summing how = {.product = by_halves};
  qv_window w;
  if (strcmp(f->n->op_name, "conv") != 0) return "it is no conv";
  qv_window_of(f->s->model, f->n, 1, &w);
  if (w.kernel_w != 3 || w.stride_w != 1 || w.dilation_w != 1 || w.out_w < 2) return "its windows are not three wide and dense";
  return qv_sum_again(f, &how, NULL);
}
