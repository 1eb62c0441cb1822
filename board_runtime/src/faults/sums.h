/* Plain sums of conv, fully_connected and global_average_pool, for faults that sit in the accumulator or behind it. */
#ifndef QV_SUMS_H
#define QV_SUMS_H
#include "../ops/window.h"
#include "fault.h"

typedef struct {
  int64_t (*add)(int64_t acc, int64_t product, int64_t step, int64_t *held); /* NULL: exactly. held: between steps of one sum */
  int64_t (*product)(const qv_output_fault *f, int64_t i, int64_t tap, int64_t x, int64_t w); /* of output i, centred; NULL: x * w */
  int pad_is_zero_byte;                                                                       /* a padded tap reads 0, not the zero point */
} qv_summing;

typedef int32_t (*qv_finish)(const qv_output_fault *f, int64_t acc, int64_t channel);

/* Writes every output anew: summed as `how` says, finished by `finish` (NULL: as the kernel does). */
qv_why qv_sum_again(const qv_output_fault *f, const qv_summing *how, qv_finish finish);
/* Scale of a channel in float32, as in the node's rq; limits and zero point of its output. */
float qv_sum_scale(const qv_output_fault *f, int64_t channel);
int32_t qv_sum_limited(const qv_output_fault *f, double centred);
#endif
