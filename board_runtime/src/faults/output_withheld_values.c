/* Unusual kinds of faults that change values. They were written as withheld kinds; faulty_runtime.py lists those among
   them that proved equivalent to known mistakes as known. */
#include "output_faults.h"

static int32_t zero_of(const qv_output_fault *f) { return qv_zero(f->y, 0); }
static int64_t channel_of(const qv_output_fault *f, int64_t i) { return qv_plane_of(f, i) % f->channels; }

/* A bias that grows with the channel, as in an analogue accumulator that warms up. */
static int32_t drifted(const qv_output_fault *f, int64_t i, int32_t v) {
  int64_t last = f->channels > 1 ? f->channels - 1 : f->elements, at = f->channels > 1 ? channel_of(f, i) : i;
  return v + (int32_t)(at * (3 + (int64_t)(f->seed % 4)) / last);
}
qv_why qv_output_channel_drift(const qv_output_fault *f) { return qv_map(f, drifted); }

static int32_t chequered(const qv_output_fault *f, int64_t i, int32_t v) {
  return (qv_row_of(f, i) + qv_column_of(f, i)) % 2 ? 2 * zero_of(f) - v : v;
}
qv_why qv_output_checkerboard(const qv_output_fault *f) { return qv_map(f, chequered); }

/* Values are limited to a narrower range around the zero point. */
static int32_t squeezed(const qv_output_fault *f, int64_t i, int32_t v) {
  int32_t limit = (qv_qmax(f->y->dtype) - qv_qmin(f->y->dtype)) / (6 + (int32_t)(f->seed % 5)), zero = zero_of(f);
  (void)i;
  return v > zero + limit ? zero + limit : v < zero - limit ? zero - limit : v;
}
qv_why qv_output_narrow_saturation(const qv_output_fault *f) { return qv_map(f, squeezed); }

static int32_t dithered(const qv_output_fault *f, int64_t i, int32_t v) {
  uint64_t dice = f->seed + (uint64_t)i * 0x632be59bd9b4e019u;
  return v + (int32_t)qv_roll_below(&dice, 5) - 2;
}
qv_why qv_output_dither(const qv_output_fault *f) { return qv_map(f, dithered); }

/* The distance d from the zero point follows a curve with a term d^2 / range, like the gamma curve of a display. */
static int32_t curved(const qv_output_fault *f, int64_t i, int32_t v) {
  int32_t range = qv_qmax(f->y->dtype) - qv_qmin(f->y->dtype), d = v - zero_of(f);
  (void)i;
  int64_t bent = (int64_t)d * (d < 0 ? -d : d) / (range / 2);
  return zero_of(f) + (int32_t)((bent + d) / 2);
}
qv_why qv_output_gamma(const qv_output_fault *f) { return qv_map(f, curved); }

static int32_t gray_coded(const qv_output_fault *f, int64_t i, int32_t v) {
  uint32_t u = (uint32_t)(v - qv_qmin(f->y->dtype));
  (void)i;
  return (int32_t)(u ^ u >> 1) + qv_qmin(f->y->dtype);
}
qv_why qv_output_gray_code(const qv_output_fault *f) { return qv_map(f, gray_coded); }

/* Half of the preceding element is added to each element. */
static int32_t echoed(const qv_output_fault *f, int64_t i, int32_t v) {
  return i ? v + (qv_load(f->before, f->y->dtype, i - 1) - zero_of(f)) / 2 : v;
}
qv_why qv_output_echo(const qv_output_fault *f) { return qv_map(f, echoed); }

/* Every element is XORed with bits of its address, as by a memory scrambler that is on for writing only. */
static int32_t scrambled(const qv_output_fault *f, int64_t i, int32_t v) {
  int32_t low = qv_qmin(f->y->dtype);
  return ((v - low) ^ (int32_t)((i * 37 + (int64_t)f->seed) & 15)) + low;
}
qv_why qv_output_scrambler(const qv_output_fault *f) { return qv_map(f, scrambled); }

/* The distance from the zero point is reduced more and more from row to row, to about half in the last row. */
static int32_t faded(const qv_output_fault *f, int64_t i, int32_t v) {
  int64_t length = f->rows > 1 ? f->rows : f->columns, at = f->rows > 1 ? qv_row_of(f, i) : qv_column_of(f, i);
  return zero_of(f) + (int32_t)((v - zero_of(f)) * (2 * length - at) / (2 * length));
}
qv_why qv_output_fade(const qv_output_fault *f) { return qv_map(f, faded); }

/* Each element is averaged with the next one. */
static int32_t smoothed(const qv_output_fault *f, int64_t i, int32_t v) {
  return i + 1 < f->elements ? (v + qv_load(f->before, f->y->dtype, i + 1)) / 2 : v;
}
qv_why qv_output_smoothed(const qv_output_fault *f) { return qv_map(f, smoothed); }

/* Each element is the maximum of those up to it in its word of four, as from a comparator that is not reset
   between them. */
static int32_t held_maximum(const qv_output_fault *f, int64_t i, int32_t v) {
  for (int64_t k = i - i % 4; k < i; k++) {
    int32_t other = qv_load(f->before, f->y->dtype, k);
    v = other > v ? other : v;
  }
  return v;
}
qv_why qv_output_running_max(const qv_output_fault *f) { return qv_map(f, held_maximum); }

/* The low four lines of the bus are connected in reverse order. */
static int32_t mirrored(const qv_output_fault *f, int64_t i, int32_t v) {
  int32_t low = qv_qmin(f->y->dtype), u = v - low;
  (void)i;
  return (u & ~15) + ((u & 1) << 3 | (u & 2) << 1 | (u & 4) >> 1 | (u & 8) >> 3) + low;
}
qv_why qv_output_nibble_mirrored(const qv_output_fault *f) { return qv_map(f, mirrored); }
