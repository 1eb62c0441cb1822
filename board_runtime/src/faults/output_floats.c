/* Slight faults in float outputs: an offset of 2^-9 of the range, and softmax with an approximate exponential. */
#include "output_faults.h"
#include <math.h>

static float read_f32(const uint8_t *data, int64_t i) {
  float v;
  memcpy(&v, data + i * 4, sizeof v);
  return v;
}
static void write_f32(uint8_t *data, int64_t i, double value) {
  float v = (float)value;
  memcpy(data + i * 4, &v, sizeof v);
}

qv_why qv_output_offset_slight(const qv_output_fault *f) {
  if (f->y->dtype != QV_F32) return "it needs a float tensor";
  double low = (double)read_f32(f->before, 0), high = low;
  for (int64_t i = 1; i < f->elements; i++) {
    double v = (double)read_f32(f->before, i);
    low = v < low ? v : low;
    high = v > high ? v : high;
  }
  for (int64_t i = 0; i < f->elements; i++) write_f32(f->data, i, (double)read_f32(f->before, i) + ldexp(high - low, -9));
  return NULL;
}

/* Returns an approximation of 2^x, with 2^f for f in [0, 1) as a straight line, a parabola or 64 straight lines. */
static double rough_power(double x, uint64_t seed) {
  double whole = floor(x), part = x - whole, knot = floor(part * 64.0) / 64.0;
  double rough = seed % 3 == 0   ? 1.0 + part
                 : seed % 3 == 1 ? 1.0 + part * (0.6565 + 0.3435 * part)
                                 : exp2(knot) * (1.0 + (part - knot) * 0.6931471805599453);
  return whole < -126.0 ? 0.0 : ldexp(rough, (int)whole);
}

qv_why qv_output_exp_rough(const qv_output_fault *f) {
  if (strcmp(f->n->op_name, "softmax_float") != 0) return "it has no exponentials";
  const uint8_t *x = qv_data(f->s, qv_in(f->s->model, f->n, 0));
  int64_t depth = qv_word(f->n, 1), inner = qv_word(f->n, 2);
  for (int64_t row = 0; row < f->elements / depth; row++) {
    int64_t start = row / inner * depth * inner + row % inner;
    double largest = (double)read_f32(x, start), sum = 0.0;
    for (int64_t i = 1; i < depth; i++) largest = fmax(largest, (double)read_f32(x, start + i * inner));
    for (int64_t i = 0; i < depth; i++)
      sum += rough_power(((double)read_f32(x, start + i * inner) - largest) * 1.4426950408889634, f->seed);
    for (int64_t i = 0; i < depth; i++)
      write_f32(f->data, start + i * inner,
                rough_power(((double)read_f32(x, start + i * inner) - largest) * 1.4426950408889634, f->seed) / sum);
  }
  return NULL;
}
