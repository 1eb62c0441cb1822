/* Blocked products for x86 with VPDPBUSD, which multiplies uint8 by int8, four steps of the depth at once, and adds to
   int32, which wraps and never saturates. */
#include "products.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "dot_body.h"
#include "x86.h"

#define WIDE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define NARROW __attribute__((target("avx2,avxvnni")))
#define ALWAYS static inline __attribute__((always_inline))

enum { ROWS = 6 }; /* rows whose sums fit into the registers, beside four vectors of a panel (AVX-512) or two (AVX) */

ALWAYS int32_t four_of(const int8_t *row) {
  int32_t four;
  memcpy(&four, row, 4);
  return four;
}

/* Multiplies `count` rows with `vectors` * 16 columns. */
WIDE ALWAYS void wide_tile(const int8_t *rows, int64_t step, const uint8_t *panel, int64_t cells, const uint32_t *start, uint32_t *acc,
                           const int count, const int vectors) {
  __m512i sum[ROWS][4], column[4];
  for (int r = 0; r < count; r++)
    for (int v = 0; v < vectors; v++) sum[r][v] = start ? _mm512_loadu_si512(start + 16 * v) : _mm512_setzero_si512();
  for (int64_t k = 0; k < cells; k++, rows += QV_CELL, panel += QV_CELL * QV_COLUMNS) {
    for (int v = 0; v < vectors; v++) column[v] = _mm512_loadu_si512(panel + 64 * v);
    for (int r = 0; r < count; r++) {
      __m512i four = _mm512_set1_epi32(four_of(rows + r * step));
      for (int v = 0; v < vectors; v++) sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], column[v], four);
    }
  }
  for (int r = 0; r < count; r++)
    for (int v = 0; v < vectors; v++) _mm512_storeu_si512(acc + r * QV_COLUMNS + 16 * v, sum[r][v]);
}

#define WIDE_ROWS(count) \
  WIDE static void wide_##count(const int8_t *rows, int64_t step, const uint8_t *panel, int64_t cells, int64_t columns, \
                                const uint32_t *start, uint32_t *acc) { \
    if (columns > 48) wide_tile(rows, step, panel, cells, start, acc, count, 4); \
    else if (columns > 32) wide_tile(rows, step, panel, cells, start, acc, count, 3); \
    else if (columns > 16) wide_tile(rows, step, panel, cells, start, acc, count, 2); \
    else wide_tile(rows, step, panel, cells, start, acc, count, 1); \
  }
WIDE_ROWS(1)
WIDE_ROWS(2)
WIDE_ROWS(3)
WIDE_ROWS(4)
WIDE_ROWS(5)
WIDE_ROWS(6)

static void wide_multiply(const int8_t *rows, int64_t step, int64_t count, const uint8_t *panel, int64_t cells, int64_t columns,
                          const uint32_t *start, uint32_t *acc) {
  static const qv_row_kernel of[ROWS] = {wide_1, wide_2, wide_3, wide_4, wide_5, wide_6};
  of[count - 1](rows, step, panel, cells, columns, start, acc);
}

enum { AHEAD = 64 }; /* lines to prefetch ahead: the lines of a matrix may lie on different pages, which the hardware does not prefetch */

WIDE static void wide_interleave(const uint8_t *from, int64_t step, int lines, int64_t count, uint8_t flip, uint8_t *to) {
  const __m512i words = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i bytes = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  const __m512i flips = _mm512_and_si512(_mm512_set1_epi8((char)flip), _mm512_set1_epi32((int)(0xffffffffu >> 8 * (QV_CELL - lines))));
  for (int k = 0; k < lines; k++) _mm_prefetch((const char *)((uintptr_t)from + (uintptr_t)((AHEAD + k) * step)), _MM_HINT_T0);
  for (int64_t i = 0; i < count; i += 16) {
    __mmask16 there = (__mmask16)(count - i < 16 ? (1u << (count - i)) - 1 : 0xffffu);
    __m128i line[4];
    for (int k = 0; k < 4; k++) line[k] = k < lines ? _mm_maskz_loadu_epi8(there, from + k * step + i) : _mm_setzero_si128();
    __m512i all = _mm512_inserti32x4(_mm512_castsi128_si512(line[0]), line[1], 1);
    all = _mm512_inserti32x4(_mm512_inserti32x4(all, line[2], 2), line[3], 3);
    all = _mm512_xor_si512(_mm512_shuffle_epi8(_mm512_permutexvar_epi32(words, all), bytes), flips);
    _mm512_mask_storeu_epi32(to + i * QV_CELL, there, all);
  }
}

