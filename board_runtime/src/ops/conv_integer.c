/* y = sum (x-zx)(w-zw) in int32, which wraps: 1-D and 2-D convolution; zx one number, zw one or one per output channel. */
#include "window.h"

static qv_status conv_integer_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 4, 1, 11);
  if (status != QV_OK || (status = qv_window_check(m, n, 1, 0)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *k = qv_in(m, n, 1), *zx = qv_in(m, n, 2), *zw = qv_in(m, n, 3), *y = qv_out(m, n, 0);
  int64_t group = qv_word(n, 10);
  if (group < 1 || x->shape[1] % group || y->shape[1] % group)
    return qv_fail(m, n, QV_E_FORMAT, "%d groups do not divide %d input and %d output channels", (int)group, x->shape[1], y->shape[1]);
  if (!k || !qv_is_8bit(x) || !qv_is_8bit(k) || y->dtype != QV_I32 || k->rank != 4 || k->shape[0] != y->shape[1] ||
      (int64_t)k->shape[1] * group != x->shape[1] || k->shape[2] != qv_word(n, 0) || k->shape[3] != qv_word(n, 1))
    return qv_fail_operands(m, n, "8 bits in, weights (%d, %d, %d, %d) of 8 bits, int32 out", y->shape[1], x->shape[1] / (int)group,
                            qv_word(n, 0), qv_word(n, 1));
  if ((zx && (zx->dtype != x->dtype || zx->elements != 1)) ||
      (zw && (zw->dtype != k->dtype || (zw->elements != 1 && zw->elements != y->shape[1]))))
    return qv_fail_operands(m, n, "zero points of their operand's type: one, and one or %d", y->shape[1]);
  return QV_OK;
}

/* y[j] += by * (x[j * step] - zero) for `count` outputs of a row. */
static void add_row(const void *x, int32_t dtype, int64_t at, int64_t step, int32_t zero, uint32_t by, int64_t count, uint32_t *y) {
  if (dtype == QV_S8) {
    const int8_t *from = (const int8_t *)x + at;
    for (int64_t j = 0; j < count; j++) y[j] += by * (uint32_t)(from[j * step] - zero);
  } else {
    const uint8_t *from = (const uint8_t *)x + at;
    for (int64_t j = 0; j < count; j++) y[j] += by * (uint32_t)(from[j * step] - zero);
  }
}

/* Adds the products of one tap of one input channel, whose plane begins at element `plane`, to a whole plane of y. */
static void add_tap(const qv_window *w, const void *x, int32_t dtype, int64_t plane, int32_t zero, int64_t down, int64_t right, uint32_t by,
                    uint32_t *y) {
  int64_t first = right >= 0 ? 0 : (-right + w->stride_w - 1) / w->stride_w;
  int64_t end = right >= w->in_w ? 0 : (w->in_w - 1 - right) / w->stride_w + 1;
  if (end > w->out_w) end = w->out_w;
  if (first >= end) return;
  for (int64_t i = 0; i < w->out_h; i++) {
    int64_t row = i * w->stride_h + down;
    if (row >= 0 && row < w->in_h)
      add_row(x, dtype, plane + row * w->in_w + first * w->stride_w + right, w->stride_w, zero, by, end - first, y + i * w->out_w + first);
  }
}

static qv_status conv_integer_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *k = qv_in(s->model, n, 1), *zx = qv_in(s->model, n, 2), *zw = qv_in(s->model, n, 3);
  const qv_tensor *y = qv_out(s->model, n, 0);
  qv_window w;
  qv_window_of(s->model, n, 1, &w);
  int64_t group = qv_word(n, 10), per_in = w.channels / group, per_out = w.out_channels / group, pixels = w.out_h * w.out_w;
  const void *from = qv_data(s, x), *weights = qv_data(s, k);
  uint32_t *to = qv_data(s, y);
  int32_t zero = zx ? qv_load(qv_data(s, zx), zx->dtype, 0) : 0;
  memset(to, 0, (size_t)y->elements * 4);
  for (int64_t batch = 0; batch < w.batch; batch++)
    for (int64_t o = 0, at = 0; o < w.out_channels; o++, to += pixels) {
      int32_t zero_w = zw ? qv_load(qv_data(s, zw), zw->dtype, zw->elements == 1 ? 0 : o) : 0;
      for (int64_t q = 0; q < per_in; q++) {
        int64_t plane = (batch * w.channels + o / per_out * per_in + q) * w.in_h * w.in_w;
        for (int64_t a = 0; a < w.kernel_h; a++)
          for (int64_t e = 0; e < w.kernel_w; e++, at++)
            add_tap(&w, from, x->dtype, plane, zero, a * w.dilation_h - w.top, e * w.dilation_w - w.left,
                    (uint32_t)(qv_load(weights, k->dtype, at) - zero_w), to);
      }
    }
  return QV_OK;
}

const qv_op qv_op_conv_integer = {"conv_integer", conv_integer_check, NULL, conv_integer_run};
