/* y = clip(requantize(b + sum (x-zx)(w-zw), S) + zy): 1-D and 2-D convolution, groups, dilation. */
#include "../arithmetic/dot.h"
#include "../arithmetic/requantize.h"
#include "window.h"

enum { TILE = 32 };

static int64_t depth_of(const qv_tensor *k) { return (int64_t)k->shape[1] * k->shape[2] * k->shape[3]; }
static int64_t padded_depth(const qv_tensor *k) { return (depth_of(k) + 15) / 16 * 16; }
static int is_depthwise(const qv_tensor *k) { return k->shape[1] == 1; }

static qv_status conv_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 4, 1, 13);
  if (status != QV_OK || (status = qv_window_check(m, n, 1, 0)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *k = qv_in(m, n, 1), *b = qv_in(m, n, 2), *y = qv_out(m, n, 0);
  int64_t group = qv_word(n, 10);
  if (!k || !k->constant || !qv_is_q(x) || !qv_is_q(k) || x->n_scales != 1 || k->rank != 4 || group < 1 || x->shape[1] % group || y->shape[1] % group ||
      k->shape[0] != y->shape[1] || (int64_t)k->shape[1] * group != x->shape[1] || k->shape[2] != qv_word(n, 0) || k->shape[3] != qv_word(n, 1) || (k->n_scales > 1 && k->channel_axis != 0))
    return qv_fail(m, n, QV_E_FORMAT, "bad weights");
  int wide = qv_is_wide(x, k, y);
  if (b && (!b->constant || b->elements != y->shape[1] || b->dtype != (wide ? QV_I64 : QV_I32))) return qv_fail(m, n, QV_E_FORMAT, "bad bias");
  if (!wide) {
    qv_window w;
    qv_window_of(m, n, 1, &w);
    n->prepared_bytes = (padded_depth(k) * k->shape[0]) * 2;
    n->scratch_bytes = is_depthwise(k) ? (w.in_h * w.in_w * 2 + 63) / 64 * 64 + w.out_w * 4 : (int64_t)TILE * padded_depth(k) * 2;
  }
  return qv_check_rq(m, n, 3, y->shape[1], 11);
}

/* Weights centred to int16, each output channel's row padded with zeros. */
static qv_status conv_prepare(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *k = qv_in(s->model, n, 1);
  if (qv_is_wide(x, k, qv_out(s->model, n, 0))) return QV_OK;
  int64_t depth = depth_of(k), row = padded_depth(k);
  int16_t *to = qv_prepared(s, n);
  for (int64_t o = 0; o < k->shape[0]; o++)
    for (int64_t i = 0; i < depth; i++) to[o * row + i] = (int16_t)(qv_load(k->constant, k->dtype, o * depth + i) - qv_zero(k, o));
  return QV_OK;
}

static int64_t bias_of(const qv_tensor *b, int64_t o) {
  return !b ? 0 : b->dtype == QV_I64 ? ((const int64_t *)b->constant)[o] : ((const int32_t *)b->constant)[o];
}

typedef struct {
  const qv_session *s;
  const qv_node *n;
  const qv_tensor *x, *k, *b, *y;
  qv_window w;
  qv_requantizer r;
  int64_t group, per_in, per_out;
} convolving;

static void plain(const convolving *c) {
  const void *from = qv_data(c->s, c->x);
  const qv_window *w = &c->w;
  int wide = c->r.wide;
  int64_t at = 0;
  for (int64_t batch = 0; batch < w->batch; batch++)
    for (int64_t o = 0; o < w->out_channels; o++)
      for (int64_t i = 0; i < w->out_h; i++)
        for (int64_t j = 0; j < w->out_w; j++, at++) {
          int64_t acc = bias_of(c->b, o);
          for (int64_t q = 0; q < c->per_in; q++)
            for (int64_t a = 0; a < w->kernel_h; a++)
              for (int64_t e = 0; e < w->kernel_w; e++) {
                int64_t row = i * w->stride_h - w->top + a * w->dilation_h, column = j * w->stride_w - w->left + e * w->dilation_w;
                if (row < 0 || row >= w->in_h || column < 0 || column >= w->in_w) continue;
                int64_t in = ((batch * w->channels + o / c->per_out * c->per_in + q) * w->in_h + row) * w->in_w + column;
                int64_t tap = ((o * c->per_in + q) * w->kernel_h + a) * w->kernel_w + e;
                acc += (int64_t)(qv_load(from, c->x->dtype, in) - c->x->zero_point[0]) * (qv_load(c->k->constant, c->k->dtype, tap) - qv_zero(c->k, o));
              }
          qv_store(qv_data(c->s, c->y), c->y->dtype, at, qv_requantize(&c->r, wide ? acc : (int32_t)(uint32_t)acc, o));
        }
}

/* Columns j for which j*stride - pad + offset lies in 0..size-1. */
static void valid_range(int64_t out, int64_t stride, int64_t offset, int64_t size, int64_t *first, int64_t *last) {
  *first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  *last = size - 1 - offset < 0 ? -1 : (size - 1 - offset) / stride;
  if (*last > out - 1) *last = out - 1;
}

static void depthwise(const convolving *c) {
  const qv_window *w = &c->w;
  int64_t plane = w->in_h * w->in_w, row_w = padded_depth(c->k);
  int16_t *centred = qv_scratch(c->s, c->n);
  uint32_t *acc = (uint32_t *)(void *)((uint8_t *)centred + (plane * 2 + 63) / 64 * 64);
  const uint8_t *from = qv_data(c->s, c->x);
  const int16_t *weights = qv_prepared(c->s, c->n);
  for (int64_t batch = 0; batch < w->batch; batch++)
    for (int64_t o = 0; o < w->out_channels; o++) {
      int64_t source = (batch * w->channels + o / c->per_out) * plane;
      int32_t zero = c->x->zero_point[0];
      if (o % c->per_out == 0) {
        if (c->x->dtype == QV_U8) for (int64_t i = 0; i < plane; i++) centred[i] = (int16_t)(from[source + i] - zero);
        else for (int64_t i = 0; i < plane; i++) centred[i] = (int16_t)((int8_t)from[source + i] - zero);
      }
      for (int64_t i = 0; i < w->out_h; i++) {
        uint32_t bias = (uint32_t)bias_of(c->b, o);
        for (int64_t j = 0; j < w->out_w; j++) acc[j] = bias;
        for (int64_t a = 0; a < w->kernel_h; a++) {
          int64_t row = i * w->stride_h - w->top + a * w->dilation_h;
          if (row < 0 || row >= w->in_h) continue;
          for (int64_t e = 0; e < w->kernel_w; e++) {
            int64_t offset = e * w->dilation_w - w->left, first, last;
            int32_t tap = weights[o * row_w + a * w->kernel_w + e];
            valid_range(w->out_w, w->stride_w, offset, w->in_w, &first, &last);
            const int16_t *line = centred + row * w->in_w + offset;
            if (w->stride_w == 1) for (int64_t j = first; j <= last; j++) acc[j] += (uint32_t)(tap * line[j]);
            else for (int64_t j = first; j <= last; j++) acc[j] += (uint32_t)(tap * line[j * w->stride_w]);
          }
        }
        int64_t at = ((batch * w->out_channels + o) * w->out_h + i) * w->out_w;
        for (int64_t j = 0; j < w->out_w; j++) qv_store(qv_data(c->s, c->y), c->y->dtype, at + j, qv_requantize(&c->r, (int32_t)acc[j], o));
      }
    }
}

/* TILE output pixels as centred rows of length padded_depth. */
static void gather_rows(const convolving *c, int64_t batch, int64_t g, int64_t first, int64_t count, int16_t *rows) {
  const qv_window *w = &c->w;
  int64_t row_w = padded_depth(c->k), depth = depth_of(c->k);
  const uint8_t *from = qv_data(c->s, c->x);
  int32_t zero = c->x->zero_point[0];
  int is_signed = c->x->dtype == QV_S8;
  for (int64_t p = 0; p < count; p++) {
    int64_t i = (first + p) / w->out_w, j = (first + p) % w->out_w;
    int16_t *to = rows + p * row_w;
    memset(to + depth, 0, (size_t)(row_w - depth) * 2);
    for (int64_t q = 0; q < c->per_in; q++) {
      const uint8_t *plane = from + (batch * w->channels + g * c->per_in + q) * w->in_h * w->in_w;
      for (int64_t a = 0; a < w->kernel_h; a++) {
        int64_t row = i * w->stride_h - w->top + a * w->dilation_h;
        for (int64_t e = 0; e < w->kernel_w; e++) {
          int64_t column = j * w->stride_w - w->left + e * w->dilation_w;
          int inside = row >= 0 && row < w->in_h && column >= 0 && column < w->in_w;
          int32_t v = !inside ? zero : is_signed ? (int8_t)plane[row * w->in_w + column] : plane[row * w->in_w + column];
          *to++ = (int16_t)(v - zero);
        }
      }
    }
  }
}

static void rows_times_weights(const convolving *c) {
  const qv_window *w = &c->w;
  int64_t row_w = padded_depth(c->k), pixels = w->out_h * w->out_w;
  int16_t *rows = qv_scratch(c->s, c->n);
  const int16_t *weights = qv_prepared(c->s, c->n);
  void *to = qv_data(c->s, c->y);
  for (int64_t batch = 0; batch < w->batch; batch++)
    for (int64_t g = 0; g < c->group; g++)
      for (int64_t first = 0; first < pixels; first += TILE) {
        int64_t count = pixels - first < TILE ? pixels - first : TILE;
        gather_rows(c, batch, g, first, count, rows);
        for (int64_t o = g * c->per_out; o < (g + 1) * c->per_out; o += 4) {
          int64_t some = (g + 1) * c->per_out - o < 4 ? (g + 1) * c->per_out - o : 4;
          for (int64_t p = 0; p < count; p++) {
            uint32_t acc[4];
            if (some == 4) qv_dot4(rows + p * row_w, weights + o * row_w, row_w, row_w, acc);
            else for (int64_t t = 0; t < some; t++) acc[t] = qv_dot(rows + p * row_w, weights + (o + t) * row_w, row_w);
            for (int64_t t = 0; t < some; t++) {
              int32_t sum = (int32_t)(acc[t] + (uint32_t)bias_of(c->b, o + t));
              qv_store(to, c->y->dtype, (batch * w->out_channels + o + t) * pixels + first + p, qv_requantize(&c->r, sum, o + t));
            }
          }
        }
      }
}

static qv_status conv_run(const qv_session *s, const qv_node *n) {
  convolving c = {.s = s, .n = n, .x = qv_in(s->model, n, 0), .k = qv_in(s->model, n, 1), .b = qv_in(s->model, n, 2), .y = qv_out(s->model, n, 0)};
  qv_window_of(s->model, n, 1, &c.w);
  qv_requantizer_of(s, n, 3, 11, qv_is_wide(c.x, c.k, c.y), &c.r);
  c.group = qv_word(n, 10);
  c.per_in = c.w.channels / c.group;
  c.per_out = c.w.out_channels / c.group;
  if (s->plain_only || c.r.wide) plain(&c);
  else if (is_depthwise(c.k)) depthwise(&c);
  else rows_times_weights(&c);
  return QV_OK;
}

const qv_op qv_op_conv = {"conv", conv_check, conv_prepare, conv_run};
