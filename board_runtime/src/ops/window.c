/* The windows of convolutions and pools over planes. */
#include "window.h"

void qv_window_of(const qv_model *m, const qv_node *n, int dilated, qv_window *w) {
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  const int32_t *v = n->words;
  w->kernel_h = v[0];
  w->kernel_w = v[1];
  w->stride_h = v[2];
  w->stride_w = v[3];
  w->top = v[4];
  w->left = v[5];
  w->bottom = v[6];
  w->right = v[7];
  w->dilation_h = dilated ? v[8] : 1;
  w->dilation_w = dilated ? v[9] : 1;
  w->batch = x->shape[0];
  w->channels = x->shape[1];
  w->out_channels = y->shape[1];
  w->in_h = x->rank == 3 ? 1 : x->shape[2];
  w->in_w = x->shape[x->rank - 1];
  w->out_h = y->rank == 3 ? 1 : y->shape[2];
  w->out_w = y->shape[y->rank - 1];
}

static int64_t divided_up(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : 0; }

qv_taps_of_axis qv_taps_between(int64_t start, int64_t kernel, int64_t dilation, int64_t low, int64_t high) {
  qv_taps_of_axis taps = {divided_up(low - start, dilation), divided_up(high - start, dilation)};
  if (taps.end > kernel) taps.end = kernel;
  if (taps.first > taps.end) taps.first = taps.end;
  return taps;
}

enum { MARGIN = 16 }; /* positions next to the image that are walked like those in it */

qv_taps_of_axis qv_taps_walked(int64_t start, int64_t kernel, int64_t dilation, int64_t size) {
  qv_taps_of_axis taps = {0, kernel};
  if (start >= -MARGIN && start + (kernel - 1) * dilation < size + MARGIN) return taps;
  taps = qv_taps_between(start, kernel, dilation, 0, size);
  return taps.first == taps.end ? taps : qv_taps_between(start, kernel, dilation, -MARGIN, size + MARGIN);
}

qv_status qv_window_check(qv_model *m, const qv_node *n, int dilated, int transposed) {
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || (x->rank != 3 && x->rank != 4) || y->rank != x->rank || y->shape[0] != x->shape[0])
    return qv_fail_operands(m, n, "rank 3 or 4 in and out, with one batch size");
  for (int i = 0; i < (dilated ? 10 : 8); i++) {
    int32_t low = i >= 4 && i < 8 ? 0 : 1;
    if (qv_word(n, i) < low || qv_word(n, i) > 65536)
      return qv_fail(m, n, QV_E_FORMAT, "word %d is %d, wanted %d to 65536", i, qv_word(n, i), low);
  }
  qv_window w;
  qv_window_of(m, n, dilated, &w);
  if ((int64_t)w.kernel_h * w.kernel_w > 1 << 20)
    return qv_fail(m, n, QV_E_FORMAT, "a window of %d x %d, wanted at most %d taps", qv_word(n, 0), qv_word(n, 1), 1 << 20);
  if (transposed) return QV_OK;
  /* Every window starts inside the padded input; reads beyond the input are skipped by the kernels. */
  if ((int64_t)(w.out_h - 1) * w.stride_h > (int64_t)w.in_h + w.top + w.bottom ||
      (int64_t)(w.out_w - 1) * w.stride_w > (int64_t)w.in_w + w.left + w.right)
    return qv_fail(m, n, QV_E_FORMAT, "%ld x %ld windows at strides %d and %d, wanted each to start within %ld x %ld and its pads",
                   (long)w.out_h, (long)w.out_w, qv_word(n, 2), qv_word(n, 3), (long)w.in_h, (long)w.in_w);
  return QV_OK;
}
