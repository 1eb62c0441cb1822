/* y = max of x over the valid taps; x and y have the same quantization. */
#include "../arithmetic/instructions.h"
#include "window.h"

static qv_status max_pool_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 10);
  if (status != QV_OK || (status = qv_check_copy(m, n)) != QV_OK || (status = qv_window_check(m, n, 1, 0)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0);
  if (!(qv_is_8bit(x) || qv_is_16bit(x) || x->dtype == QV_F32) || qv_out(m, n, 0)->shape[1] != x->shape[1])
    return qv_fail_operands(m, n, "8 bits, 16 bits or float32, and as many channels out as in");
  return QV_OK;
}

enum { LARGEST = 64 }; /* largest side of a window that is computed tap by tap over rows of bytes */

static int64_t divided_up(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : 0; }

/* Computes row i of the output, for 8-bit elements. */
static void fast_row(const qv_elementwise *kernels, const qv_window *w, const uint8_t *plane, int64_t i, uint8_t flip, uint8_t *to) {
  memset(to, flip, (size_t)w->out_w);
  for (int64_t a = 0; a < w->kernel_h; a++) {
    int64_t r = i * w->stride_h - w->top + a * w->dilation_h;
    if (r < 0 || r >= w->in_h) continue;
    for (int64_t b = 0; b < w->kernel_w; b++) {
      int64_t right = b * w->dilation_w - w->left, first = divided_up(-right, w->stride_w), end = divided_up(w->in_w - right, w->stride_w);
      if (end > w->out_w) end = w->out_w;
      if (first < end) kernels->maximum(plane + r * w->in_w + first * w->stride_w + right, w->stride_w, flip, end - first, to + first);
    }
  }
}

static qv_status max_pool_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  qv_window w;
  qv_window_of(s->model, n, 1, &w);
  const void *from = qv_data(s, x);
  void *to = qv_data(s, y);
  const qv_elementwise *kernels = s->plain_only || !qv_is_8bit(x) ? NULL : qv_chosen_instructions().elementwise;
  if (kernels && w.kernel_h <= LARGEST && w.kernel_w <= LARGEST) {
    for (int64_t k = 0; k < w.batch * w.channels * w.out_h; k++)
      fast_row(kernels, &w, (const uint8_t *)from + k / w.out_h * w.in_h * w.in_w, k % w.out_h, x->dtype == QV_S8 ? 128 : 0,
               (uint8_t *)to + k * w.out_w);
    return QV_OK;
  }
  int64_t at = 0;
  for (int64_t p = 0; p < w.batch * w.channels; p++)
    for (int64_t i = 0; i < w.out_h; i++) {
      qv_taps_of_axis rows = qv_taps_walked(i * w.stride_h - w.top, w.kernel_h, w.dilation_h, w.in_h);
      for (int64_t j = 0; j < w.out_w; j++, at++) {
        int32_t best = qv_is_8bit(x) || qv_is_16bit(x) ? qv_qmin(x->dtype) : 0;
        float best_f = -3.4028234663852886e38f * 2.0f;
        qv_taps_of_axis columns = qv_taps_walked(j * w.stride_w - w.left, w.kernel_w, w.dilation_w, w.in_w);
        for (int64_t a = rows.first; a < rows.end; a++)
          for (int64_t b = columns.first; b < columns.end; b++) {
            int64_t r = i * w.stride_h - w.top + a * w.dilation_h, c = j * w.stride_w - w.left + b * w.dilation_w;
            if (r < 0 || r >= w.in_h || c < 0 || c >= w.in_w) continue;
            int64_t where = (p * w.in_h + r) * w.in_w + c;
            if (x->dtype == QV_F32) {
              float v = ((const float *)from)[where];
              if (v > best_f || v != v) best_f = v;
            } else {
              int32_t v = qv_load(from, x->dtype, where);
              if (v > best) best = v;
            }
          }
        if (x->dtype == QV_F32) ((float *)to)[at] = best_f;
        else qv_store(to, y->dtype, at, best);
      }
    }
  return QV_OK;
}

const qv_op qv_op_max_pool = {"max_pool", max_pool_check, NULL, max_pool_run};
