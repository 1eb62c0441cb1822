/* The qv_dots kernels for x86 with AVX-512, used for depthwise convolutions. The last vector of a row is masked, so
   that short rows are computed with whole vectors, too. */
#include "dot.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "dot_body.h"
#include "products.h"
#include "x86.h"

#define WIDE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

WIDE static void panel(const int16_t *w, int64_t stride, const int16_t *columns, int64_t pairs, uint32_t *acc) {
  body_panel(w, stride, columns, pairs, acc);
}

WIDE static uint32_t row(const int16_t *x, const int16_t *w, int64_t length) { return body_row(x, w, length); }

/* Returns, for 16 outputs, a column of the window and the one after it as a pair of int16; VPMADDWD multiplies the
   first by its tap and the second by 0. The value after the last column of a plane is whatever follows the plane in the
   scratch memory. */
WIDE static inline __attribute__((always_inline)) __m512i pairs_at(const int16_t *from, int64_t stride, __mmask16 there) {
  if (stride == 2) return _mm512_maskz_loadu_epi32(there, from);
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(there, from));
}

WIDE static inline __attribute__((always_inline)) void taps_of(const qv_taps *t, uint32_t *acc, int64_t count, const int64_t stride) {
  __m512i tap[9];
  for (int k = 0; k < 9; k++) tap[k] = _mm512_set1_epi32((uint16_t)t->weights[k]);
  for (int64_t j = 0; j < count; j += 16) {
    __mmask16 there = (__mmask16)(count - j < 16 ? (1u << (count - j)) - 1 : 0xffffu);
    __m512i sum = _mm512_setzero_si512();
    for (int k = 0; k < 9; k++) {
      const int16_t *from = t->line[k / 3] + j * stride + k % 3 * t->dilation;
      sum = _mm512_add_epi32(sum, _mm512_madd_epi16(pairs_at(from, stride, there), tap[k]));
    }
    _mm512_mask_storeu_epi32(acc + j, there, sum);
  }
}

WIDE static void taps(const qv_taps *t, uint32_t *acc, int64_t count) {
  if (t->stride == 1) taps_of(t, acc, count, 1);
  else if (t->stride == 2) taps_of(t, acc, count, 2);
  else body_taps_stride(t, acc, count, t->stride);
}

WIDE static void finish(const qv_requantizer *r, int64_t channel, uint32_t bias, const uint32_t *acc, int64_t count, uint8_t *to) {
  qv_finish_avx512(r, channel, 0, bias, acc, count, to);
}

WIDE static void centre(const uint8_t *from, int is_signed, int32_t zero, int64_t count, int64_t step, int16_t *to) {
  const __m512i zeros = _mm512_set1_epi16((int16_t)zero);
  if (step != 1) {
    body_centre_step(from, is_signed, zero, count, step, to);
    return;
  }
  for (int64_t i = 0; i < count; i += 32) {
    __mmask32 there = count - i < 32 ? ((__mmask32)1 << (count - i)) - 1 : ~(__mmask32)0;
    __m256i bytes = _mm256_maskz_loadu_epi8(there, from + i);
    __m512i v = is_signed ? _mm512_cvtepi8_epi16(bytes) : _mm512_cvtepu8_epi16(bytes);
    _mm512_mask_storeu_epi16(to + i, there, _mm512_sub_epi16(v, zeros));
  }
}

static const qv_dots table = {"avx512", panel, taps, row, finish, centre};

const qv_dots *qv_dots_avx512(void) { return qv_x86_has(QV_X86_AVX512_VNNI) ? &table : NULL; }
#else
const qv_dots *qv_dots_avx512(void) { return NULL; }
#endif
