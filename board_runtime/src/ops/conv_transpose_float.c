/* y = fl32(b + sum x*w), the exact sum rounded once, at input*stride - pad + tap*dilation: transposed convolution of floats. */
#include "../arithmetic/float_sums.h"
#include "window.h"

static qv_status check_finite(qv_model *m, const qv_node *n, const qv_tensor *k) {
  const float *w = k->constant;
  for (int64_t i = 0; i < k->elements; i++)
    if (w[i] - w[i] != 0) return qv_fail(m, n, QV_E_FORMAT, "weight %ld is not a finite number", (long)i);
  return QV_OK;
}

static qv_status conv_transpose_float_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 3, 1, 11);
  if (status != QV_OK || (status = qv_window_check(m, n, 1, 1)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *k = qv_in(m, n, 1), *b = qv_in(m, n, 2), *y = qv_out(m, n, 0);
  int64_t group = qv_word(n, 10);
  if (group < 1 || x->shape[1] % group || y->shape[1] % group)
    return qv_fail(m, n, QV_E_FORMAT, "%d groups do not divide %d input and %d output channels", (int)group, x->shape[1], y->shape[1]);
  if (!k || !k->constant || x->dtype != QV_F32 || k->dtype != QV_F32 || y->dtype != QV_F32 || k->rank != 4 || k->shape[0] != x->shape[1] ||
      (int64_t)k->shape[1] * group != y->shape[1] || k->shape[2] != qv_word(n, 0) || k->shape[3] != qv_word(n, 1) ||
      (b && (b->dtype != QV_F32 || b->elements != y->shape[1])))
    return qv_fail_operands(m, n, "float32 in and out, constant weights (%d, %d, %d, %d) and %d biases or none", x->shape[1],
                            y->shape[1] / (int)group, qv_word(n, 0), qv_word(n, 1), y->shape[1]);
  int64_t depth = k->elements / k->shape[1] / group, per_out = k->shape[1];
  n->scratch_bytes = per_out * 8 + (per_out + QV_FLOAT_TILE) * depth * 4;
  return check_finite(m, n, k);
}

typedef struct {
  qv_window w;
  const float *weights;
  int64_t group, per_in, per_out;
} convolving;

/* Returns whether a tap of an axis contributes to output `at`. *source is then the index of the input element, which
   may lie outside the input. */
static int reaches(int64_t at, int64_t pad, int64_t tap, int64_t dilation, int64_t stride, int64_t *source) {
  int64_t far = at + pad - tap * dilation;
  if (far % stride) return 0;
  *source = far / stride;
  return 1;
}

/* Packs the weights of the taps that contribute to the outputs (i + stride_h * n, j + stride_w * m) of group g, one row
   for each output channel. Returns the length of a row. */
static int64_t pack_weights(const convolving *c, int64_t g, int64_t i, int64_t j, float *to) {
  const qv_window *w = &c->w;
  int64_t at = 0, area = w->kernel_h * w->kernel_w, row, column;
  for (int64_t o = 0; o < c->per_out; o++)
    for (int64_t q = 0; q < c->per_in; q++) {
      const float *from = c->weights + ((g * c->per_in + q) * c->per_out + o) * area;
      for (int64_t a = 0; a < w->kernel_h; a++)
        if (reaches(i, w->top, a, w->dilation_h, w->stride_h, &row))
          for (int64_t e = 0; e < w->kernel_w; e++)
            if (reaches(j, w->left, e, w->dilation_w, w->stride_w, &column)) to[at++] = from[a * w->kernel_w + e];
    }
  return at / c->per_out;
}

/* Packs the input values of outputs (i, j + stride_w * p), p < count: QV_FLOAT_TILE floats for each step of the depth.
   Values outside the input are 0. */
static void gather(const convolving *c, const float *planes, int64_t i, int64_t j, int64_t count, float *to) {
  const qv_window *w = &c->w;
  int64_t row, column;
  for (int64_t q = 0; q < c->per_in; q++, planes += w->in_h * w->in_w)
    for (int64_t a = 0; a < w->kernel_h; a++)
      if (reaches(i, w->top, a, w->dilation_h, w->stride_h, &row))
        for (int64_t e = 0; e < w->kernel_w; e++)
          if (reaches(j, w->left, e, w->dilation_w, w->stride_w, &column)) {
            int inside = row >= 0 && row < w->in_h;
            for (int64_t p = 0; p < count; p++)
              to[p] = inside && column + p >= 0 && column + p < w->in_w ? planes[row * w->in_w + column + p] : 0.0f;
            to += QV_FLOAT_TILE;
          }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static qv_status conv_transpose_float_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *b = qv_in(s->model, n, 2);
  convolving c = {.weights = qv_in(s->model, n, 1)->constant, .group = qv_word(n, 10)};
  qv_window *w = &c.w;
  qv_window_of(s->model, n, 1, w);
  c.per_in = w->channels / c.group;
  c.per_out = w->out_channels / c.group;
  int64_t in_plane = w->in_h * w->in_w, out_plane = w->out_h * w->out_w;
  const float *from = qv_data(s, qv_in(s->model, n, 0)), *bias = b ? qv_data(s, b) : NULL;
  float *to = qv_data(s, qv_out(s->model, n, 0));
  int64_t depth = c.per_in * w->kernel_h * w->kernel_w;
  double *norms = qv_scratch(s, n);
  float *tile = (float *)(void *)(norms + c.per_out), *packed = tile + depth * QV_FLOAT_TILE;
  qv_float_matrix m = {.a = packed, .b = tile, .a_step = 1, .b_step = QV_FLOAT_TILE, .b_column = 1, .c_row = 1, .alpha = 1, .beta = 1};
  m.y_row = out_plane, m.y_column = w->stride_w, m.rows = c.per_out, m.norms = norms;
  m.kernel = s->plain_only ? NULL : qv_float_kernel_of_cpu(0);
  memset(tile, 0, (size_t)(depth * QV_FLOAT_TILE) * 4);
  for (int64_t g = 0; g < c.group; g++)
    for (int64_t i0 = 0; i0 < least(w->stride_h, w->out_h); i0++)
      for (int64_t j0 = 0; j0 < least(w->stride_w, w->out_w); j0++) {
        m.depth = m.a_row = pack_weights(&c, g, i0, j0, packed);
        m.c = bias ? bias + g * c.per_out : NULL;
        qv_row_norms(&m, norms);
        for (int64_t batch = 0; batch < w->batch; batch++)
          for (int64_t i = i0; i < w->out_h; i += w->stride_h)
            for (int64_t j = j0; j < w->out_w; j += w->stride_w * QV_FLOAT_TILE) {
              m.columns = least((w->out_w - j - 1) / w->stride_w + 1, QV_FLOAT_TILE);
              gather(&c, from + (batch * w->channels + g * c.per_in) * in_plane, i, j, m.columns, tile);
              m.y = to + (batch * w->out_channels + g * c.per_out) * out_plane + i * w->out_w + j;
              qv_multiply_floats(&m);
            }
      }
  return QV_OK;
}

const qv_op qv_op_conv_transpose_float = {"conv_transpose_float", conv_transpose_float_check, NULL, conv_transpose_float_run};
