/* e_j = T[q_j - max + 255]; y = clip(RNE(fl32(fl32(e_j*ys)/sum)) + zy), where sum is a sequential float32 sum of e. A table of 257:
   each e_j times fl32(T[256]/sum), half up; a table of integers: in fixed point; of int16: with a reciprocal in segments. */
#include "op.h"
#include "../arithmetic/float32.h"
#include "../arithmetic/instructions.h"
#include "../arithmetic/steps.h"

enum { MULTIPLIED = 257 }; /* elements of a table with a factor behind it, which is divided by the sum */

/* A table of int16: exponentials for the differences of two elements of 16 bits, the largest last, and the ends of segments. */
enum { DIFFERENCES = 65536, ENDS = 513, LEAST_LARGEST = 16384, MOST_DEPTH = 65536 };

static qv_status check_sixteen(qv_model *m, const qv_node *n, const qv_tensor *x, const qv_tensor *y, const qv_tensor *table) {
  if (x->dtype != QV_S16 || y->dtype != QV_S16 || y->n_scales != 1 || table->elements != DIFFERENCES + ENDS)
    return qv_fail_operands(m, n, "int16 in and out, of one scale, beside a table of 66049 int16");
  const int16_t *entry = table->constant;
  for (int32_t i = 0; i < DIFFERENCES + ENDS; i++)
    if (entry[i] < 0) return qv_fail(m, n, QV_E_FORMAT, "entry %d of its table is below 0", i);
  if (entry[DIFFERENCES - 1] < LEAST_LARGEST || qv_word(n, 1) > MOST_DEPTH)
    return qv_fail(m, n, QV_E_FORMAT, "its largest exponential is %d and its rows have %d elements, wanted %d or more, and at most %d",
                   entry[DIFFERENCES - 1], qv_word(n, 1), LEAST_LARGEST, MOST_DEPTH);
  return QV_OK;
}

static qv_status softmax_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 2, 1, 4);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  const qv_tensor *table = qv_in(m, n, 1);
  int sixteen = x && table && table->constant && table->rank == 1 && table->dtype == QV_S16;
  if (sixteen && (status = check_sixteen(m, n, x, y, table)) != QV_OK) return status;
  if (!sixteen &&
      (!x || !qv_is_8bit(x) || !qv_is_q(y) || !qv_is_8bit(y) || y->n_scales != 1 || !table || !table->constant || table->rank != 1 ||
       !(table->dtype == QV_F32 ? table->elements == 256 || table->elements == MULTIPLIED
                                : table->dtype == QV_I32 && table->elements == 256)))
    return qv_fail_operands(m, n, "8 bits in, 8 bits of one scale out, and a constant table of 256 or 257 float32 or 256 int32, or int16");
  for (int i = 0; table->dtype == QV_I32 && i < 256; i++)
    if (((const int32_t *)table->constant)[i] < 0) return qv_fail(m, n, QV_E_FORMAT, "entry %d of its table is below 0", i);
  if (qv_word(n, 0) < 1 || qv_word(n, 1) < 1 || qv_word(n, 2) < 1 || (int64_t)qv_word(n, 0) * qv_word(n, 1) > x->elements ||
      (int64_t)qv_word(n, 0) * qv_word(n, 1) * qv_word(n, 2) != x->elements || y->elements != x->elements)
    return qv_fail_operands(m, n, "%d x %d x %d elements in and out, each 1 or more", qv_word(n, 0), qv_word(n, 1), qv_word(n, 2));
  return QV_OK;
}

/* TOGETHER: rows computed at once; each sum keeps its order, but does not wait for the others. LONG: least number of
   elements of a long row. */
enum { TOGETHER = 4, LONG = 64 };

/* Computes, for `count` rows of bytes, the sum of each and a pointer into the table such that entries[r][byte ^ flip]
   is e of a byte. */
