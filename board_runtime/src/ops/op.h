/* Conveniences for op files: words, element sizes, shape tests, broadcasting, reading any integer element. */
#ifndef QV_OP_H
#define QV_OP_H
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
    case QV_S16: return 2;
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
    case QV_U8:
    case QV_BOOL: return ((const uint8_t *)data)[i];
    case QV_S8: return ((const int8_t *)data)[i];
    case QV_U16: return ((const uint16_t *)data)[i];
    case QV_S16: return ((const int16_t *)data)[i];
    default: return ((const int32_t *)data)[i];
  }
}
static inline void qv_store(void *data, int32_t dtype, int64_t i, int32_t v) {
  switch (dtype) {
    case QV_U8:
    case QV_BOOL: ((uint8_t *)data)[i] = (uint8_t)v; break;
    case QV_S8: ((int8_t *)data)[i] = (int8_t)v; break;
    case QV_U16: ((uint16_t *)data)[i] = (uint16_t)v; break;
    case QV_S16: ((int16_t *)data)[i] = (int16_t)v; break;
    default: ((int32_t *)data)[i] = v; break;
  }
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
/* Counts of operands and words; QV_E_FORMAT with the op's message otherwise. */
/* "wanted TEXT; got" the dtype and shape of every input and output, with a count of scales. TEXT is printf-like. */
qv_status qv_fail_operands(qv_model *m, const qv_node *n, const char *format, ...);
qv_status qv_arity(qv_model *m, const qv_node *n, int inputs, int outputs, int words);
/* A dense copy between tensors that carry equal quantization: dtype and parameters agree. */
qv_status qv_check_copy(qv_model *m, const qv_node *n);
/* numpy broadcasting of inputs `a` and `b` to output 0. */
qv_status qv_check_broadcast(qv_model *m, const qv_node *n, int a, int b);
/* Element strides of `t` for walking `out`'s index space (0 where it is broadcast). */
void qv_broadcast_strides(const qv_tensor *t, const qv_tensor *out, int64_t stride[QV_MAX_RANK]);
/* Calls row(user, a offset, b offset, out offset, a step, b step, length) for every innermost row of `out`. */
typedef void (*qv_row)(void *user, int64_t a, int64_t b, int64_t out, int64_t step_a, int64_t step_b, int64_t length);
void qv_for_rows(const qv_tensor *a, const qv_tensor *b, const qv_tensor *out, qv_row row, void *user);
/* A walk in `out`'s order over a source with any strides (elements), from `start`: copies elements of `size` bytes. */
void qv_copy_strided(const qv_tensor *out, const int64_t stride[QV_MAX_RANK], int64_t start, const void *source, void *target);
#endif
