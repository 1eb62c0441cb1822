/* Addition of doubles for Cortex-M without an FPU for them, rounded to nearest even. That of libgcc (12.2) rounds wrongly
   where exponents lie 33 apart and the difference falls below a power of two. All functions of libgcc's object are here,
   so that the linker takes none of it. */
#include <stdint.h>
#include <string.h>

/* QV_LIBRARY_ADDITION leaves that of libgcc, for the test of the canary. */
#if defined(__arm__) && !(defined(__ARM_FP) && (__ARM_FP & 8)) && !defined(QV_LIBRARY_ADDITION)
#define LIBRARY __attribute__((pcs("aapcs"), used, noinline))

enum { BIAS = 1023, WIDTH = 52, EXTRA = 10, TOP = WIDTH + EXTRA, SPECIAL = 2047 };
static const uint64_t SIGN = (uint64_t)1 << 63, FRACTION = ((uint64_t)1 << WIDTH) - 1, QUIET = (uint64_t)1 << 51;

static uint64_t bits_of(double v) {
  uint64_t bits;
  memcpy(&bits, &v, 8);
  return bits;
}
static double double_of(uint64_t bits) {
  double v;
  memcpy(&v, &bits, 8);
  return v;
}

/* Shifts to the right; the last bit stays set if any bit is lost. */
static uint64_t shifted(uint64_t m, int by) {
  if (by <= 0) return m;
  if (by > 63) return m != 0;
  return m >> by | (m << (64 - by) != 0);
}

/* Returns the double nearest to m * 2^(exponent - BIAS - TOP). */
static double rounded(uint64_t sign, int exponent, uint64_t m) {
  if (!m) return double_of(sign);
  int places = __builtin_clzll(m) - (63 - TOP);
  if (places > 0) m <<= places;
  else m = shifted(m, -places);
  exponent -= places;
  if (exponent <= 0) {
    m = shifted(m, 1 - exponent);
    exponent = 0;
  }
  uint64_t rest = m & ((1 << EXTRA) - 1), half = 1 << (EXTRA - 1), v = m >> EXTRA;
  if (rest > half || (rest == half && v & 1)) v++;
  /* The leading bit of v, if there is one, adds 1 to the exponent; so does a carry. */
  v += exponent ? (uint64_t)(exponent - 1) << WIDTH : 0;
  if (v >> WIDTH >= SPECIAL) v = (uint64_t)SPECIAL << WIDTH;
  return double_of(sign | v);
}

static double sum(uint64_t a, uint64_t b) {
  if ((b & ~SIGN) > (a & ~SIGN)) {
    uint64_t held = a;
    a = b;
    b = held;
  }
  int of_a = (int)(a >> WIDTH & SPECIAL), of_b = (int)(b >> WIDTH & SPECIAL);
  if (of_a == SPECIAL) {
    if (a & FRACTION) return double_of(a | QUIET);
    if (of_b == SPECIAL && a != b) return double_of((uint64_t)SPECIAL << WIDTH | QUIET);
    return double_of(a);
  }
  uint64_t m = (a & FRACTION) | (uint64_t)(of_a != 0) << WIDTH, n = (b & FRACTION) | (uint64_t)(of_b != 0) << WIDTH;
  of_a += of_a == 0;
  of_b += of_b == 0;
  m <<= EXTRA;
  n = shifted(n << EXTRA, of_a - of_b);
  if ((a ^ b) & SIGN) return m == n ? double_of(0) : rounded(a & SIGN, of_a, m - n);
  if (!(m | n)) return double_of(a & b);
  return rounded(a & SIGN, of_a, m + n);
}

LIBRARY double __aeabi_dadd(double a, double b);
LIBRARY double __aeabi_dsub(double a, double b);
LIBRARY double __aeabi_drsub(double a, double b);
LIBRARY double __aeabi_ul2d(unsigned long long v);
LIBRARY double __aeabi_l2d(long long v);
LIBRARY double __aeabi_ui2d(unsigned v);
LIBRARY double __aeabi_i2d(int v);
LIBRARY double __aeabi_f2d(float v);

double __aeabi_dadd(double a, double b) { return sum(bits_of(a), bits_of(b)); }
double __aeabi_dsub(double a, double b) { return sum(bits_of(a), bits_of(b) ^ SIGN); }
double __aeabi_drsub(double a, double b) { return sum(bits_of(b), bits_of(a) ^ SIGN); }
double __aeabi_ul2d(unsigned long long v) { return rounded(0, BIAS + TOP, v); }
double __aeabi_l2d(long long v) { return rounded(v < 0 ? SIGN : 0, BIAS + TOP, v < 0 ? 0 - (uint64_t)v : (uint64_t)v); }
double __aeabi_ui2d(unsigned v) { return rounded(0, BIAS + TOP, v); }
double __aeabi_i2d(int v) { return __aeabi_l2d(v); }
double __aeabi_f2d(float v) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  uint64_t sign = (uint64_t)(bits >> 31) << 63, fraction = bits & 0x7FFFFF;
  int exponent = (int)(bits >> 23 & 255);
  if (exponent == 255) return double_of(sign | (uint64_t)SPECIAL << WIDTH | fraction << 29 | (fraction ? QUIET : 0));
  if (exponent) return double_of(sign | (uint64_t)(exponent + BIAS - 127) << WIDTH | fraction << 29);
  return rounded(sign, BIAS + TOP - 149, fraction);
}
#endif
