/* y = clip(requantize(b + sum (x-zx)(w-zw), S) + zy): 1-D and 2-D convolution, groups, dilation. */
#include "../arithmetic/dot.h"
#include "../arithmetic/requantize.h"
#include "blocks.h"
#include "window.h"

static int64_t depth_of(const qv_tensor *k) { return (int64_t)k->shape[1] * k->shape[2] * k->shape[3]; }
static int is_depthwise(const qv_tensor *k) { return k->shape[1] == 1; }
/* Returns whether all terms of a sum have the same input scale: x has one scale, or one for each channel in a depthwise
   convolution. */
static int is_scaled_alike(const qv_tensor *x, const qv_tensor *k) {
  return x->n_scales == 1 || (k->rank == 4 && is_depthwise(k) && x->channel_axis == 1);
}

/* Prepared memory: pointer to the kernels (HEAD bytes), then a row of 2*pairs centred weights for each output channel,
   then QV_ROWS - 1 rows of zeros. */
enum { HEAD = 64 };
static int64_t prepared_bytes(const qv_tensor *k) { return HEAD + (k->shape[0] + QV_ROWS - 1) * qv_pairs(depth_of(k)) * 4; }

/* Return the width and height of a channel's plane with its padding, up to the end of the last window. */
static int64_t plane_w(const qv_window *w) {
  int64_t reach = (w->out_w - 1) * w->stride_w + (w->kernel_w - 1) * w->dilation_w + 1, whole = w->in_w + w->left;
  return reach > whole ? reach : whole;
}
static int64_t plane_h(const qv_window *w) {
  int64_t reach = (w->out_h - 1) * w->stride_h + (w->kernel_h - 1) * w->dilation_h + 1, whole = w->in_h + w->top;
  return reach > whole ? reach : whole;
}

static qv_status conv_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 4, 1, 13);
  if (status != QV_OK || (status = qv_window_check(m, n, 1, 0)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *k = qv_in(m, n, 1), *y = qv_out(m, n, 0);
  int64_t group = qv_word(n, 10);
  if (group < 1 || x->shape[1] % group || y->shape[1] % group)
    return qv_fail(m, n, QV_E_FORMAT, "%d groups do not divide %d input and %d output channels", (int)group, x->shape[1], y->shape[1]);
  if (!k || !k->constant || !qv_is_q(x) || !qv_is_q(k) || !is_scaled_alike(x, k) || k->rank != 4 || k->shape[0] != y->shape[1] ||
      (int64_t)k->shape[1] * group != x->shape[1] || k->shape[2] != qv_word(n, 0) || k->shape[3] != qv_word(n, 1) ||
      (k->n_scales > 1 && k->channel_axis != 0))
    return qv_fail_operands(
        m, n, "an input of one scale (depthwise: or of one a channel) and constant quantized weights (%d, %d, %d, %d), scales on axis 0",
        y->shape[1], x->shape[1] / (int)group, qv_word(n, 0), qv_word(n, 1));
  int wide = qv_is_wide(x, k, y);
  if ((status = qv_check_bias(m, n, y->shape[1])) != QV_OK) return status;
  if (!wide) {
    qv_window w;
    qv_window_of(m, n, 1, &w);
    n->prepared_bytes = prepared_bytes(k);
    if (is_depthwise(k) && plane_w(&w) > ((int64_t)1 << 32) / plane_h(&w))
      return qv_fail(m, n, QV_E_MEMORY, "a padded plane of %lld x %lld elements, wanted at most 2^32", (long long)plane_h(&w),
                     (long long)plane_w(&w));
    n->scratch_bytes =
        is_depthwise(k) ? qv_padded64(plane_w(&w) * plane_h(&w) * 2) + w.out_w * 4 : (QV_ROWS * 4 + qv_pairs(depth_of(k)) * 4) * QV_TILE;
    qv_conv_blocks_check(m, n);
  }
  return qv_check_scaled(m, n, 3, y->shape[1], 11);
}

static qv_status conv_prepare(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *k = qv_in(s->model, n, 1);
  if (qv_is_wide(x, k, qv_out(s->model, n, 0))) return QV_OK;
  int64_t depth = depth_of(k), row = qv_pairs(depth) * 2;
  qv_node probe = *n;
  if (qv_conv_blocks_check(s->model, &probe)) {
    qv_conv_blocks_prepare(s, n);
    return QV_OK;
  }
  const qv_dots *dots = qv_chosen_instructions().dots;
  memcpy(qv_prepared(s, n), &dots, sizeof dots);
  int16_t *to = (int16_t *)qv_prepared(s, n) + HEAD / 2;
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
  int64_t group, per_in, per_out, size; /* size: bytes per element of y */
  const qv_dots *dots;                  /* the fast kernels; below, their centred weights */
  const int16_t *weights;
  int64_t row; /* int16 elements per row of weights */
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
          uint64_t acc = (uint64_t)bias_of(c->b, o);
          for (int64_t q = 0; q < c->per_in; q++)
            for (int64_t a = 0; a < w->kernel_h; a++)
              for (int64_t e = 0; e < w->kernel_w; e++) {
                int64_t row = i * w->stride_h - w->top + a * w->dilation_h, column = j * w->stride_w - w->left + e * w->dilation_w;
                if (row < 0 || row >= w->in_h || column < 0 || column >= w->in_w) continue;
                int64_t in = ((batch * w->channels + o / c->per_out * c->per_in + q) * w->in_h + row) * w->in_w + column;
                int64_t tap = ((o * c->per_in + q) * w->kernel_h + a) * w->kernel_w + e;
                acc += (uint64_t)((int64_t)(qv_load(from, c->x->dtype, in) - qv_zero(c->x, o / c->per_out)) *
                                  (qv_load(c->k->constant, c->k->dtype, tap) - qv_zero(c->k, o)));
              }
          qv_store(qv_data(c->s, c->y), c->y->dtype, at, qv_requantize(&c->r, wide ? (int64_t)acc : (int32_t)(uint32_t)acc, o));
        }
}

