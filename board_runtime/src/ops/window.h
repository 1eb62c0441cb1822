/* The windows of convolutions and pools over planes; tensors of rank 3 (N,C,W) have H = 1. */
#ifndef QV_WINDOW_H
#define QV_WINDOW_H
#include "op.h"

typedef struct {
  int64_t kernel_h, kernel_w, stride_h, stride_w, top, left, bottom, right, dilation_h, dilation_w;
  int64_t batch, channels, in_h, in_w, out_channels, out_h, out_w;
} qv_window;

/* Checks the 8 words of a window (and 2 of dilations if `dilated` is 1), the ranks of x and y, and that every window
   starts within the padded input (unless `transposed` is 1). */
qv_status qv_window_check(qv_model *m, const qv_node *n, int dilated, int transposed);
void qv_window_of(const qv_model *m, const qv_node *n, int dilated, qv_window *w);

/* The taps first .. end - 1 of a window along one axis. */
typedef struct {
  int64_t first, end;
} qv_taps_of_axis;
/* Returns the taps of a window from position `start` on that lie in low .. high - 1; first = end if none does. */
qv_taps_of_axis qv_taps_between(int64_t start, int64_t kernel, int64_t dilation, int64_t low, int64_t high);
/* Returns the taps that a kernel must walk over an image of `size` positions: all that lie in it, and few that do not,
   which the kernel skips. So the time of a window is bounded by the size of the image, however large the window is; the
   taps of an ordinary window are all walked. */
qv_taps_of_axis qv_taps_walked(int64_t start, int64_t kernel, int64_t dilation, int64_t size);
#endif
