/* Withheld kinds of faults in wires, power supplies and filters, by which elements are disturbed by their neighbours.
   Nothing in the verifier was written with these in mind. */
#include "output_faults.h"

enum { STRETCH = 64, BANKS = 8 };

static int32_t zero_of(const qv_output_fault *f) { return qv_zero(f->y, 0); }
static int32_t range_of(const qv_output_fault *f) { return qv_qmax(f->y->dtype) - qv_qmin(f->y->dtype); }
static int32_t old(const qv_output_fault *f, int64_t i) { return qv_load(f->before, f->y->dtype, i); }
/* Returns the element at which the state carried from element to element starts again: the first of its row, or of each
   STRETCH elements of a longer row. */
static int64_t start_of(const qv_output_fault *f, int64_t i) { return i - qv_column_of(f, i) % STRETCH; }
static int32_t within(int32_t v, int32_t low, int32_t high) { return v < low ? low : v > high ? high : v; }

/* Values are rounded to fewer levels, and the error of each is added to the next element. */
static int32_t diffused(const qv_output_fault *f, int64_t i, int32_t v) {
  int32_t step = 5 + (int32_t)(f->seed % 7), low = qv_qmin(f->y->dtype), carried = 0;
  for (int64_t k = start_of(f, i); k <= i; k++) {
    int32_t wanted = old(f, k) + carried;
    v = low + (wanted - low + step / 2) / step * step;
    carried = wanted - v;
  }
  return v;
}
qv_why qv_output_error_diffused(const qv_output_fault *f) { return qv_map(f, diffused); }

/* A slow driver: the value changes by a limited amount from element to element. */
static int32_t following(const qv_output_fault *f, int64_t i, int32_t v) {
  int32_t most = range_of(f) / (20 + (int32_t)(f->seed % 20));
  v = old(f, start_of(f, i));
  for (int64_t k = start_of(f, i) + 1; k <= i; k++) v += within(old(f, k) - v, -most, most);
  return v;
}
qv_why qv_output_slew_limited(const qv_output_fault *f) { return qv_map(f, following); }

/* The supply voltage drops with the sum of the magnitudes that the row has driven so far. */
static int32_t drooped(const qv_output_fault *f, int64_t i, int32_t v) {
  int64_t spent = 0, full = (int64_t)range_of(f) * (2 + (int64_t)(f->seed % 3));
  for (int64_t k = start_of(f, i); k < i; k++) spent += old(f, k) < zero_of(f) ? zero_of(f) - old(f, k) : old(f, k) - zero_of(f);
  return zero_of(f) + (int32_t)((v - zero_of(f)) * (2 * full - (spent < full ? spent : full)) / (2 * full));
}
qv_why qv_output_supply_droop(const qv_output_fault *f) { return qv_map(f, drooped); }

/* A line between two rising lines gets the wrong level. */
static int32_t disturbed(const qv_output_fault *f, int64_t i, int32_t v) {
  int32_t low = qv_qmin(f->y->dtype), u = v - low, rising = i ? u & ~(old(f, i - 1) - low) : 0;
  return (u ^ (rising << 1 & rising >> 1)) + low;
}
qv_why qv_output_crosstalk(const qv_output_fault *f) { return qv_map(f, disturbed); }

/* Each element is the median of itself and its two neighbours in the row, as by a noise filter that was left on. */
static int32_t middle(const qv_output_fault *f, int64_t i, int32_t v) {
  int64_t column = qv_column_of(f, i);
  if (column == 0 || column + 1 == f->columns) return v;
  int32_t a = old(f, i - 1), b = old(f, i + 1);
  return a < b ? within(v, a, b) : within(v, b, a);
}
qv_why qv_output_median_filtered(const qv_output_fault *f) { return f->columns < 3 ? "its rows are too short" : qv_map(f, middle); }

/* A deinterlacer: each row is mixed with the one above, whose share grows from row to row and starts again
   after four rows. */
static int32_t blended(const qv_output_fault *f, int64_t i, int32_t v) {
  int32_t part = (int32_t)((qv_row_of(f, i) + (int64_t)(f->seed % 4)) % 4);
  return qv_row_of(f, i) ? (v * (4 - part) + old(f, i - f->columns) * part) / 4 : v;
}
qv_why qv_output_rows_blended(const qv_output_fault *f) { return f->rows < 3 ? "it has too few rows" : qv_map(f, blended); }

/* Memory banks are chosen by the parity of the address for writing but not for reading. */
static int64_t in_other_bank(const qv_output_fault *f, int64_t i) {
  int64_t parity = 0, to = i ^ (5 + (int64_t)(f->seed % 3));
  for (int64_t bits = i / BANKS; bits; bits /= 2) parity ^= bits & 1;
  return parity && to < f->elements ? to : i;
}
qv_why qv_output_bank_hashed(const qv_output_fault *f) {
  qv_permute(f, in_other_bank);
  return NULL;
}
