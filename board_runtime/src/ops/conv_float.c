/* y = fl32(b + sum x*w), the exact sum rounded once: 1-D and 2-D convolution of floats, with groups and dilation. */
#include "../arithmetic/float_sums.h"
#include "window.h"

static qv_status conv_float_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 3, 1, 11);
  if (status != QV_OK || (status = qv_window_check(m, n, 1, 0)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *k = qv_in(m, n, 1), *b = qv_in(m, n, 2), *y = qv_out(m, n, 0);
  int64_t group = qv_word(n, 10);
  if (group < 1 || x->shape[1] % group || y->shape[1] % group)
    return qv_fail(m, n, QV_E_FORMAT, "%d groups do not divide %d input and %d output channels", (int)group, x->shape[1], y->shape[1]);
  if (!k || x->dtype != QV_F32 || k->dtype != QV_F32 || y->dtype != QV_F32 || k->rank != 4 || k->shape[0] != y->shape[1] ||
      (int64_t)k->shape[1] * group != x->shape[1] || k->shape[2] != qv_word(n, 0) || k->shape[3] != qv_word(n, 1) ||
      (b && (b->dtype != QV_F32 || b->elements != y->shape[1])))
    return qv_fail_operands(m, n, "float32 in and out, weights (%d, %d, %d, %d) and %d biases or none", y->shape[1],
                            x->shape[1] / (int)group, qv_word(n, 0), qv_word(n, 1), y->shape[1]);
  int64_t depth = k->elements / k->shape[0];
  n->scratch_bytes = (int64_t)k->shape[0] * 8 + depth * QV_FLOAT_TILE * 4;
  return QV_OK;
}

/* Writes one step of the depth (one tap of one channel) for `count` output pixels from `first` on; values outside the
   plane are 0. */
static void gather_tap(const qv_window *w, const float *plane, int64_t down, int64_t right, int64_t first, int64_t count, float *to) {
  int64_t i = first / w->out_w, j = first % w->out_w;
  while (count > 0) {
    int64_t run = w->out_w - j < count ? w->out_w - j : count, row = i * w->stride_h + down, column = j * w->stride_w + right;
    int inside = row >= 0 && row < w->in_h;
    const float *line = plane + (inside ? row * w->in_w : 0);
    if (!inside)
      for (int64_t p = 0; p < run; p++) to[p] = 0.0f;
    else if (w->stride_w == 1 && column >= 0 && column + run <= w->in_w) memcpy(to, line + column, (size_t)run * 4);
    else
      for (int64_t p = 0; p < run; p++, column += w->stride_w) to[p] = column < 0 || column >= w->in_w ? 0.0f : line[column];
    to += run;
    count -= run;
    i++;
    j = 0;
  }
}

/* Packs the input values of `count` output pixels from `first` on, from the planes of one group: QV_FLOAT_TILE floats
   for each step of the depth. */
static void gather(const qv_window *w, const float *planes, int64_t channels, int64_t first, int64_t count, float *to) {
  for (int64_t q = 0; q < channels; q++, planes += w->in_h * w->in_w)
    for (int64_t a = 0; a < w->kernel_h; a++)
      for (int64_t e = 0; e < w->kernel_w; e++, to += QV_FLOAT_TILE)
        gather_tap(w, planes, a * w->dilation_h - w->top, e * w->dilation_w - w->left, first, count, to);
}

static qv_status conv_float_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *k = qv_in(s->model, n, 1), *b = qv_in(s->model, n, 2);
  qv_window w;
  qv_window_of(s->model, n, 1, &w);
  int64_t group = qv_word(n, 10), per_in = w.channels / group, per_out = w.out_channels / group, pixels = w.out_h * w.out_w;
  const float *from = qv_data(s, x), *weights = qv_data(s, k), *bias = b ? qv_data(s, b) : NULL;
  float *to = qv_data(s, qv_out(s->model, n, 0));
  double *norms = qv_scratch(s, n);
  float *tile = (float *)(void *)(norms + w.out_channels);
  qv_float_matrix m = {.a_row = k->elements / k->shape[0], .a_step = 1, .c_row = 1, .y_row = pixels, .y_column = 1, .alpha = 1, .beta = 1};
  m.depth = m.a_row, m.b_step = QV_FLOAT_TILE, m.b_column = 1, m.b = tile;
  m.a = weights, m.rows = w.out_channels;
  qv_row_norms(&m, norms);
  m.rows = per_out;
  m.kernel = s->plain_only ? NULL : qv_float_kernel_of_cpu(0);
  memset(tile, 0, (size_t)m.depth * QV_FLOAT_TILE * 4);
  for (int64_t batch = 0; batch < w.batch; batch++)
    for (int64_t g = 0; g < group; g++)
      for (int64_t first = 0; first < pixels; first += QV_FLOAT_TILE) {
        m.columns = pixels - first < QV_FLOAT_TILE ? pixels - first : QV_FLOAT_TILE;
        gather(&w, from + (batch * w.channels + g * per_in) * w.in_h * w.in_w, per_in, first, m.columns, tile);
        m.a = weights + g * per_out * m.a_row;
        m.c = bias ? bias + g * per_out : NULL;
        m.y = to + (batch * w.out_channels + g * per_out) * pixels + first;
        m.norms = norms + g * per_out;
        qv_multiply_floats(&m);
      }
  return QV_OK;
}

const qv_op qv_op_conv_float = {"conv_float", conv_float_check, NULL, conv_float_run};
