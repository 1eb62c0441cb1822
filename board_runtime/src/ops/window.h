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
#endif
