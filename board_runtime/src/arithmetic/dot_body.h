/* Bodies of the qv_dots kernels, compiled once for each instruction set that includes this file. */
#ifndef QV_DOT_BODY_H
#define QV_DOT_BODY_H
#include "dot.h"
#include "float32.h"

#define QV_BODY static inline __attribute__((always_inline))

QV_BODY void body_panel(const int16_t *w, int64_t stride, const int16_t *panel, int64_t pairs, uint32_t *acc) {
  for (int r = 0; r < QV_ROWS; r++) {
    uint32_t sum[QV_PANEL] = {0};
    for (int64_t k = 0; k < pairs; k++) {
      int32_t even = w[r * stride + 2 * k], odd = w[r * stride + 2 * k + 1];
      const int16_t *x = panel + k * 2 * QV_PANEL;
      for (int c = 0; c < QV_PANEL; c++) sum[c] += (uint32_t)(x[2 * c] * even) + (uint32_t)(x[2 * c + 1] * odd);
    }
    memcpy(acc + r * QV_TILE, sum, sizeof sum);
  }
}

QV_BODY void body_taps_stride(const qv_taps *t, uint32_t *acc, int64_t count, int64_t stride) {
  const int16_t *a = t->line[0], *b = t->line[1], *c = t->line[2], *w = t->weights;
  int32_t w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3], w4 = w[4], w5 = w[5], w6 = w[6], w7 = w[7], w8 = w[8];
  int64_t d = t->dilation;
  for (int64_t j = 0; j < count; j++) {
    int64_t at = j * stride;
    acc[j] = (uint32_t)(a[at] * w0 + a[at + d] * w1 + a[at + 2 * d] * w2 + b[at] * w3 + b[at + d] * w4 + b[at + 2 * d] * w5 + c[at] * w6 +
                        c[at + d] * w7 + c[at + 2 * d] * w8);
  }
}

QV_BODY void body_taps(const qv_taps *t, uint32_t *acc, int64_t count) {
  if (t->stride == 1) body_taps_stride(t, acc, count, 1);
  else if (t->stride == 2) body_taps_stride(t, acc, count, 2);
  else body_taps_stride(t, acc, count, t->stride);
}

QV_BODY uint32_t body_row(const int16_t *x, const int16_t *w, int64_t length) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < length; i++) sum += (uint32_t)(x[i] * w[i]);
  return sum;
}

QV_BODY void body_finish_f32(const qv_requantizer *r, float scale, uint32_t bias, const uint32_t *acc, int64_t count, uint8_t *to) {
  float low = (float)(r->low - r->zero), high = (float)(r->high - r->zero);
  int32_t zero = r->zero;
  for (int64_t j = 0; j < count; j++) {
    float v = (float)(int32_t)(acc[j] + bias) * scale;
    v = v < low ? low : v;
    v = v > high ? high : v;
    to[j] = (uint8_t)((int32_t)qv_round_f32(v) + zero);
  }
}

QV_BODY int64_t body_shift(const qv_short_shift *r, int64_t v) {
  int64_t low = (v < 0 ? ~(~v >> r->shift) : v >> r->shift) + r->zero;
  v += r->add + (low < 0 ? r->below : 0) + (low & r->odd);
  return v < 0 ? ~(~v >> r->shift) : v >> r->shift;
}

QV_BODY void body_finish_half_up(const qv_requantizer *r, const qv_steps *s, uint32_t bias, const uint32_t *acc, int64_t count,
                                 uint8_t *to) {
  int64_t multiplier = s->multiplier, shift = s->last, half = (int64_t)1 << (shift - 1);
  int64_t low = r->low, high = r->high, zero = r->zero;
  for (int64_t j = 0; j < count; j++) {
    int64_t v = (int32_t)(acc[j] + bias) * multiplier + half;
    v = (v < 0 ? ~(~v >> shift) : v >> shift) + zero;
    to[j] = (uint8_t)(v < low ? low : v > high ? high : v);
  }
}

QV_BODY void body_finish_steps(const qv_requantizer *r, const qv_steps *s, uint32_t bias, const uint32_t *acc, int64_t count, uint8_t *to) {
  qv_short_shift before = qv_short_shift_of(-s->pre, s->rules & 7, 0);
  qv_short_shift first = qv_short_shift_of(s->first, s->rules >> 4 & 7, 0), last = qv_short_shift_of(s->last, s->rules >> 8, r->zero);
  int64_t multiplier = s->multiplier, low = r->low, high = r->high, zero = r->zero;
  for (int64_t j = 0; j < count; j++) {
    int64_t v = (int32_t)(acc[j] + bias);
    if (before.shift) v = body_shift(&before, v);
    v *= multiplier;
    if (first.shift) v = body_shift(&first, v);
    v = body_shift(&last, v) + zero;
    to[j] = (uint8_t)(v < low ? low : v > high ? high : v);
  }
}

/* An integer rq: the sums are int32, so that their products are within +-2^62. */
QV_BODY void body_finish_integer(const qv_requantizer *r, int64_t at, int64_t channel, uint32_t bias, const uint32_t *acc, int64_t count,
                                 uint8_t *to) {
  qv_steps s = qv_steps_of(r, at);
  if (s.pre > 0 || r->rows == 7)
    for (int64_t j = 0; j < count; j++) to[j] = (uint8_t)qv_requantize(r, (int32_t)(acc[j] + bias), channel);
  else if (!s.pre && !s.first && s.rules >> 8 == QV_HALF_UP && s.last >= 1 && s.last <= 62)
    body_finish_half_up(r, &s, bias, acc, count, to);
  else body_finish_steps(r, &s, bias, acc, count, to);
}