WIDE static uint32_t wide_take(const uint8_t *from, int64_t count, uint8_t flip, int8_t *to) {
  const __m512i flips = _mm512_set1_epi8((char)flip), ones = _mm512_set1_epi8(1);
  __m512i sum = _mm512_setzero_si512();
  for (int64_t i = 0; i < count; i += 64) {
    __mmask64 there = count - i < 64 ? ((__mmask64)1 << (count - i)) - 1 : ~(__mmask64)0;
    __m512i v = _mm512_maskz_mov_epi8(there, _mm512_xor_si512(_mm512_maskz_loadu_epi8(there, from + i), flips));
    _mm512_mask_storeu_epi8(to + i, there, v);
    sum = _mm512_dpbusd_epi32(sum, ones, v);
  }
  uint32_t lanes[16], all = 0; /* unsigned, because the sum of a long row wraps */
  _mm512_storeu_si512(lanes, sum);
  for (int k = 0; k < 16; k++) all += lanes[k];
  return all;
}

/* As body_finish_f32; if `by` is 1, with the scale of a different channel for each element. */
WIDE static void wide_finish_f32(const qv_requantizer *r, const float *scale, int64_t by, uint32_t add, const uint32_t *acc, int64_t count,
                                 uint8_t *to) {
  const __m512 low = _mm512_set1_ps((float)(r->low - r->zero)), high = _mm512_set1_ps((float)(r->high - r->zero));
  const __m512i more = _mm512_set1_epi32((int32_t)add), zero = _mm512_set1_epi32(r->zero);
  const __m512 big = _mm512_set1_ps(12582912.0f);
  __m512 scales = _mm512_set1_ps(*scale);
  for (int64_t j = 0; j < count; j += 16) {
    __mmask16 there = (__mmask16)(count - j < 16 ? (1u << (count - j)) - 1 : 0xffffu);
    if (by) scales = _mm512_maskz_loadu_ps(there, scale + j);
    __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_maskz_loadu_epi32(there, acc + j), more)), scales);
    v = _mm512_min_ps(_mm512_max_ps(v, low), high);
    v = _mm512_sub_ps(_mm512_add_ps(v, big), big);
    _mm512_mask_cvtepi32_storeu_epi8(to + j, there, _mm512_add_epi32(_mm512_cvttps_epi32(v), zero));
  }
}

WIDE void qv_finish_avx512(const qv_requantizer *r, int64_t channel, int64_t by, uint32_t add, const uint32_t *acc, int64_t count,
                           uint8_t *to) {
  int alike = r->channels == 1;
  if (!r->real && r->dtype == QV_F32 && r->rows == 1)
    wide_finish_f32(r, (const float *)r->values + (alike ? 0 : channel), alike ? 0 : by, add, acc, count, to);
  else if (!by || (alike && !r->bias)) body_finish(r, channel, add, acc, count, to);
  else body_finish_each(r, channel, add, acc, count, to);
}

/* Multiplies `count` rows with 16 columns. */
NARROW ALWAYS void narrow_tile(const int8_t *rows, int64_t step, const uint8_t *panel, int64_t cells, const uint32_t *start, uint32_t *acc,
                               const int count) {
  __m256i sum[ROWS][2];
  for (int r = 0; r < count; r++)
    for (int v = 0; v < 2; v++)
      sum[r][v] = start ? _mm256_loadu_si256((const __m256i *)(const void *)(start + 8 * v)) : _mm256_setzero_si256();
  for (int64_t k = 0; k < cells; k++, rows += QV_CELL, panel += QV_CELL * QV_COLUMNS) {
    __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)panel),
            high = _mm256_loadu_si256((const __m256i *)(const void *)(panel + 32));
    for (int r = 0; r < count; r++) {
      __m256i four = _mm256_set1_epi32(four_of(rows + r * step));
      sum[r][0] = _mm256_dpbusd_avx_epi32(sum[r][0], low, four);
      sum[r][1] = _mm256_dpbusd_avx_epi32(sum[r][1], high, four);
    }
  }
  for (int r = 0; r < count; r++)
    for (int v = 0; v < 2; v++) _mm256_storeu_si256((__m256i *)(void *)(acc + r * QV_COLUMNS + 8 * v), sum[r][v]);
}

