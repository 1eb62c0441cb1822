/* Detects which instruction sets an x86 processor has and its operating system supports. */
#ifndef QV_X86_H
#define QV_X86_H

#if defined(__x86_64__)
#include <cpuid.h>

typedef enum { QV_X86_AVX2, QV_X86_AVX2_FMA, QV_X86_AVX_VNNI, QV_X86_AVX512, QV_X86_AVX512_VNNI } qv_x86_set;

/* Returns whether an instruction set can be used. QV_X86_AVX512: AVX-512 F, DQ, BW and VL, and AVX2 with FMA. */
static inline int qv_x86_has(qv_x86_set set) {
  unsigned a, b, b1, c, c1, d, low, high;
  if (!__get_cpuid(1, &a, &b1, &c1, &d) || !(c1 & 1u << 27) || !(c1 & 1u << 28)) return 0; /* OSXSAVE, AVX */
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & 1u << 5)) return 0; /* AVX2 */
  if (set == QV_X86_AVX2) return 1;
  if (!(c1 & 1u << 12)) return 0; /* FMA */
  if (set == QV_X86_AVX2_FMA) return 1;
  if (set == QV_X86_AVX_VNNI) return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4);
  unsigned all = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
  return (low & 0xe6) == 0xe6 && (b & all) == all && (set == QV_X86_AVX512 || (c & 1u << 11));
}
#endif
#endif
