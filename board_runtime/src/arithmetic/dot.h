/* Dot products of centred int16 rows; sums wrap in uint32. */
#ifndef QV_DOT_H
#define QV_DOT_H
#include <stdint.h>

/* out[r] = sum of x[i] * w[r*stride + i] for r in 0..3. */
static inline void qv_dot4(const int16_t *x, const int16_t *w, int64_t stride, int64_t length, uint32_t out[4]) {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  const int16_t *w1 = w + stride, *w2 = w1 + stride, *w3 = w2 + stride;
  for (int64_t i = 0; i < length; i++) {
    int32_t v = x[i];
    a += (uint32_t)(v * w[i]);
    b += (uint32_t)(v * w1[i]);
    c += (uint32_t)(v * w2[i]);
    d += (uint32_t)(v * w3[i]);
  }
  out[0] = a;
  out[1] = b;
  out[2] = c;
  out[3] = d;
}
static inline uint32_t qv_dot(const int16_t *x, const int16_t *w, int64_t length) {
  uint32_t a = 0;
  for (int64_t i = 0; i < length; i++) a += (uint32_t)((int32_t)x[i] * w[i]);
  return a;
}
#endif
