/* Blocked products for 64-bit ARM with SDOT (four steps of the depth at once) or SMMLA (eight steps). Both multiply
   int8 by int8 and add to int32, which wraps and never saturates. */
#include "products.h"

#if defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__)
#include <arm_neon.h>
#include <sys/auxv.h>

#include "dot_body.h"

#define DOTPROD __attribute__((target("arch=armv8.2-a+dotprod")))
#define I8MM __attribute__((target("arch=armv8.2-a+i8mm")))
#define ALWAYS static inline __attribute__((always_inline))

/* Bits of Linux's AT_HWCAP and AT_HWCAP2, which the headers of some C libraries do not define. */
static const unsigned long has_dotprod = 1ul << 20, has_i8mm = 1ul << 13;

/* Tile sizes. The sums take 24 (SDOT) and 16 (SMMLA, which needs more registers for operands) of the 32 registers. */
enum { DOTPROD_ROWS = 6, DOTPROD_TILE = 16, I8MM_ROWS = 8, I8MM_TILE = 8, I8MM_PAIRS = I8MM_ROWS / 2 };

ALWAYS int8x16_t four_columns(const uint8_t *panel, int v) { return vreinterpretq_s8_u8(vld1q_u8(panel + 16 * v)); }

/* Multiplies `count` rows with DOTPROD_TILE columns. */
DOTPROD ALWAYS void dotprod_tile(const int8_t *rows, int64_t step, const uint8_t *panel, int64_t cells, const uint32_t *start,
                                 uint32_t *acc, const int count) {
  int32x4_t sum[DOTPROD_ROWS][4];
  int8x16_t column[4];
  for (int r = 0; r < count; r++)
    for (int v = 0; v < 4; v++) sum[r][v] = start ? vreinterpretq_s32_u32(vld1q_u32(start + 4 * v)) : vdupq_n_s32(0);
  for (int64_t k = 0; k < cells; k++, rows += QV_CELL, panel += QV_CELL * QV_COLUMNS) {
    for (int v = 0; v < 4; v++) column[v] = four_columns(panel, v);
    for (int r = 0; r < count; r++) {
      int32_t four;
      memcpy(&four, rows + r * step, 4);
      for (int v = 0; v < 4; v++) sum[r][v] = vdotq_s32(sum[r][v], column[v], vreinterpretq_s8_s32(vdupq_n_s32(four)));
    }
  }
  for (int r = 0; r < count; r++)
    for (int v = 0; v < 4; v++) vst1q_u32(acc + r * QV_COLUMNS + 4 * v, vreinterpretq_u32_s32(sum[r][v]));
}

/* Loads two cells (only one if `two` is 0) of a row and of the next one; if `more` is 0, the row itself takes the place
   of the next. */
ALWAYS int8x16_t two_rows(const int8_t *row, int64_t step, int more, int two) {
  int8_t eight[16] = {0};
  memcpy(eight, row, two ? 8 : 4);
  memcpy(eight + 8, more ? row + step : row, two ? 8 : 4);
  return vld1q_s8(eight);
}

/* Adds the products of two cells (one if `two` is 0) to sum[pair of rows][pair of columns], each of which
   is 2 x 2 sums. */
I8MM ALWAYS void i8mm_cells(int32x4_t sum[I8MM_PAIRS][4], const int8_t *rows, int64_t step, const uint8_t *panel, const int count,
                            const int two) {
  int8x16_t row[I8MM_PAIRS];
  for (int r = 0; r < count; r += 2) row[r / 2] = two_rows(rows + r * step, step, r + 1 < count, two);
  for (int v = 0; v < 2; v++) {
    int32x4_t low = vreinterpretq_s32_s8(four_columns(panel, v)), high = vdupq_n_s32(0);
    if (two) high = vreinterpretq_s32_s8(four_columns(panel + QV_CELL * QV_COLUMNS, v));
    int8x16_t first = vreinterpretq_s8_s32(vzip1q_s32(low, high)), second = vreinterpretq_s8_s32(vzip2q_s32(low, high));
    for (int r = 0; r < count; r += 2) {
      sum[r / 2][2 * v] = vmmlaq_s32(sum[r / 2][2 * v], row[r / 2], first);
      sum[r / 2][2 * v + 1] = vmmlaq_s32(sum[r / 2][2 * v + 1], row[r / 2], second);
    }
  }
}

/* Multiplies `count` rows with I8MM_TILE columns. */
I8MM ALWAYS void i8mm_tile(const int8_t *rows, int64_t step, const uint8_t *panel, int64_t cells, const uint32_t *start, uint32_t *acc,
                           const int count) {
  int32x4_t sum[I8MM_PAIRS][4];
  int64_t k = 0;
  for (int v = 0; v < 4; v++) {
    uint32x2_t two = start ? vld1_u32(start + 2 * v) : vdup_n_u32(0);
    for (int r = 0; r < count; r += 2) sum[r / 2][v] = vreinterpretq_s32_u32(vcombine_u32(two, two));
  }
  for (; k + 2 <= cells; k += 2, rows += 2 * QV_CELL, panel += 2 * QV_CELL * QV_COLUMNS) i8mm_cells(sum, rows, step, panel, count, 1);
  if (k < cells) i8mm_cells(sum, rows, step, panel, count, 0);
  for (int r = 0; r < count; r++)
    for (int v = 0; v < 4; v++) {
      uint32x4_t both = vreinterpretq_u32_s32(sum[r / 2][v]);
      vst1_u32(acc + r * QV_COLUMNS + 2 * v, r % 2 ? vget_high_u32(both) : vget_low_u32(both));
    }
}

