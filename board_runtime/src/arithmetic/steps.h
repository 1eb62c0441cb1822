/* Scales a sum by a multiplier and shifts, or an exact value, each rounded by a rule (NUMERICS.md section 1). */
#ifndef QV_STEPS_H
#define QV_STEPS_H
#include "../elements.h"

#define QV_ZERO_INSIDE 8 /* added to the last rule: the zero point counts at the rounding */
enum { QV_HALF_UP, QV_HALF_EVEN, QV_HALF_AWAY, QV_HALF_DOWN, QV_FLOOR, QV_TOWARD_ZERO, QV_CEILING };

/* A column of an rq of five rows, or a row of that of add. */
typedef struct {
  int32_t multiplier;
  int32_t pre;         /* above 0: bits by which the sum is first shifted left, saturated to int32; below 0: right */
  int32_t first, last; /* bits by which the product is shifted right, one after the other */
  int32_t rules;       /* those of pre, first and last, in four bits each, lowest first */
} qv_steps;

/* Checks the ranges of steps. what, number: what they belong to, in messages. below: the least multiplier. lifted: the
   most bits that pre may shift to the left. */
qv_status qv_check_steps(qv_model *m, const qv_node *n, const qv_steps *s, const char *what, int64_t number, int32_t below, int32_t lifted);
/* Returns the scaled sum, before the zero point is added and the result is clipped. Any values are defined. */
int64_t qv_apply_steps(const qv_steps *s, int64_t acc, int32_t zero);
/* Returns a value within +-2^30, rounded by a rule, to which QV_ZERO_INSIDE may be added. */
int32_t qv_round_real(double v, int code, int32_t zero);
int64_t qv_shift_right(int64_t value, int shift); /* arithmetic shift, rounds down */

/* A shift to the right of values within +-2^62 without branches: (v + add + (below 0: below) + (odd: odd)) >> shift. */
typedef struct {
  int64_t add, below, odd;
  int32_t shift;
  int32_t zero;
} qv_short_shift;

qv_short_shift qv_short_shift_of(int32_t shift, int code, int32_t zero);
#endif
