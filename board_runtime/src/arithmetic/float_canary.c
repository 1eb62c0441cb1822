/* Operations that builds for small processors are known to compute wrongly, each with a result that only the right
   operation gives. */
#include "float_canary.h"

#include <stdint.h>
#include <string.h>

/* The compiler cannot know these, so it computes nothing in advance. */
static volatile uint64_t nothing;

static double of64(uint64_t bits) {
  double v;
  bits |= nothing;
  memcpy(&v, &bits, 8);
  return v;
}
static float of32(uint32_t bits) {
  float v;
  bits |= (uint32_t)nothing;
  memcpy(&v, &bits, 4);
  return v;
}
static uint64_t bits64(double v) {
  uint64_t bits;
  memcpy(&bits, &v, 8);
  return bits;
}
static uint32_t bits32(float v) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  return bits;
}

/* 1 - 2^-33 * 1.5 and others whose exponents are 33 apart: libgcc's addition for Arm without an FPU for doubles loses the
   last place of a difference that falls below a power of two. */
static int adds_doubles(void) {
  static const uint64_t CASES[][3] = {{0x3FF0000000000000u, 0xBDE8000000000001u, 0x3FEFFFFFFFE80000u},
                                      {0x3FF0000000000000u, 0xBDEBE3231E52EF05u, 0x3FEFFFFFFFE41CDDu},
                                      {0x4330000000000000u, 0x3FF0000000000000u, 0x4330000000000001u},
                                      {0x4340000000000000u, 0x3FF0000000000000u, 0x4340000000000000u},
                                      {0x4340000000000001u, 0x3FF0000000000000u, 0x4340000000000002u}};
  for (unsigned i = 0; i < sizeof CASES / sizeof *CASES; i++)
    if (bits64(of64(CASES[i][0]) + of64(CASES[i][1])) != CASES[i][2]) return 0;
  return 1;
}

static int keeps_subnormal_doubles(void) {
  return bits64(of64(0x0008000000000000u) + of64(0)) == 0x0008000000000000u &&
         bits64(of64(0x0010000000000000u) * of64(0x3FE0000000000000u)) == 0x0008000000000000u &&
         bits64(of64(3) / of64(0x4000000000000000u)) == 2;
}

static int keeps_subnormal_floats(void) {
  float a[8], b[8], sum[8];
  for (int i = 0; i < 8; i++) {
    a[i] = of32(0x00400000u + (uint32_t)i);
    b[i] = of32(0x3F800000u);
  }
  for (int i = 0; i < 8; i++) sum[i] = a[i] * b[i] + 0.0f; /* a loop that compilers turn into vectors */
  for (int i = 0; i < 8; i++)
    if (bits32(sum[i]) != 0x00400000u + (uint32_t)i) return 0;
  return bits32(of32(3) / of32(0x40000000u)) == 2;
}

static int rounds_floats(void) {
  return bits32(of32(0x4B800000u) + of32(0x3F800000u)) == 0x4B800000u && bits32(of32(0x4B800001u) + of32(0x3F800000u)) == 0x4B800002u &&
         bits32((float)of64(0x3FF0000010000000u)) == 0x3F800000u && bits32((float)of64(0x3FF0000030000000u)) == 0x3F800002u;
}

/* (1 + e)^2 - (1 + 2 e) is 0 if the square is rounded first, and e^2 if not. */
static int rounds_products_first(void) {
  float a = of32(0x3F800001u), rest = a * a - of32(0x3F800002u);
  double b = of64(0x3FF0000000000001u), rest64 = b * b - of64(0x3FF0000000000002u);
  return bits32(rest) == 0 && bits64(rest64) == 0;
}

const char *qv_float_canary(void) {
  if (!rounds_floats()) return "floats are not rounded to nearest even";
  if (!rounds_products_first()) return "products and sums are fused (-ffp-contract=off)";
  if (!keeps_subnormal_floats()) return "subnormal floats are flushed to zero (FPSCR.FZ, -fno-tree-vectorize)";
  if (!keeps_subnormal_doubles()) return "subnormal doubles are flushed to zero or misrounded";
  if (!adds_doubles()) return "doubles are added wrongly (libgcc without an FPU for doubles)";
  return "exact";
}
