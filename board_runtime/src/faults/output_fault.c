/* Helper functions of faults: pseudo-random numbers, positions of elements, moving and changing elements. */
#include "fault.h"

uint64_t qv_roll(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

int64_t qv_roll_below(uint64_t *state, int64_t bound) { return (int64_t)(qv_roll(state) % (uint64_t)bound); }

int64_t qv_plane_of(const qv_output_fault *f, int64_t i) { return i / f->area; }
int64_t qv_row_of(const qv_output_fault *f, int64_t i) { return i / f->columns % f->rows; }
int64_t qv_column_of(const qv_output_fault *f, int64_t i) { return i % f->columns; }

void qv_permute(const qv_output_fault *f, int64_t (*from)(const qv_output_fault *f, int64_t i)) {
  uint64_t noise = f->seed;
  for (int64_t i = 0; i < f->elements; i++) {
    int64_t at = from(f, i);
    uint64_t garbage = at < 0 ? qv_roll(&noise) : 0;
    memcpy(f->data + (size_t)i * f->size, at < 0 ? (const uint8_t *)&garbage : f->before + (size_t)at * f->size, f->size);
  }
}

qv_why qv_map(const qv_output_fault *f, int32_t (*value)(const qv_output_fault *f, int64_t i, int32_t v)) {
  if (!qv_is_q(f->y)) return "it needs a quantized tensor of 8 or 16 bits";
  int32_t low = qv_qmin(f->y->dtype), high = qv_qmax(f->y->dtype);
  for (int64_t i = 0; i < f->elements; i++) {
    int32_t v = value(f, i, qv_load(f->before, f->y->dtype, i));
    qv_store(f->data, f->y->dtype, i, v < low ? low : v > high ? high : v);
  }
  return NULL;
}
