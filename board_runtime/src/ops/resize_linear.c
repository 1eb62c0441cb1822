/* y = ((dx2*dy2*X11 + dx1*dy2*X21) + dx2*dy1*X12) + dx1*dy1*X22, every step in float32; more forms compute as LiteRT and
   XNNPACK do. */
#include "op.h"
#include "../arithmetic/float32.h"
#include "../arithmetic/steps.h"

static float sample(const qv_tensor *x, const void *from, int truncate, int64_t at) {
  if (x->dtype == QV_F32) return ((const float *)from)[at];
  int32_t q = qv_load(from, x->dtype, at);
  return truncate ? (float)q : qv_dequantize(q, x->scale[0], x->zero_point[0]);
}

enum { FIXED_POINT = 2, HALF_UP, WEIGHTS_FIRST, IN_2048THS }; /* values of word 0 that compute as LiteRT and XNNPACK do */
#define FARTHEST 2048 /* largest magnitude of a weight; with half-pixel centres weights exceed 1024 */

static qv_status check_weights(qv_model *m, const qv_node *n, const qv_tensor *weight) {
  const int32_t *w = weight->constant;
  for (int64_t i = 0; i < weight->elements; i++)
    if (w[i] < -FARTHEST || w[i] > FARTHEST) return qv_fail(m, n, QV_E_FORMAT, "weight %ld is %d, wanted -2048 to 2048", (long)i, w[i]);
  return QV_OK;
}

static qv_status resize_linear_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 3, 1, 1);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  const qv_tensor *index = qv_in(m, n, 1), *weight = qv_in(m, n, 2);
  if (!x || x->rank < 2 || x->rank != y->rank) return qv_fail_operands(m, n, "one rank in and out, 2 or more");
  if (qv_word(n, 0) < 0 || qv_word(n, 0) > IN_2048THS) return qv_fail(m, n, QV_E_FORMAT, "word 0 is %d, wanted 0 to 5", qv_word(n, 0));
  int fixed = qv_word(n, 0) == FIXED_POINT || qv_word(n, 0) == IN_2048THS;
  if (qv_word(n, 0) >= FIXED_POINT && !(x->dtype == y->dtype && qv_is_8bit(x)))
    return qv_fail_operands(m, n, "8 bits in and out of one dtype for word 0 = 2 to 5");
  int floats = x->dtype == QV_F32 && y->dtype == QV_F32 && !qv_word(n, 0);
  if (!floats && !(qv_is_q(x) && qv_is_q(y) && x->n_scales == 1 && y->n_scales == 1))
    return qv_fail_operands(m, n, "one scale each for a quantized input and output, or float32 for both and word 0 = 0");
  for (int k = 0; k < x->rank - 2; k++)
    if (x->shape[k] != y->shape[k])
      return qv_fail(m, n, QV_E_FORMAT, "dim %d is %d in and %d out, wanted a change in the last two dims only", k, x->shape[k],
                     y->shape[k]);
  int64_t rows = y->shape[y->rank - 2], columns = y->shape[y->rank - 1];
  if (!index || !weight || !index->constant || !weight->constant || index->dtype != QV_I32 || weight->dtype != (fixed ? QV_I32 : QV_F32) ||
      index->elements != 2 * (rows + columns) || weight->elements != index->elements)
    return qv_fail_operands(m, n, "constant tables of %ld int32 indices and %s weights", (long)(2 * (rows + columns)),
                            fixed ? "int32" : "float32");
  const int32_t *at = index->constant;
  for (int64_t i = 0; i < index->elements; i++)
    if (at[i] < 0 || at[i] >= x->shape[i < 2 * rows ? x->rank - 2 : x->rank - 1])
      return qv_fail(m, n, QV_E_FORMAT, "index %ld is %d, wanted 0 to %d", (long)i, at[i],
                     x->shape[i < 2 * rows ? x->rank - 2 : x->rank - 1] - 1);
  return fixed ? check_weights(m, n, weight) : QV_OK;
}

typedef struct {
  const qv_tensor *x, *y;
  const void *from;
  void *to;
  int64_t rows, columns, width;
  const int32_t *r1, *r2, *c1, *c2; /* tables of indices */
  const void *weight;
} resizing;

static int32_t fixed_sample(const resizing *w, int64_t at) { return qv_load(w->from, w->x->dtype, at); }

/* Computes a plane in integers. shift: 20 for weights in 1024ths, halves away from zero; 22 for 2048ths, halves up. */
static void fixed_plane(const resizing *w, int64_t p, int64_t at, int shift) {
  const int32_t *dy2 = w->weight, *dy1 = dy2 + w->rows, *dx2 = dy1 + w->rows, *dx1 = dx2 + w->columns;
  const int64_t half = (int64_t)1 << (shift - 1), low = qv_qmin(w->y->dtype), high = qv_qmax(w->y->dtype);
  for (int64_t i = 0; i < w->rows; i++) {
    int64_t top = p + w->r1[i] * w->width, bottom = p + w->r2[i] * w->width;
    for (int64_t j = 0; j < w->columns; j++, at++) {
      int64_t above = (int64_t)dx2[j] * fixed_sample(w, top + w->c1[j]) + (int64_t)dx1[j] * fixed_sample(w, top + w->c2[j]);
      int64_t below = (int64_t)dx2[j] * fixed_sample(w, bottom + w->c1[j]) + (int64_t)dx1[j] * fixed_sample(w, bottom + w->c2[j]);
      int64_t sum = dy2[i] * above + dy1[i] * below;
      int64_t v = sum < 0 && shift == 20 ? -((half - sum) >> 20) : qv_shift_right(sum + half, shift);
      qv_store(w->to, w->y->dtype, at, (int32_t)(v < low ? low : v > high ? high : v));
    }
  }
}

