/* Computes the outputs of conv, fully_connected and global_average_pool again with plain loops, for faults in the
   accumulator or after it. */
#ifndef QV_SUMS_H
#define QV_SUMS_H
#include "../ops/window.h"
#include "fault.h"

/* How the products of one sum are computed and added. `held` is a value that `add` may keep between the steps of one
   sum, 0 at first; x and w have their zero points subtracted. */
typedef struct {
  int64_t (*add)(int64_t acc, int64_t product, int64_t step, int64_t *held);                  /* NULL: acc + product */
  int64_t (*product)(const qv_output_fault *f, int64_t i, int64_t tap, int64_t x, int64_t w); /* for output i; NULL: x * w */
  int pad_is_zero_byte;                                                                       /* 1: padding is 0, not the zero point */
} qv_summing;

typedef int32_t (*qv_finish)(const qv_output_fault *f, int64_t acc, int64_t channel);

/* Writes every output again: summed as described by `how` and requantized by `finish` (NULL: as in the kernel). */
qv_why qv_sum_again(const qv_output_fault *f, const qv_summing *how, qv_finish finish);
/* qv_sum_scale returns the scale of a channel from the node's rq; qv_sum_limited adds the output's zero point and
   applies the limits. */
float qv_sum_scale(const qv_output_fault *f, int64_t channel);
int32_t qv_sum_limited(const qv_output_fault *f, double centred);
#endif