static void rows_of(const uint8_t *x, int64_t depth, int64_t count, uint8_t flip, const float *table, const float **entries, float *sums) {
  const uint8_t *line[TOGETHER];
  for (int r = 0; r < TOGETHER; r++) {
    uint8_t largest = 0;
    line[r] = x + (r < count ? r : 0) * depth;
    for (int64_t i = 0; i < depth; i++) largest = (uint8_t)((line[r][i] ^ flip) > largest ? line[r][i] ^ flip : largest);
    entries[r] = table + 255 - largest;
    sums[r] = 0.0f;
  }
  for (int64_t i = 0; i < depth; i++)
    for (int r = 0; r < TOGETHER; r++) sums[r] += entries[r][line[r][i] ^ flip];
}

/* Computes long rows: the result is computed once per row for each value of the table, and then looked up. */
static void fast(const qv_elementwise *kernels, const qv_tensor *x, const qv_tensor *y, const uint8_t *from, int64_t rows, int64_t depth,
                 float scale, const float *table, uint8_t *to) {
  uint8_t codes[256], flip = x->dtype == QV_S8 ? 128 : 0;
  float scaled[256], sums[TOGETHER];
  const float *entries[TOGETHER];
  for (int i = 0; i < 256; i++) scaled[i] = table[i] * scale;
  for (int64_t first = 0; first < rows; first += TOGETHER) {
    int64_t some = rows - first < TOGETHER ? rows - first : TOGETHER;
    rows_of(from, depth, some, flip, table, entries, sums);
    for (int64_t r = 0; r < some; r++, from += depth, to += depth) {
      kernels->quantize(scaled, sums[r], y->zero_point[0], y->dtype, 256, codes);
      const uint8_t *code = codes + (entries[r] - table);
      for (int64_t i = 0; i < depth; i++) to[i] = code[from[i] ^ flip];
    }
  }
}

static int64_t high_part(int64_t a, int64_t b) { return qv_shift_right(a * b + ((int64_t)1 << 30), 31); }
static int64_t saturate(int64_t v) { return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v; }
static int64_t divide_power(int64_t v, int shift) { return (v + ((int64_t)1 << (shift - 1))) >> shift; } /* v is 0 or more */

/* Returns 2 / (1 + x), x = total * 2^zeros / 2^31 - 1, with 30 fraction bits, by Newton's method; `zeros` are those before
   the first bit of the total, 32 if it is 0. */
static int64_t reciprocal(uint32_t total, int zeros) {
  int64_t half = ((int64_t)((uint64_t)total << zeros) - ((int64_t)1 << 31) + INT32_MAX + 1) >> 1;
  int64_t v = 1515870810 + high_part(half, -1010580540);
  for (int i = 0; i < 3; i++) v += saturate(4 * high_part(v, ((int64_t)1 << 29) - high_part(half, v)));
  return saturate(2 * v);
}

/* Computes a row in fixed point: exponentials have 31 fraction bits, their sum 19. */
static void fixed_row(const qv_session *s, const qv_node *n, int64_t start, int32_t largest) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  const int32_t *table = qv_in(s->model, n, 1)->constant;
  int64_t depth = qv_word(n, 1), inner = qv_word(n, 2), low = qv_qmin(y->dtype), high = qv_qmax(y->dtype);
  uint32_t total = 0;
  int zeros = 0;
  for (int64_t i = 0; i < depth; i++)
    total += (uint32_t)divide_power(table[qv_load(qv_data(s, x), x->dtype, start + i * inner) - largest + 255], 12);
  while (zeros < 32 && !(total >> (31 - zeros) & 1)) zeros++;
  int64_t one = reciprocal(total, zeros);
  for (int64_t i = 0; i < depth; i++) {
    int64_t e = table[qv_load(qv_data(s, x), x->dtype, start + i * inner) - largest + 255];
    int64_t v = divide_power(high_part(one, e), 35 - zeros) + y->zero_point[0];
    qv_store(qv_data(s, y), y->dtype, start + i * inner, (int32_t)(v < low ? low : v > high ? high : v));
  }
}

/* Computes a row of int16. Every exponential is within 0 to 32767, the largest 16384 or more, so that their sum is within
   2^14 to 2^31. */
