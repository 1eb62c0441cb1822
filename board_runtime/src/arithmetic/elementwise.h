/* Loops over bytes and floats, compiled for each instruction set. Their results are bit-identical to those of the ops'
   plain loops. */
#ifndef QV_ELEMENTWISE_H
#define QV_ELEMENTWISE_H
#include "../elements.h"

/* How to compute the value that a byte stands for, minus the zero point: (byte ^ flip) - minus. */
typedef struct {
  uint8_t flip;
  int32_t minus;
} qv_byte;
static inline qv_byte qv_byte_of(int32_t dtype, int32_t zero) {
  qv_byte b = {dtype == QV_S8 ? 128 : 0, (dtype == QV_S8 ? 128 : 0) + zero};
  return b;
}

/* Parameters of add and multiply; a and b are the values of two bytes.
   add: to[i] = RNE(clamp(fma(a, r[0], fma(b, r[1], r[2])), low, high)).
   multiply: to[i] = RNE(clamp(fl32(fl32(a*b) * r[0]) + r[1], low, high)).
   step_a and step_b are 0 (one element for the whole row) or 1. */
typedef struct {
  qv_byte first, second;
  float r[3], low, high;
} qv_pairs_of_bytes;

typedef struct {
  void (*add)(const qv_pairs_of_bytes *w, const uint8_t *a, const uint8_t *b, int64_t step_a, int64_t step_b, int64_t count, uint8_t *to);
  void (*multiply)(const qv_pairs_of_bytes *w, const uint8_t *a, const uint8_t *b, int64_t step_a, int64_t step_b, int64_t count,
                   uint8_t *to);
  void (*quantize)(const float *from, float scale, int32_t zero, int32_t dtype, int64_t count, uint8_t *to); /* `to` is 8-bit */
  void (*dequantize)(const uint8_t *from, qv_byte meaning, float scale, int64_t count, float *to);
  /* to[i] = the larger of to[i] and from[i*step], compared as the unsigned values of byte ^ flip. */
  void (*maximum)(const uint8_t *from, int64_t step, uint8_t flip, int64_t count, uint8_t *to);
  /* to[i] = fl32((from[i] - mean) / root * g[i] + b[i]), computed in float64; g and b may be NULL. */
  void (*standardize)(const float *from, double mean, double root, const float *g, const float *b, int64_t count, float *to);
} qv_elementwise;

const qv_elementwise *qv_elementwise_avx512(void); /* each returns NULL if this CPU lacks the instructions */
const qv_elementwise *qv_elementwise_avx2(void);
const qv_elementwise *qv_elementwise_neon(void);
#endif
