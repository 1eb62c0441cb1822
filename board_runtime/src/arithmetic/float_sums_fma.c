/* The fast sums of float products for x86 with AVX2 and FMA: a product of float32 is exact in float64, so fused or not is one. */
#include "float_sums.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

__attribute__((target("avx2,fma"))) static void fused(const float *const *rows, int64_t a_step, const float *b, int64_t b_step,
                                                      int64_t depth, double *sums) {
  __m256d s[QV_FLOAT_ROWS][2];
  for (int r = 0; r < QV_FLOAT_ROWS; r++) s[r][0] = s[r][1] = _mm256_setzero_pd();
  for (int64_t k = 0; k < depth; k++, b += b_step) {
    __m256d left = _mm256_cvtps_pd(_mm_loadu_ps(b)), right = _mm256_cvtps_pd(_mm_loadu_ps(b + 4));
    for (int r = 0; r < QV_FLOAT_ROWS; r++) {
      __m256d v = _mm256_set1_pd((double)rows[r][k * a_step]);
      s[r][0] = _mm256_fmadd_pd(v, left, s[r][0]);
      s[r][1] = _mm256_fmadd_pd(v, right, s[r][1]);
    }
  }
  for (int r = 0; r < QV_FLOAT_ROWS; r++) {
    _mm256_storeu_pd(sums + r * QV_FLOAT_COLUMNS, s[r][0]);
    _mm256_storeu_pd(sums + r * QV_FLOAT_COLUMNS + 4, s[r][1]);
  }
}

/* AVX2 and FMA in the CPU, and its registers saved by the operating system. */
static int has_fma(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 12) || !(c & 1u << 27) || !(c & 1u << 28)) return 0;
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & 6) != 6) return 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 5);
}

qv_float_kernel qv_float_kernel_fma(void) { return has_fma() ? fused : NULL; }
#else
qv_float_kernel qv_float_kernel_fma(void) { return NULL; }
#endif
