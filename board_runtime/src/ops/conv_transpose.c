/* acc[n,o, i*stride - pad + k*dilation] += (x-zx)(w-zw); y = clip(requantize(acc + b, S) + zy). */
#include "../arithmetic/requantize.h"
#include "blocks.h"
#include "window.h"

static qv_status conv_transpose_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 4, 1, 13);
  if (status != QV_OK || (status = qv_window_check(m, n, 1, 1)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *k = qv_in(m, n, 1), *y = qv_out(m, n, 0);
  int64_t group = qv_word(n, 10);
  if (group < 1 || x->shape[1] % group || y->shape[1] % group)
    return qv_fail(m, n, QV_E_FORMAT, "%d groups do not divide %d input and %d output channels", (int)group, x->shape[1], y->shape[1]);
  if (!k || !k->constant || !qv_is_q(x) || !qv_is_q(k) || x->n_scales != 1 || k->rank != 4 || k->shape[0] != x->shape[1] ||
      (int64_t)k->shape[1] * group != y->shape[1] || k->shape[2] != qv_word(n, 0) || k->shape[3] != qv_word(n, 1) ||
      (k->n_scales > 1 && k->channel_axis != 1))
    return qv_fail_operands(m, n, "a quantized input of one scale and constant quantized weights (%d, %d, %d, %d), scales on axis 1",
                            x->shape[1], y->shape[1] / (int)group, qv_word(n, 0), qv_word(n, 1));
  if ((status = qv_check_bias(m, n, y->shape[1])) != QV_OK) return status;
  if (!qv_is_wide(x, k, y)) qv_conv_transpose_blocks_check(m, n);
  return qv_check_scaled(m, n, 3, y->shape[1], 11);
}

static qv_status conv_transpose_prepare(const qv_session *s, const qv_node *n) {
  if (n->prepared_bytes) qv_conv_transpose_blocks_prepare(s, n);
  return QV_OK;
}

static qv_status conv_transpose_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *k = qv_in(s->model, n, 1), *b = qv_whole_bias(s->model, n), *y = qv_out(s->model, n, 0);
  qv_window w;
  qv_requantizer r;
  int wide = qv_is_wide(x, k, y);
  qv_window_of(s->model, n, 1, &w);
  qv_requantizer_of(s, n, 3, 11, wide, &r);
  int64_t group = qv_word(n, 10), per_in = w.channels / group, per_out = w.out_channels / group, at = 0;
  if (n->prepared_bytes && !s->plain_only) {
    qv_conv_transpose_blocks_run(s, n, &r);
    return QV_OK;
  }
  const void *from = qv_data(s, x);
  for (int64_t batch = 0; batch < w.batch; batch++)
    for (int64_t o = 0; o < w.out_channels; o++) {
      int32_t zero_w = qv_zero(k, o % per_out), zero_x = x->zero_point[0];
      int64_t bias = !b                   ? 0
                     : b->dtype == QV_I64 ? ((const int64_t *)b->constant)[o]
                                          : ((const int32_t *)b->constant)[o],
              first = o / per_out * per_in;
      for (int64_t i = 0; i < w.out_h; i++)
        for (int64_t j = 0; j < w.out_w; j++, at++) {
          uint64_t acc = (uint64_t)bias;
          for (int64_t p = 0; p < w.kernel_h; p++)
            for (int64_t q = 0; q < w.kernel_w; q++) {
              int64_t row = i + w.top - p * w.dilation_h, column = j + w.left - q * w.dilation_w;
              if (row < 0 || column < 0 || row % w.stride_h || column % w.stride_w || row / w.stride_h >= w.in_h ||
                  column / w.stride_w >= w.in_w)
                continue;
              for (int64_t c = 0; c < per_in; c++) {
                int64_t in = ((batch * w.channels + first + c) * w.in_h + row / w.stride_h) * w.in_w + column / w.stride_w;
                int64_t tap = (((first + c) * per_out + o % per_out) * w.kernel_h + p) * w.kernel_w + q;
                acc += (uint64_t)((int64_t)(qv_load(from, x->dtype, in) - zero_x) * (qv_load(k->constant, k->dtype, tap) - zero_w));
              }
            }
          qv_store(qv_data(s, y), y->dtype, at, qv_requantize(&r, wide ? (int64_t)acc : (int32_t)(uint32_t)acc, o));
        }
    }
  return QV_OK;
}

const qv_op qv_op_conv_transpose = {"conv_transpose", conv_transpose_check, conv_transpose_prepare, conv_transpose_run};
