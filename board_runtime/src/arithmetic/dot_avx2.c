/* The qv_dots kernels for x86 with AVX2. */
#include "dot.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#include "dot_body.h"

#define AVX2 __attribute__((target("avx2")))

AVX2 static void panel(const int16_t *w, int64_t stride, const int16_t *columns, int64_t pairs, uint32_t *acc) {
  __m256i sum[QV_ROWS][2];
  for (int r = 0; r < QV_ROWS; r++) sum[r][0] = sum[r][1] = _mm256_setzero_si256();
  for (int64_t k = 0; k < pairs; k++) {
    __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)(columns + k * 2 * QV_PANEL));
    __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(columns + k * 2 * QV_PANEL + QV_PANEL));
    for (int r = 0; r < QV_ROWS; r++) {
      int32_t two;
      memcpy(&two, w + r * stride + 2 * k, 4);
      __m256i both = _mm256_set1_epi32(two);
      sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_madd_epi16(low, both));
      sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_madd_epi16(high, both));
    }
  }
  for (int r = 0; r < QV_ROWS; r++) {
    _mm256_storeu_si256((__m256i *)(void *)(acc + r * QV_TILE), sum[r][0]);
    _mm256_storeu_si256((__m256i *)(void *)(acc + r * QV_TILE + 8), sum[r][1]);
  }
}

QV_DOTS_FUNCTIONS(AVX2)

static const qv_dots table = {"avx2", panel, taps, row, finish, centre};

/* Returns whether the CPU has AVX2 and the operating system saves its registers. */
static int has_avx2(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27) || !(c & 1u << 28)) return 0;
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & 6) != 6) return 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 5);
}

const qv_dots *qv_dots_avx2(void) { return has_avx2() ? &table : NULL; }
#else
const qv_dots *qv_dots_avx2(void) { return NULL; }
#endif