/* Writes one channel's plane, minus the zero point, to `to`, whose padding is already zero. */
static void centre_plane(const convolving *c, int64_t channel, const uint8_t *from, int16_t *to) {
  const qv_window *w = &c->w;
  int64_t wide = plane_w(w);
  for (int64_t i = 0; i < w->in_h; i++)
    c->dots->centre(from + i * w->in_w, c->x->dtype == QV_S8, qv_zero(c->x, channel), w->in_w, 1, to + (i + w->top) * wide + w->left);
}

/* Computes the sums of one output row of one channel in acc. */
static void depthwise_row(const convolving *c, const int16_t *lines, const int16_t *weights, uint32_t *acc) {
  const qv_window *w = &c->w;
  int64_t wide = plane_w(w);
  if (w->kernel_h == 3 && w->kernel_w == 3) {
    qv_taps t = {{lines, lines + w->dilation_h * wide, lines + 2 * w->dilation_h * wide}, weights, w->stride_w, w->dilation_w};
    c->dots->taps(&t, acc, w->out_w);
    return;
  }
  memset(acc, 0, (size_t)w->out_w * 4);
  for (int64_t a = 0; a < w->kernel_h; a++)
    for (int64_t e = 0; e < w->kernel_w; e++) {
      const int16_t *line = lines + a * w->dilation_h * wide + e * w->dilation_w;
      int32_t tap = *weights++;
      if (w->stride_w == 1)
        for (int64_t j = 0; j < w->out_w; j++) acc[j] += (uint32_t)(tap * line[j]);
      else
        for (int64_t j = 0; j < w->out_w; j++) acc[j] += (uint32_t)(tap * line[j * w->stride_w]);
    }
}

static void depthwise(const convolving *c) {
  const qv_window *w = &c->w;
  int64_t plane = w->in_h * w->in_w, wide = plane_w(w);
  int16_t *centred = qv_scratch(c->s, c->n);
  uint32_t *acc = (uint32_t *)(void *)((uint8_t *)centred + qv_padded64(wide * plane_h(w) * 2));
  const uint8_t *from = qv_data(c->s, c->x);
  uint8_t *to = qv_data(c->s, c->y);
  memset(centred, 0, (size_t)(wide * plane_h(w)) * 2);
  for (int64_t batch = 0; batch < w->batch; batch++)
    for (int64_t o = 0; o < w->out_channels; o++) {
      if (o % c->per_out == 0) centre_plane(c, o / c->per_out, from + (batch * w->channels + o / c->per_out) * plane, centred);
      for (int64_t i = 0; i < w->out_h; i++, to += w->out_w * c->size) {
        depthwise_row(c, centred + i * w->stride_h * wide, c->weights + o * c->row, acc);
        c->dots->finish(&c->r, o, (uint32_t)bias_of(c->b, o), acc, w->out_w, to);
      }
    }
}

/* Writes one step of the depth (one tap of one channel) for `count` pixels of an output row to every second element of
   `to`. row and column: position in the input plane that the tap has for the first of these pixels. */
static void gather_line(const convolving *c, const uint8_t *plane, int64_t row, int64_t column, int64_t count, int16_t *to) {
  const qv_window *w = &c->w;
  int64_t p = 0;
  int is_signed = c->x->dtype == QV_S8;
  int32_t zero = c->x->zero_point[0];
  if (row < 0 || row >= w->in_h) {
    for (; p < count; p++) to[2 * p] = 0;
    return;
  }
  const uint8_t *line = plane + row * w->in_w;
  if (w->stride_w == 1 && column >= 0 && column + count <= w->in_w) {
    c->dots->centre(line + column, is_signed, zero, count, 2, to);
    return;
  }
  for (; p < count; p++, column += w->stride_w) {
    int32_t v = column < 0 || column >= w->in_w ? zero : is_signed ? (int8_t)line[column] : line[column];
    to[2 * p] = (int16_t)(v - zero);
  }
}

