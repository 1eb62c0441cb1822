/* Accumulator to output type in every rounding mode (NUMERICS.md section 1). */
#ifndef QV_REQUANTIZE_H
#define QV_REQUANTIZE_H
#include "../elements.h"

typedef struct {
  const void *values; /* the rq constant */
  int32_t dtype;      /* QV_F32, QV_F64, QV_I32 */
  int64_t channels;   /* 1: per tensor */
  qv_rounding rounding;
  int wide; /* int64 accumulators */
  int32_t zero, low, high;
  int real;          /* a float32 output: scaled in float64, not requantized */
  const float *bias; /* added to what is scaled, or NULL; of a float32 output only */
} qv_requantizer;

/* rq: of `channels` or one column. low, high: act words. QV_E_FORMAT when its shape, dtype or range is wrong. */
/* Input 2, where it is there: a constant of int32, of int64 for 16 bits, or of float32 beside a float32 output; one value for each of
   `channels`. */
qv_status qv_check_bias(qv_model *m, const qv_node *n, int64_t channels);
qv_status qv_check_rq(qv_model *m, const qv_node *n, int rq_input, int64_t channels, int low_word);
/* The same for an op whose output may be float32: then rq is float64 in every rounding mode, and the act words are 0. */
qv_status qv_check_scaled(qv_model *m, const qv_node *n, int rq_input, int64_t channels, int low_word);
/* Input 2 where it is a term of the sum: NULL where it is absent or float32. */
const qv_tensor *qv_whole_bias(const qv_model *m, const qv_node *n);
void qv_requantizer_of(const qv_session *s, const qv_node *n, int rq_input, int low_word, int wide, qv_requantizer *r);
/* An element of the output: an integer, or the bits of a float32. */
int32_t qv_requantize(const qv_requantizer *r, int64_t acc, int64_t channel);
/* The integer modes before zero point and clip. */
int64_t qv_integer_scale(qv_rounding rounding, int wide, int64_t acc, int32_t multiplier, int32_t shift);
int64_t qv_half_up(int64_t value, int32_t shift);
int64_t qv_shift_right(int64_t value, int shift);                         /* arithmetic: floor */
int64_t qv_sum_shift(qv_rounding rounding, int64_t value, int32_t shift); /* the final shift of add */
int qv_is_wide(const qv_tensor *a, const qv_tensor *b, const qv_tensor *y);
#endif
