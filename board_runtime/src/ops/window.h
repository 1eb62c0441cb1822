/* Windows of conv and pool ops over planes; rank 3 (N,C,W) counts as H = 1. */
#ifndef QV_WINDOW_H
#define QV_WINDOW_H
#include "op.h"

typedef struct {
  int64_t kernel_h, kernel_w, stride_h, stride_w, top, left, bottom, right, dilation_h, dilation_w;
  int64_t batch, channels, in_h, in_w, out_channels, out_h, out_w;
} qv_window;

/* Reads 8 words (and 2 dilations when `dilated`) and the shapes; checks ranges and that every tap index fits. */
qv_status qv_window_check(qv_model *m, const qv_node *n, int dilated, int transposed);
void qv_window_of(const qv_model *m, const qv_node *n, int dilated, qv_window *w);

/* Taps first .. end - 1 of one axis. */
typedef struct {
  int64_t first, end;
} qv_taps_of_axis;
/* The taps of a window from position `start` that lie at low .. high - 1; first = end where none does. */
qv_taps_of_axis qv_taps_between(int64_t start, int64_t kernel, int64_t dilation, int64_t low, int64_t high);
/* Those that a kernel walks over an image of `size`: all that lie in it, and few that do not, which the kernel skips. So the
   time of a window has a limit that its image and not its kernel sets; an ordinary window is walked whole. */
qv_taps_of_axis qv_taps_walked(int64_t start, int64_t kernel, int64_t dilation, int64_t size);
#endif