/* Packs `count` (at most QV_PANEL) pixels from `first` on as one panel. */
static void gather_panel(const convolving *c, const uint8_t *planes, int64_t first, int64_t count, int16_t *to) {
  const qv_window *w = &c->w;
  int whole = w->kernel_h * w->kernel_w == 1 && w->stride_h == 1 && w->stride_w == 1 && w->out_w == w->in_w && w->top == 0 &&
              w->left == 0 && w->out_h <= w->in_h;
  for (int64_t done = 0, some; done < count; done += some) {
    int64_t i = (first + done) / w->out_w, j = (first + done) % w->out_w, k = 0;
    some = whole || w->out_w - j > count - done ? count - done : w->out_w - j;
    for (int64_t q = 0; q < c->per_in; q++) {
      const uint8_t *plane = planes + q * w->in_h * w->in_w;
      if (whole) {
        c->dots->centre(plane + first, c->x->dtype == QV_S8, c->x->zero_point[0], count, 2, to + q / 2 * 2 * QV_PANEL + q % 2);
        continue;
      }
      for (int64_t a = 0; a < w->kernel_h; a++)
        for (int64_t e = 0; e < w->kernel_w; e++, k++)
          gather_line(c, plane, i * w->stride_h - w->top + a * w->dilation_h, j * w->stride_w - w->left + e * w->dilation_w, some,
                      to + k / 2 * 2 * QV_PANEL + 2 * done + k % 2);
    }
  }
}

/* Computes all output channels of group g for `count` (at most QV_TILE) pixels, whose panels are already packed. */
static void multiply_tile(const convolving *c, int64_t g, const int16_t *panels, int64_t count, uint32_t *acc, uint8_t *to) {
  int64_t pixels = c->w.out_h * c->w.out_w, pairs = c->row / 2;
  for (int64_t o = g * c->per_out; o < (g + 1) * c->per_out; o += QV_ROWS) {
    for (int64_t p = 0; p < count; p += QV_PANEL) c->dots->panel(c->weights + o * c->row, c->row, panels + p * c->row, pairs, acc + p);
    for (int64_t t = 0; t < QV_ROWS && o + t < (g + 1) * c->per_out; t++)
      c->dots->finish(&c->r, o + t, (uint32_t)bias_of(c->b, o + t), acc + t * QV_TILE, count, to + (o + t) * pixels * c->size);
  }
}

static void panels_times_weights(const convolving *c) {
  const qv_window *w = &c->w;
  int64_t pixels = w->out_h * w->out_w, plane = w->in_h * w->in_w;
  uint32_t *acc = qv_scratch(c->s, c->n);
  int16_t *panels = (int16_t *)(void *)(acc + QV_ROWS * QV_TILE);
  const uint8_t *from = qv_data(c->s, c->x);
  uint8_t *to = qv_data(c->s, c->y);
  memset(panels, 0, (size_t)qv_tile_elements(c->row / 2) * 2);
  for (int64_t batch = 0; batch < w->batch; batch++)
    for (int64_t g = 0; g < c->group; g++)
      for (int64_t first = 0; first < pixels; first += QV_TILE) {
        int64_t count = pixels - first < QV_TILE ? pixels - first : QV_TILE;
        for (int64_t p = 0; p < count; p += QV_PANEL)
          gather_panel(c, from + (batch * w->channels + g * c->per_in) * plane, first + p, count - p < QV_PANEL ? count - p : QV_PANEL,
                       panels + p * c->row);
        multiply_tile(c, g, panels, count, acc, to + (batch * w->out_channels * pixels + first) * c->size);
      }
}

static qv_status conv_run(const qv_session *s, const qv_node *n) {
  convolving c = {
      .s = s, .n = n, .x = qv_in(s->model, n, 0), .k = qv_in(s->model, n, 1), .b = qv_whole_bias(s->model, n), .y = qv_out(s->model, n, 0)};
  qv_window_of(s->model, n, 1, &c.w);
  qv_requantizer_of(s, n, 3, 11, qv_is_wide(c.x, c.k, c.y), &c.r);
  c.group = qv_word(n, 10);
  c.size = (int64_t)qv_dtype_size(c.y->dtype);
  c.per_in = c.w.channels / c.group;
  c.per_out = c.w.out_channels / c.group;
  if (s->plain_only || c.r.wide) {
    plain(&c);
    return QV_OK;
  }
  if (qv_blocks_of(s, n)) {
    qv_conv_blocks_run(s, n, &c.r);
    return QV_OK;
  }
  memcpy(&c.dots, qv_prepared(s, n), sizeof c.dots);
  c.weights = (const int16_t *)qv_prepared(s, n) + HEAD / 2;
  c.row = qv_pairs(depth_of(c.k)) * 2;
  if (is_depthwise(c.k)) depthwise(&c);
  else panels_times_weights(&c);
  return QV_OK;
}

const qv_op qv_op_conv = {"conv", conv_check, conv_prepare, conv_run};