/* Computes a plane in float32; the sum is rounded half up. rows_first: each sample is first multiplied by the weight of its
   row. */
static void half_up_plane(const resizing *w, int64_t p, int64_t at, int rows_first) {
  const float *dy2 = w->weight, *dy1 = dy2 + w->rows, *dx2 = dy1 + w->rows, *dx1 = dx2 + w->columns;
  const float low = (float)qv_qmin(w->y->dtype), high = (float)qv_qmax(w->y->dtype);
  for (int64_t i = 0; i < w->rows; i++) {
    int64_t top = p + w->r1[i] * w->width, bottom = p + w->r2[i] * w->width;
    for (int64_t j = 0; j < w->columns; j++, at++) {
      float x11 = sample(w->x, w->from, 1, top + w->c1[j]), x21 = sample(w->x, w->from, 1, top + w->c2[j]);
      float x12 = sample(w->x, w->from, 1, bottom + w->c1[j]), x22 = sample(w->x, w->from, 1, bottom + w->c2[j]), v;
      if (rows_first) v = (((x11 * dy2[i]) * dx2[j] + (x12 * dy1[i]) * dx2[j]) + (x21 * dy2[i]) * dx1[j]) + (x22 * dy1[i]) * dx1[j];
      else v = (((dx2[j] * dy2[i]) * x11 + (dx1[j] * dy2[i]) * x21) + (dx2[j] * dy1[i]) * x12) + (dx1[j] * dy1[i]) * x22;
      v += 0.5f;
      if (v != v) v = low;
      qv_store(w->to, w->y->dtype, at, (int32_t)qv_clamp_f32(v, low, high));
    }
  }
}

static qv_status run_as_litert(const qv_session *s, const qv_node *n) {
  resizing w;
  w.x = qv_in(s->model, n, 0);
  w.y = qv_out(s->model, n, 0);
  w.from = qv_data(s, w.x);
  w.to = qv_data(s, w.y);
  w.rows = w.y->shape[w.y->rank - 2];
  w.columns = w.y->shape[w.y->rank - 1];
  w.width = w.x->shape[w.x->rank - 1];
  w.r1 = qv_in(s->model, n, 1)->constant;
  w.r2 = w.r1 + w.rows;
  w.c1 = w.r2 + w.rows;
  w.c2 = w.c1 + w.columns;
  w.weight = qv_in(s->model, n, 2)->constant;
  int64_t plane = w.width * w.x->shape[w.x->rank - 2], at = 0;
  for (int64_t p = 0; p < w.x->elements; p += plane, at += w.rows * w.columns)
    if (qv_word(n, 0) == FIXED_POINT) fixed_plane(&w, p, at, 20);
    else if (qv_word(n, 0) == IN_2048THS) fixed_plane(&w, p, at, 22);
    else half_up_plane(&w, p, at, qv_word(n, 0) == HALF_UP);
  return QV_OK;
}

static qv_status resize_linear_run(const qv_session *s, const qv_node *n) {
  if (qv_word(n, 0) >= FIXED_POINT) return run_as_litert(s, n);
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int64_t rows = y->shape[y->rank - 2], columns = y->shape[y->rank - 1], width = x->shape[x->rank - 1],
          plane = width * x->shape[x->rank - 2];
  const int32_t *r1 = qv_in(s->model, n, 1)->constant, *r2 = r1 + rows, *c1 = r2 + rows, *c2 = c1 + columns;
  const float *dy2 = qv_in(s->model, n, 2)->constant, *dy1 = dy2 + rows, *dx2 = dy1 + rows, *dx1 = dx2 + columns;
  const void *from = qv_data(s, x);
  void *to = qv_data(s, y);
  int truncate = qv_word(n, 0);
  int64_t at = 0;
  for (int64_t p = 0; p < x->elements; p += plane)
    for (int64_t i = 0; i < rows; i++) {
      int64_t top = p + r1[i] * width, bottom = p + r2[i] * width;
      for (int64_t j = 0; j < columns; j++, at++) {
        float v = (dx2[j] * dy2[i]) * sample(x, from, truncate, top + c1[j]);
        float b = (dx1[j] * dy2[i]) * sample(x, from, truncate, top + c2[j]);
        float c = (dx2[j] * dy1[i]) * sample(x, from, truncate, bottom + c1[j]);
        float d = (dx1[j] * dy1[i]) * sample(x, from, truncate, bottom + c2[j]);
        v = ((v + b) + c) + d;
        if (y->dtype == QV_F32) ((float *)to)[at] = v;
        else qv_store(to, y->dtype, at, truncate ? (int32_t)v : qv_quantize(v, y->scale[0], y->zero_point[0], y->dtype));
      }
    }
  return QV_OK;
}

const qv_op qv_op_resize_linear = {"resize_linear", resize_linear_check, NULL, resize_linear_run};
