/* Bodies of the qv_elementwise kernels, compiled once for each instruction set, all of which have a fused
   multiply-add. */
#ifndef QV_ELEMENTWISE_BODY_H
#define QV_ELEMENTWISE_BODY_H
#include "elementwise.h"
#include "float32.h"

#define QV_LOOP static inline __attribute__((always_inline))

QV_LOOP float meant(qv_byte b, uint8_t byte) { return (float)((int32_t)(byte ^ b.flip) - b.minus); }
QV_LOOP uint8_t rounded(float v, float low, float high) {
  v = v < low ? low : v;
  v = v > high ? high : v;
  return (uint8_t)(int32_t)qv_round_f32(v);
}

QV_LOOP void body_add(const qv_pairs_of_bytes *w, const uint8_t *a, const uint8_t *b, int64_t step_a, int64_t step_b, int64_t count,
                      uint8_t *to) {
  float first = w->r[0], second = w->r[1], more = w->r[2], low = w->low, high = w->high;
  qv_byte of_a = w->first, of_b = w->second;
  if (step_a && step_b) {
    for (int64_t i = 0; i < count; i++)
      to[i] = rounded(__builtin_fmaf(meant(of_a, a[i]), first, __builtin_fmaf(meant(of_b, b[i]), second, more)), low, high);
  } else if (step_a) {
    float inner = __builtin_fmaf(meant(of_b, *b), second, more);
    for (int64_t i = 0; i < count; i++) to[i] = rounded(__builtin_fmaf(meant(of_a, a[i]), first, inner), low, high);
  } else {
    float outer = meant(of_a, *a);
    for (int64_t i = 0; i < count; i++)
      to[i] = rounded(__builtin_fmaf(outer, first, __builtin_fmaf(meant(of_b, b[i * step_b]), second, more)), low, high);
  }
}

QV_LOOP void body_multiply(const qv_pairs_of_bytes *w, const uint8_t *a, const uint8_t *b, int64_t step_a, int64_t step_b, int64_t count,
                           uint8_t *to) {
  float scale = w->r[0], zero = w->r[1], low = w->low, high = w->high;
  qv_byte of_a = w->first, of_b = w->second;
  if (step_a && step_b) {
    for (int64_t i = 0; i < count; i++) to[i] = rounded(meant(of_a, a[i]) * meant(of_b, b[i]) * scale + zero, low, high);
    return;
  }
  float one = step_a ? meant(of_b, *b) : meant(of_a, *a);
  const uint8_t *each = step_a ? a : b;
  qv_byte of = step_a ? of_a : of_b;
  int64_t step = step_a ? 1 : step_b;
  for (int64_t i = 0; i < count; i++) to[i] = rounded(meant(of, each[i * step]) * one * scale + zero, low, high);
}

QV_LOOP void body_quantize(const float *from, float scale, int32_t zero, int32_t dtype, int64_t count, uint8_t *to) {
  float low = (float)(qv_qmin(dtype) - zero), high = (float)(qv_qmax(dtype) - zero);
  for (int64_t i = 0; i < count; i++) {
    float v = from[i] / scale;
    v = v >= low ? v : low; /* NaN becomes low */
    v = v > high ? high : v;
    to[i] = (uint8_t)((int32_t)qv_round_f32(v) + zero);
  }
}

QV_LOOP void body_dequantize(const uint8_t *from, qv_byte meaning, float scale, int64_t count, float *to) {
  for (int64_t i = 0; i < count; i++) to[i] = meant(meaning, from[i]) * scale;
}

QV_LOOP void body_maximum(const uint8_t *from, int64_t step, uint8_t flip, int64_t count, uint8_t *to) {
  if (step == 1) {
    for (int64_t i = 0; i < count; i++) to[i] = (uint8_t)(((from[i] ^ flip) > (to[i] ^ flip) ? from[i] : to[i]));
  } else if (step == 2) {
    for (int64_t i = 0; i < count; i++) to[i] = (uint8_t)(((from[2 * i] ^ flip) > (to[i] ^ flip) ? from[2 * i] : to[i]));
  } else {
    for (int64_t i = 0; i < count; i++) to[i] = (uint8_t)(((from[i * step] ^ flip) > (to[i] ^ flip) ? from[i * step] : to[i]));
  }
}

QV_LOOP void body_standardize(const float *from, double mean, double root, const float *g, const float *b, int64_t count, float *to) {
  if (g && b) {
    for (int64_t i = 0; i < count; i++) to[i] = (float)(((double)from[i] - mean) / root * (double)g[i] + (double)b[i]);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    double v = ((double)from[i] - mean) / root;
    if (g) v = v * (double)g[i];
    if (b) v = v + (double)b[i];
    to[i] = (float)v;
  }
}

/* Defines the table `set` and its functions, whose names begin with `set`; each has `attribute`. */
#define QV_ELEMENTWISE(set, attribute) \
  attribute static void set##_add(const qv_pairs_of_bytes *w, const uint8_t *a, const uint8_t *b, int64_t step_a, int64_t step_b, \
                                  int64_t count, uint8_t *to) { \
    body_add(w, a, b, step_a, step_b, count, to); \
  } \
  attribute static void set##_multiply(const qv_pairs_of_bytes *w, const uint8_t *a, const uint8_t *b, int64_t step_a, int64_t step_b, \
                                       int64_t count, uint8_t *to) { \
    body_multiply(w, a, b, step_a, step_b, count, to); \
  } \
  attribute static void set##_quantize(const float *from, float scale, int32_t zero, int32_t dtype, int64_t count, uint8_t *to) { \
    body_quantize(from, scale, zero, dtype, count, to); \
  } \
  attribute static void set##_dequantize(const uint8_t *from, qv_byte meaning, float scale, int64_t count, float *to) { \
    body_dequantize(from, meaning, scale, count, to); \
  } \
  attribute static void set##_maximum(const uint8_t *from, int64_t step, uint8_t flip, int64_t count, uint8_t *to) { \
    body_maximum(from, step, flip, count, to); \
  } \
  attribute static void set##_standardize(const float *from, double mean, double root, const float *g, const float *b, int64_t count, \
                                          float *to) { \
    body_standardize(from, mean, root, g, b, count, to); \
  } \
  static const qv_elementwise set = {set##_add, set##_multiply, set##_quantize, set##_dequantize, set##_maximum, set##_standardize};
#endif