#define TILES(set, SET, count) \
  SET static void set##_##count(const int8_t *rows, int64_t step, const uint8_t *panel, int64_t cells, int64_t columns, \
                                const uint32_t *start, uint32_t *acc) { \
    for (int64_t c = 0; c < columns; c += SET##_TILE) \
      set##_tile(rows, step, panel + c * QV_CELL, cells, start ? start + c : NULL, acc + c, count); \
  }
TILES(dotprod, DOTPROD, 1)
TILES(dotprod, DOTPROD, 2)
TILES(dotprod, DOTPROD, 3)
TILES(dotprod, DOTPROD, 4)
TILES(dotprod, DOTPROD, 5)
TILES(dotprod, DOTPROD, 6)
TILES(i8mm, I8MM, 1)
TILES(i8mm, I8MM, 2)
TILES(i8mm, I8MM, 3)
TILES(i8mm, I8MM, 4)
TILES(i8mm, I8MM, 5)
TILES(i8mm, I8MM, 6)
TILES(i8mm, I8MM, 7)
TILES(i8mm, I8MM, 8)

static void dotprod_multiply(const int8_t *rows, int64_t step, int64_t count, const uint8_t *panel, int64_t cells, int64_t columns,
                             const uint32_t *start, uint32_t *acc) {
  static const qv_row_kernel of[DOTPROD_ROWS] = {dotprod_1, dotprod_2, dotprod_3, dotprod_4, dotprod_5, dotprod_6};
  of[count - 1](rows, step, panel, cells, columns, start, acc);
}

static void i8mm_multiply(const int8_t *rows, int64_t step, int64_t count, const uint8_t *panel, int64_t cells, int64_t columns,
                          const uint32_t *start, uint32_t *acc) {
  static const qv_row_kernel of[I8MM_ROWS] = {i8mm_1, i8mm_2, i8mm_3, i8mm_4, i8mm_5, i8mm_6, i8mm_7, i8mm_8};
  of[count - 1](rows, step, panel, cells, columns, start, acc);
}

static void interleave(const uint8_t *from, int64_t step, int lines, int64_t count, uint8_t flip, uint8_t *to) {
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    uint8x16x4_t line;
    for (int k = 0; k < QV_CELL; k++) line.val[k] = k < lines ? veorq_u8(vld1q_u8(from + k * step + i), vdupq_n_u8(flip)) : vdupq_n_u8(0);
    vst4q_u8(to + i * QV_CELL, line);
  }
  for (; i < count; i++)
    for (int k = 0; k < QV_CELL; k++) to[i * QV_CELL + k] = (uint8_t)(k < lines ? from[k * step + i] ^ flip : 0);
}

static uint32_t take(const uint8_t *from, int64_t count, uint8_t flip, int8_t *to) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < count; i++) sum += (uint32_t)(int32_t)(to[i] = (int8_t)(from[i] ^ flip));
  return sum;
}

/* As body_finish_f32, with the scale of a different channel for each element. */
static void finish_scales(const qv_requantizer *r, const float *scale, uint32_t add, const uint32_t *acc, int64_t count, uint8_t *to) {
  float low = (float)(r->low - r->zero), high = (float)(r->high - r->zero);
  int32_t zero = r->zero;
  for (int64_t j = 0; j < count; j++) {
    float v = (float)(int32_t)(acc[j] + add) * scale[j];
    v = v < low ? low : v;
    v = v > high ? high : v;
    to[j] = (uint8_t)((int32_t)qv_round_f32(v) + zero);
  }
}

static void finish(const qv_requantizer *r, int64_t channel, int64_t by, uint32_t add, const uint32_t *acc, int64_t count, uint8_t *to) {
  if (!by || (r->channels == 1 && !r->bias)) body_finish(r, channel, add, acc, count, to);
  else if (!r->real && r->dtype == QV_F32 && r->rows == 1 && r->channels > 1)
    finish_scales(r, (const float *)r->values + channel, add, acc, count, to);
  else body_finish_each(r, channel, add, acc, count, to);
}

static const qv_products dotprod = {DOTPROD_ROWS, 1, take, interleave, dotprod_multiply, finish},
                         i8mm = {I8MM_ROWS, 1, take, interleave, i8mm_multiply, finish};

const qv_products *qv_products_dotprod(void) { return getauxval(AT_HWCAP) & has_dotprod ? &dotprod : NULL; }
const qv_products *qv_products_i8mm(void) { return getauxval(AT_HWCAP2) & has_i8mm ? &i8mm : NULL; }
#else
const qv_products *qv_products_dotprod(void) { return NULL; }
const qv_products *qv_products_i8mm(void) { return NULL; }
#endif