#define NARROW_ROWS(count) \
  NARROW static void narrow_##count(const int8_t *rows, int64_t step, const uint8_t *panel, int64_t cells, int64_t columns, \
                                    const uint32_t *start, uint32_t *acc) { \
    for (int64_t c = 0; c < columns; c += 16) \
      narrow_tile(rows, step, panel + c * QV_CELL, cells, start ? start + c : NULL, acc + c, count); \
  }
NARROW_ROWS(1)
NARROW_ROWS(2)
NARROW_ROWS(3)
NARROW_ROWS(4)
NARROW_ROWS(5)
NARROW_ROWS(6)

static void narrow_multiply(const int8_t *rows, int64_t step, int64_t count, const uint8_t *panel, int64_t cells, int64_t columns,
                            const uint32_t *start, uint32_t *acc) {
  static const qv_row_kernel of[ROWS] = {narrow_1, narrow_2, narrow_3, narrow_4, narrow_5, narrow_6};
  of[count - 1](rows, step, panel, cells, columns, start, acc);
}

NARROW static void narrow_interleave(const uint8_t *from, int64_t step, int lines, int64_t count, uint8_t flip, uint8_t *to) {
  int64_t i = 0;
  const __m128i flips = _mm_set1_epi8((char)flip);
  for (; lines == QV_CELL && i + 16 <= count; i += 16) {
    __m128i line[QV_CELL];
    for (int k = 0; k < QV_CELL; k++) line[k] = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)(from + k * step + i)), flips);
    __m128i even[2] = {_mm_unpacklo_epi8(line[0], line[1]), _mm_unpackhi_epi8(line[0], line[1])};
    __m128i odd[2] = {_mm_unpacklo_epi8(line[2], line[3]), _mm_unpackhi_epi8(line[2], line[3])};
    for (int h = 0; h < 2; h++) {
      _mm_storeu_si128((__m128i *)(void *)(to + i * QV_CELL + 32 * h), _mm_unpacklo_epi16(even[h], odd[h]));
      _mm_storeu_si128((__m128i *)(void *)(to + i * QV_CELL + 32 * h + 16), _mm_unpackhi_epi16(even[h], odd[h]));
    }
  }
  for (; i < count; i++)
    for (int k = 0; k < QV_CELL; k++) to[i * QV_CELL + k] = (uint8_t)(k < lines ? from[k * step + i] ^ flip : 0);
}

NARROW static uint32_t narrow_take(const uint8_t *from, int64_t count, uint8_t flip, int8_t *to) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < count; i++) sum += (uint32_t)(int32_t)(to[i] = (int8_t)(from[i] ^ flip));
  return sum;
}

NARROW static void narrow_finish(const qv_requantizer *r, int64_t channel, int64_t by, uint32_t add, const uint32_t *acc, int64_t count,
                                 uint8_t *to) {
  if (!by || (r->channels == 1 && !r->bias)) body_finish(r, channel, add, acc, count, to);
  else body_finish_each(r, channel, add, acc, count, to);
}

static const qv_products wide = {ROWS, 0, wide_take, wide_interleave, wide_multiply, qv_finish_avx512},
                         narrow = {ROWS, 0, narrow_take, narrow_interleave, narrow_multiply, narrow_finish};

const qv_products *qv_products_avx512_vnni(void) { return qv_x86_has(QV_X86_AVX512_VNNI) ? &wide : NULL; }
const qv_products *qv_products_avx_vnni(void) { return qv_x86_has(QV_X86_AVX_VNNI) ? &narrow : NULL; }
#else
const qv_products *qv_products_avx512_vnni(void) { return NULL; }
const qv_products *qv_products_avx_vnni(void) { return NULL; }
#endif
