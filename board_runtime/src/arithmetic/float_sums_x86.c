/* The qv_float_kernels for x86 with AVX2 or AVX-512. They use FMA: a product of two float32 is exact in float64, so
   that a fused and a separate multiplication give the same bits. */
#include "float_sums.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

__attribute__((target("avx512f"))) static void wide(const double *a, const float *b, int64_t b_step, int64_t depth, int64_t rows,
                                                    double *sums) {
  __m512d s[QV_FLOAT_ROWS];
  (void)rows;
  for (int r = 0; r < QV_FLOAT_ROWS; r++) s[r] = _mm512_loadu_pd(sums + r * QV_FLOAT_COLUMNS);
  for (int64_t k = 0; k < depth; k++, b += b_step, a += QV_FLOAT_ROWS) {
    __m512d line = _mm512_cvtps_pd(_mm256_loadu_ps(b));
    for (int r = 0; r < QV_FLOAT_ROWS; r++) s[r] = _mm512_fmadd_pd(_mm512_set1_pd(a[r]), line, s[r]);
  }
  for (int r = 0; r < QV_FLOAT_ROWS; r++) _mm512_storeu_pd(sums + r * QV_FLOAT_COLUMNS, s[r]);
}

enum { HALF = 4 }; /* rows computed at a time, so that their sums stay in registers */

__attribute__((target("avx2,fma"))) static void narrow(const double *a, const float *b, int64_t b_step, int64_t depth, int64_t rows,
                                                       double *sums) {
  for (int64_t first = 0; first < rows; first += HALF, a += HALF, sums += HALF * QV_FLOAT_COLUMNS) {
    __m256d s[HALF][2];
    for (int r = 0; r < HALF; r++)
      for (int c = 0; c < 2; c++) s[r][c] = _mm256_loadu_pd(sums + r * QV_FLOAT_COLUMNS + 4 * c);
    for (int64_t k = 0; k < depth; k++) {
      __m256d left = _mm256_cvtps_pd(_mm_loadu_ps(b + k * b_step)), right = _mm256_cvtps_pd(_mm_loadu_ps(b + k * b_step + 4));
      for (int r = 0; r < HALF; r++) {
        __m256d v = _mm256_broadcast_sd(a + k * QV_FLOAT_ROWS + r);
        s[r][0] = _mm256_fmadd_pd(v, left, s[r][0]);
        s[r][1] = _mm256_fmadd_pd(v, right, s[r][1]);
      }
    }
    for (int r = 0; r < HALF; r++)
      for (int c = 0; c < 2; c++) _mm256_storeu_pd(sums + r * QV_FLOAT_COLUMNS + 4 * c, s[r][c]);
  }
}

/* A kernel is listed if the CPU has its instructions and the operating system saves their registers. */
qv_float_kernel qv_float_kernel_x86(int place) {
  unsigned a, b, c, d, low, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 12) || !(c & 1u << 27) || !(c & 1u << 28)) return NULL;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return NULL;
  if ((low & 0xe6) == 0xe6 && b & 1u << 16 && place-- == 0) return wide;
  return b & 1u << 5 && place == 0 ? narrow : NULL;
}
#else
qv_float_kernel qv_float_kernel_x86(int place) {
  (void)place;
  return NULL;
}
#endif
