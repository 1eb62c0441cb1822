/* Functions for the words of a node and the elements of a tensor: sizes, types, shapes, reading and writing one
   element. */
#ifndef QV_ELEMENTS_H
#define QV_ELEMENTS_H
#include <string.h>

#include "qvrt.h"

static inline int32_t qv_word(const qv_node *n, int i) { return n->words[i]; }
static inline float qv_word_f32(const qv_node *n, int i) {
  float f;
  memcpy(&f, &n->words[i], 4);
  return f;
}
static inline size_t qv_dtype_size(int32_t dtype) {
  switch (dtype) {
    case QV_U8:
    case QV_S8:
    case QV_BOOL: return 1;
    case QV_U16:
    case QV_S16:
    case QV_F16: return 2;
    case QV_I64:
    case QV_F64: return 8;
    default: return 4;
  }
}
static inline int qv_is_8bit(const qv_tensor *t) { return t->dtype == QV_U8 || t->dtype == QV_S8; }
static inline int qv_is_16bit(const qv_tensor *t) { return t->dtype == QV_U16 || t->dtype == QV_S16; }
static inline int qv_is_q(const qv_tensor *t) { return (qv_is_8bit(t) || qv_is_16bit(t)) && t->n_scales > 0; }
static inline int32_t qv_qmin(int32_t dtype) { return dtype == QV_S8 ? -128 : dtype == QV_S16 ? -32768 : 0; }
static inline int32_t qv_qmax(int32_t dtype) { return dtype == QV_S8 ? 127 : dtype == QV_U8 ? 255 : dtype == QV_S16 ? 32767 : 65535; }
static inline int32_t qv_load(const void *data, int32_t dtype, int64_t i) {
  switch (dtype) {
    case QV_U8: return ((const uint8_t *)data)[i];
    case QV_BOOL: return ((const uint8_t *)data)[i] != 0;
    case QV_S8: return ((const int8_t *)data)[i];
    case QV_U16:
    case QV_F16: return ((const uint16_t *)data)[i]; /* float16: its bits */
    case QV_S16: return ((const int16_t *)data)[i];
    default: return ((const int32_t *)data)[i];
  }
}
static inline void qv_store(void *data, int32_t dtype, int64_t i, int32_t v) {
  switch (dtype) {
    case QV_U8:
    case QV_BOOL: ((uint8_t *)data)[i] = (uint8_t)v; break;
    case QV_S8: ((int8_t *)data)[i] = (int8_t)v; break;
    case QV_U16:
    case QV_F16: ((uint16_t *)data)[i] = (uint16_t)v; break;
    case QV_S16: ((int16_t *)data)[i] = (int16_t)v; break;
    default: ((int32_t *)data)[i] = v; break;
  }
}
/* Read and write any integer or bool element, also of 64 bits. A value too large for the type is stored as its low
   bits. */
static inline int64_t qv_load64(const void *data, int32_t dtype, int64_t i) {
  return dtype == QV_I64 ? ((const int64_t *)data)[i] : qv_load(data, dtype, i);
}
static inline void qv_store64(void *data, int32_t dtype, int64_t i, int64_t v) {
  if (dtype == QV_I64) ((int64_t *)data)[i] = v;
  else qv_store(data, dtype, i, (int32_t)(uint32_t)(uint64_t)v);
}
/* Returns the value of a float16. A NaN keeps its bits, and so is quiet or signalling as before. */
static inline float qv_load_f16(const void *data, int64_t i) {
  uint32_t half = ((const uint16_t *)data)[i], sign = (half & 0x8000u) << 16, size = half & 0x7FFFu, bits;
  float small = (float)size / 16777216.0f, value; /* below 2^-14: multiples of 2^-24 */
  memcpy(&bits, &small, 4);
  if (size >= 0x7C00u) bits = 0x7F800000u | (size & 0x3FFu) << 13;
  else if (size >= 0x400u) bits = (size << 13) + 0x38000000u;
  bits |= sign;
  memcpy(&value, &bits, 4);
  return value;
}
/* Returns the result of arithmetic modulo 2^64 as int64_t, in two's complement. */
static inline int64_t qv_wrapped(uint64_t v) {
  int64_t made;
  memcpy(&made, &v, 8);
  return made;
}
static inline int32_t qv_zero(const qv_tensor *t, int64_t channel) {
  return t->n_scales == 0 ? 0 : t->zero_point[t->n_scales > 1 ? channel : 0];
}
static inline int qv_same_shape(const qv_tensor *a, const qv_tensor *b) {
  if (a->rank != b->rank) return 0;
  for (int i = 0; i < a->rank; i++)
    if (a->shape[i] != b->shape[i]) return 0;
  return 1;
}
static inline int qv_same_quantization(const qv_tensor *a, const qv_tensor *b) {
  return a->dtype == b->dtype && a->n_scales == b->n_scales &&
         (a->n_scales == 0 || (a->n_scales == 1 && a->scale[0] == b->scale[0] && a->zero_point[0] == b->zero_point[0]));
}
#endif
