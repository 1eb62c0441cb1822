/* y = fl32(sequential float64 sum of the valid taps / count); count: number of valid taps, with word 10 also of those
   in the padding. */
#include "window.h"

static qv_status average_pool_float_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 11);
  if (status != QV_OK || (status = qv_window_check(m, n, 1, 0)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (x->dtype != QV_F32 || y->dtype != QV_F32 || x->shape[1] != y->shape[1])
    return qv_fail_operands(m, n, "float32 in and out, and as many channels out as in");
  if (qv_word(n, 10) & ~1) return qv_fail(m, n, QV_E_FORMAT, "word 10 is %d, wanted 0 or 1", qv_word(n, 10));
  return QV_OK;
}

static double sum_of(const qv_window *w, const float *plane, int64_t top, int64_t left) {
  qv_taps_of_axis rows = qv_taps_between(top, w->kernel_h, w->dilation_h, 0, w->in_h);
  qv_taps_of_axis columns = qv_taps_between(left, w->kernel_w, w->dilation_w, 0, w->in_w);
  double sum = 0.0;
  for (int64_t a = rows.first; a < rows.end; a++)
    for (int64_t b = columns.first; b < columns.end; b++)
      sum = sum + (double)plane[(top + a * w->dilation_h) * w->in_w + left + b * w->dilation_w];
  return sum;
}

/* Returns how many of the `kernel` positions of a window from `start` on lie in [low, high). */
static int64_t positions(int64_t start, int64_t kernel, int64_t dilation, int64_t low, int64_t high) {
  qv_taps_of_axis taps = qv_taps_between(start, kernel, dilation, low, high);
  return taps.end - taps.first;
}

static qv_status average_pool_float_run(const qv_session *s, const qv_node *n) {
  qv_window w;
  qv_window_of(s->model, n, 1, &w);
  const float *from = qv_data(s, qv_in(s->model, n, 0));
  float *to = qv_data(s, qv_out(s->model, n, 0));
  int64_t all = qv_word(n, 10), at = 0;
  for (int64_t p = 0; p < w.batch * w.channels; p++)
    for (int64_t i = 0; i < w.out_h; i++) {
      int64_t top = i * w.stride_h - w.top;
      int64_t rows = positions(top, w.kernel_h, w.dilation_h, all ? -w.top : 0, w.in_h + (all ? w.bottom : 0));
      for (int64_t j = 0; j < w.out_w; j++, at++) {
        int64_t left = j * w.stride_w - w.left;
        int64_t count = rows * positions(left, w.kernel_w, w.dilation_w, all ? -w.left : 0, w.in_w + (all ? w.right : 0));
        to[at] = (float)(sum_of(&w, from + p * w.in_h * w.in_w, top, left) / (double)(count ? count : 1));
      }
    }
  return QV_OK;
}

const qv_op qv_op_average_pool_float = {"average_pool_float", average_pool_float_check, NULL, average_pool_float_run};
