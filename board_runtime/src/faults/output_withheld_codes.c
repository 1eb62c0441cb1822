/* Withheld kinds of faults in codecs between the processor and memory: lossy, overrun or miscorrected. Nothing in the
   verifier was written with these in mind. */
#include "output_faults.h"

enum { DELTAS = 32, BURST = 16, WORD = 4 };

static int32_t zero_of(const qv_output_fault *f) { return qv_zero(f->y, 0); }
static int32_t old(const qv_output_fault *f, int64_t i) { return qv_load(f->before, f->y->dtype, i); }
static int32_t about_zero(const qv_output_fault *f, int32_t d, int32_t size) { return zero_of(f) + (d < 0 ? -size : size); }

/* The distance from the zero point keeps two or three significant bits, as if stored as a very small float. */
static int32_t few_digits(const qv_output_fault *f, int64_t i, int32_t v) {
  int32_t d = v - zero_of(f), size = d < 0 ? -d : d, step = 1, bound = 4 << f->seed % 2;
  (void)i;
  while (size / step >= bound) step *= 2;
  return about_zero(f, d, (size + step / 2) / step * step);
}
qv_why qv_output_minifloat(const qv_output_fault *f) { return qv_map(f, few_digits); }

/* Two neighbours are stored as their mean and a coarsely rounded difference. */
static int32_t of_pair(const qv_output_fault *f, int64_t i, int32_t v) {
  int64_t first = i - i % 2;
  if (first + 1 >= f->elements) return v;
  int32_t a = old(f, first), b = old(f, first + 1), coarse = 6 + (int32_t)(f->seed % 5), kept = (a - b) / coarse * coarse;
  int32_t restored = (a + b) / 2 + kept / 2;
  return i == first ? restored : restored - kept;
}
qv_why qv_output_lossy_pairs(const qv_output_fault *f) { return qv_map(f, of_pair); }

/* Differences between neighbours are truncated to whole steps, so that the errors of their sum accumulate. */
static int32_t drifting(const qv_output_fault *f, int64_t i, int32_t v) {
  int64_t first = i - i % DELTAS;
  int32_t step = 3 + (int32_t)(f->seed % 3);
  v = old(f, first);
  for (int64_t k = first + 1; k <= i; k++) v += (old(f, k) - old(f, k - 1)) / step * step;
  return v;
}
qv_why qv_output_delta_drift(const qv_output_fault *f) { return qv_map(f, drifting); }

/* A run of three or more equal elements is unpacked with one too many, which overwrites the next element. */
static int32_t overrun(const qv_output_fault *f, int64_t i, int32_t v) {
  return i >= 3 && old(f, i - 1) == old(f, i - 2) && old(f, i - 2) == old(f, i - 3) ? old(f, i - 1) : v;
}
qv_why qv_output_run_too_long(const qv_output_fault *f) { return qv_map(f, overrun); }

/* The elements that are not zero are packed at the front of their line, and the mask with their positions is lost. */
static int32_t packed(const qv_output_fault *f, int64_t i, int32_t v) {
  int64_t line = 16 << f->seed % 2, first = i - i % line, end = first + line < f->elements ? first + line : f->elements, left = i - first;
  (void)v;
  for (int64_t at = first; at < end; at++)
    if (old(f, at) != zero_of(f) && left-- == 0) return old(f, at);
  return zero_of(f);
}
qv_why qv_output_zeros_skipped(const qv_output_fault *f) { return qv_map(f, packed); }

/* Codes of the same length are assigned in reverse order, so that the values between two powers of two are reversed. */
static int32_t other_code(const qv_output_fault *f, int64_t i, int32_t v) {
  int32_t d = v - zero_of(f), size = d < 0 ? -d : d, power = 1;
  (void)i;
  while (2 * power <= size) power *= 2;
  return size ? about_zero(f, d, 3 * power - 1 - size) : v;
}
qv_why qv_output_code_book_reversed(const qv_output_fault *f) { return qv_map(f, other_code); }

/* The low four lines of the bus lag behind the others by a number of elements that changes from burst to burst. */
static int32_t lagging(const qv_output_fault *f, int64_t i, int32_t v) {
  int64_t lag = (i / BURST + (int64_t)(f->seed % 3)) % 3 + 1;
  int32_t low = qv_qmin(f->y->dtype);
  return i < lag ? v : ((v - low) & ~15) + ((old(f, i - lag) - low) & 15) + low;
}
qv_why qv_output_nibble_lag(const qv_output_fault *f) { return qv_map(f, lagging); }

/* Words with odd parity are considered damaged, and one bit, chosen by a sum of the bytes, is "repaired". */
static void repair(uint8_t *word, unsigned seed) {
  unsigned folded = 0, sum = seed % (8 * WORD);
  for (unsigned i = 0; i < WORD; i++) {
    folded ^= word[i];
    sum += word[i] * (2 * i + 1);
  }
  folded ^= folded >> 4;
  folded ^= folded >> 2;
  folded ^= folded >> 1;
  unsigned bit = sum % (8 * WORD);
  if (folded & 1) word[bit / 8] = (uint8_t)(word[bit / 8] ^ 1u << bit % 8);
}
qv_why qv_output_ecc_miscorrected(const qv_output_fault *f) {
  if (!qv_is_q(f->y)) return "it needs a quantized tensor of 8 or 16 bits";
  for (size_t at = 0; at + WORD <= (size_t)f->elements * f->size; at += WORD) repair(f->data + at, (unsigned)(f->seed % 97));
  return NULL;
}