static void row_of_sixteen(const qv_session *s, const qv_node *n, int64_t start, int32_t largest) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  const int16_t *table = qv_in(s->model, n, 1)->constant, *ends = table + DIFFERENCES;
  int64_t depth = qv_word(n, 1), inner = qv_word(n, 2), total = 0, low = qv_qmin(y->dtype), high = qv_qmax(y->dtype);
  const void *from = qv_data(s, x);
  int zeros = 0;
  for (int64_t i = 0; i < depth; i++) total += table[qv_load(from, x->dtype, start + i * inner) - largest + DIFFERENCES - 1];
  while (!(total >> (31 - zeros) & 1)) zeros++;
  int64_t place = (((total << (zeros - 1)) + (1 << 13)) >> 14) - 65536; /* 0 to 65536: from a sum of 1 to one of 2 */
  if (place > 65535) place = 65535;
  int64_t segment = place >> 7, slope = ends[segment + 1] - ends[segment];
  int64_t one = ends[segment] + qv_shift_right(slope * (place & 127) + 64, 7);
  for (int64_t i = 0; i < depth; i++) {
    int64_t e = table[qv_load(from, x->dtype, start + i * inner) - largest + DIFFERENCES - 1];
    int64_t v = qv_shift_right(e * one + ((int64_t)1 << (30 - zeros)), 31 - zeros) + y->zero_point[0];
    qv_store(qv_data(s, y), y->dtype, start + i * inner, (int32_t)(v < low ? low : v > high ? high : v));
  }
}

/* Returns an element of which the exponential was multiplied, rounded half up. */
static int32_t half_up(float v, const qv_tensor *y) {
  float low = (float)(qv_qmin(y->dtype) - y->zero_point[0]), high = (float)(qv_qmax(y->dtype) - y->zero_point[0]);
  v += 0.5f;
  v = v != v ? low : qv_clamp_f32(v, low, high);
  int32_t whole = (int32_t)v;
  return whole - ((float)whole > v) + y->zero_point[0];
}

static qv_status softmax_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int64_t outer = qv_word(n, 0), depth = qv_word(n, 1), inner = qv_word(n, 2);
  float ys = qv_word_f32(n, 3);
  const float *table = qv_in(s->model, n, 1)->constant;
  const void *from = qv_data(s, x);
  const qv_elementwise *kernels = s->plain_only ? NULL : qv_chosen_instructions().elementwise;
  int multiplies = qv_in(s->model, n, 1)->elements == MULTIPLIED, fixed = qv_in(s->model, n, 1)->dtype == QV_I32;
  int sixteen = qv_in(s->model, n, 1)->dtype == QV_S16;
  if (kernels && !sixteen && inner == 1 && depth >= LONG && !multiplies && !fixed) {
    fast(kernels, x, y, from, outer, depth, ys, table, qv_data(s, y));
    return QV_OK;
  }
  for (int64_t row = 0; row < outer * inner; row++) {
    int64_t start = row / inner * depth * inner + row % inner;
    int32_t largest = qv_load(from, x->dtype, start);
    float sum = 0.0f;
    for (int64_t i = 1; i < depth; i++) {
      int32_t q = qv_load(from, x->dtype, start + i * inner);
      if (q > largest) largest = q;
    }
    if (fixed || sixteen) {
      if (fixed) fixed_row(s, n, start, largest);
      else row_of_sixteen(s, n, start, largest);
      continue;
    }
    for (int64_t i = 0; i < depth; i++) sum += table[qv_load(from, x->dtype, start + i * inner) - largest + 255];
    float one = multiplies ? table[256] / sum : 0.0f;
    for (int64_t i = 0; multiplies && i < depth; i++)
      qv_store(qv_data(s, y), y->dtype, start + i * inner,
               half_up(table[qv_load(from, x->dtype, start + i * inner) - largest + 255] * one, y));
    for (int64_t i = 0; !multiplies && i < depth; i++) {
      float v = (table[qv_load(from, x->dtype, start + i * inner) - largest + 255] * ys) / sum;
      float low = (float)(qv_qmin(y->dtype) - y->zero_point[0]), high = (float)(qv_qmax(y->dtype) - y->zero_point[0]);
      if (v != v) v = low;
      v = qv_clamp_f32(v, low, high);
      qv_store(qv_data(s, y), y->dtype, start + i * inner, (int32_t)qv_round_f32(v) + y->zero_point[0]);
    }
  }
  return QV_OK;
}

const qv_op qv_op_softmax = {"softmax", softmax_check, NULL, softmax_run};