QV_BODY void body_finish_real(const qv_requantizer *r, int64_t channel, uint32_t bias, const uint32_t *acc, int64_t count, uint8_t *to) {
  float *out = (float *)(void *)to;
  double scale = ((const double *)r->values)[r->channels > 1 ? channel : 0], add = r->bias ? (double)r->bias[channel] : 0.0;
  for (int64_t j = 0; j < count; j++) out[j] = (float)((double)(int32_t)(acc[j] + bias) * scale + add);
}

/* An exact scale with a rule, without branches: the integer below v, and whether v goes to the one above it. */
QV_BODY void body_finish_rule(const qv_requantizer *r, int64_t at, uint32_t bias, const uint32_t *acc, int64_t count, uint8_t *to) {
  const double *values = r->values;
  int code = r->rows == 2 ? (int)values[r->channels] : QV_HALF_EVEN, rule = code & 7;
  int32_t zero = r->zero, inside = code & QV_ZERO_INSIDE ? zero : 0;
  int32_t above = rule <= QV_HALF_DOWN, tie = rule == QV_HALF_UP, odd = rule == QV_HALF_EVEN, away = rule == QV_HALF_AWAY;
  int32_t up = rule == QV_CEILING, toward = rule == QV_TOWARD_ZERO;
  double scale = values[at], low = (double)(r->low - zero), high = (double)(r->high - zero);
  for (int64_t j = 0; j < count; j++) {
    double v = (double)(int32_t)(acc[j] + bias) * scale;
    v = v < low ? low : v;
    v = v > high ? high : v;
    int32_t whole = (int32_t)v;
    whole -= (double)whole > v;
    double rest = v - (double)whole;
    int32_t negative = whole + inside < 0, half = tie | (odd & (whole + inside)) | (away & !negative);
    whole += ((rest > 0.5) & above) | ((rest == 0.5) & half) | ((rest > 0.0) & (up | (toward & negative)));
    to[j] = (uint8_t)(whole + zero);
  }
}

QV_BODY void body_finish(const qv_requantizer *r, int64_t channel, uint32_t bias, const uint32_t *acc, int64_t count, uint8_t *to) {
  int64_t at = r->channels > 1 ? channel : 0;
  if (r->real) {
    body_finish_real(r, channel, bias, acc, count, to);
  } else if (r->dtype == QV_F32 && r->rows == 1) {
    body_finish_f32(r, ((const float *)r->values)[at], bias, acc, count, to);
  } else if (r->dtype == QV_I32) {
    body_finish_integer(r, at, channel, bias, acc, count, to);
  } else if (r->dtype == QV_F64 && r->rows != QV_TWO_STEPS) {
    body_finish_rule(r, at, bias, acc, count, to);
  } else {
    for (int64_t j = 0; j < count; j++) to[j] = (uint8_t)qv_requantize(r, (int32_t)(acc[j] + bias), channel);
  }
}

/* As body_finish, but with a different channel for each element: element j belongs to channel + j. */
QV_BODY void body_finish_each(const qv_requantizer *r, int64_t channel, uint32_t add, const uint32_t *acc, int64_t count, uint8_t *to) {
  for (int64_t j = 0; j < count; j++) {
    int32_t v = qv_requantize(r, (int32_t)(acc[j] + add), channel + j);
    if (r->real) memcpy(to + 4 * j, &v, 4);
    else to[j] = (uint8_t)v;
  }
}

QV_BODY void body_centre_step(const uint8_t *from, int is_signed, int32_t zero, int64_t count, int64_t step, int16_t *to) {
  if (is_signed)
    for (int64_t i = 0; i < count; i++) to[i * step] = (int16_t)((int8_t)from[i] - zero);
  else
    for (int64_t i = 0; i < count; i++) to[i * step] = (int16_t)(from[i] - zero);
}

QV_BODY void body_centre(const uint8_t *from, int is_signed, int32_t zero, int64_t count, int64_t step, int16_t *to) {
  if (step == 1) body_centre_step(from, is_signed, zero, count, 1, to);
  else body_centre_step(from, is_signed, zero, count, step, to);
}

/* Defines taps, row, finish and centre, each with `attribute`. The file that uses the macro defines panel
   and the table. */
#define QV_DOTS_FUNCTIONS(attribute) \
  attribute static void taps(const qv_taps *t, uint32_t *acc, int64_t count) { body_taps(t, acc, count); } \
  attribute static uint32_t row(const int16_t *x, const int16_t *w, int64_t length) { return body_row(x, w, length); } \
  attribute static void finish(const qv_requantizer *r, int64_t channel, uint32_t bias, const uint32_t *acc, int64_t count, uint8_t *to) { \
    body_finish(r, channel, bias, acc, count, to); \
  } \
  attribute static void centre(const uint8_t *from, int is_signed, int32_t zero, int64_t count, int64_t step, int16_t *to) { \
    body_centre(from, is_signed, zero, count, step, to); \
  }
#endif
