/* Converts accumulators to the output type in every rounding mode (NUMERICS.md section 1). */
#ifndef QV_REQUANTIZE_H
#define QV_REQUANTIZE_H
#include "../elements.h"
#include "steps.h"

enum { QV_TWO_STEPS = 6 }; /* rows of an rq of float64 that scales twice in float32 */

typedef struct {
  const void *values; /* the rq constant */
  int32_t dtype;      /* QV_F32, QV_F64, QV_I32 */
  int64_t channels;   /* number of scales; 1: per tensor */
  int32_t rows;       /* of the rq; 1 if it has rank 1 */
  qv_rounding rounding;
  int wide; /* 1: accumulators are int64 */
  int32_t zero, low, high;
  int real;          /* 1: the output is float32, scaled in float64 and not requantized */
  const float *bias; /* added after scaling, for a float32 output only; or NULL */
} qv_requantizer;

/* Checks input 2, the bias, if there is one: a constant with one value for each of `channels`, of type int32 (int64 if
   an operand or the output has 16 bits; also float32 if the output is float32). Returns QV_E_FORMAT otherwise. */
qv_status qv_check_bias(qv_model *m, const qv_node *n, int64_t channels);
/* Checks input rq_input, the rq, which must have `channels` columns or one, and the activation limits in words low_word and
   low_word + 1 (if low_word >= 0). Returns QV_E_FORMAT if a shape, dtype or range is wrong. */
qv_status qv_check_rq(qv_model *m, const qv_node *n, int rq_input, int64_t channels, int low_word);
/* As qv_check_rq for an op whose output may be float32: in that case the rq is float64 in every rounding mode and the
   activation limits are 0. */
qv_status qv_check_scaled(qv_model *m, const qv_node *n, int rq_input, int64_t channels, int low_word);
/* Returns input 2 if it is an integer bias, which is a term of the sum; NULL if it is absent or float32. */
const qv_tensor *qv_whole_bias(const qv_model *m, const qv_node *n);
void qv_requantizer_of(const qv_session *s, const qv_node *n, int rq_input, int low_word, int wide, qv_requantizer *r);
/* Returns an element of the output: an integer, or the bits of a float32. */
int32_t qv_requantize(const qv_requantizer *r, int64_t acc, int64_t channel);
/* Returns the parameters of channel `at` of an integer rq. */
qv_steps qv_steps_of(const qv_requantizer *r, int64_t at);
/* Checks the number of the rule by which an exact value is rounded. */
qv_status qv_check_rule(qv_model *m, const qv_node *n, double code);
/* Returns whether the rq is one int32, the value from which quotients of stored integers are counted; checks it and the
   activation limits in words low_word and low_word + 1; and returns the quotient, halves away from zero, as an element of
   the output. acc: the sum without zero points, of `count` elements. */
int qv_is_quotient(const qv_tensor *rq);
qv_status qv_check_quotient(qv_model *m, const qv_node *n, const qv_tensor *rq, int low_word);
int32_t qv_quotient(const qv_requantizer *r, int64_t acc, int64_t count);
int qv_is_wide(const qv_tensor *a, const qv_tensor *b, const qv_tensor *y);
#endif
