/* float32 and float64 arithmetic in a defined order (NUMERICS.md section 3). */
#include "float32.h"

#include <math.h>

float qv_fma32(float a, float b, float c) {
  double product = qv_wide_product(a, b), addend = (double)c, total = product + addend;
  double back = total - product, error = (product - (total - back)) + (addend - back);
  if (error != 0.0) {
    uint64_t bits;
    memcpy(&bits, &total, 8);
    if ((bits & 1) == 0 && (bits >> 52 & 2047) != 2047) {
      bits = (error > 0.0) == (total > 0.0) ? bits + 1 : bits - 1;
      memcpy(&total, &bits, 8);
    }
  }
  return (float)total;
}

static double horner(const double *c, int last, double x) {
  double result = c[last];
  for (int k = last - 1; k >= 0; k--) result = result * x + c[k];
  return result;
}

static double power_of_2(int n) {
  uint64_t bits = (uint64_t)(n + 1023) << 52;
  double v;
  memcpy(&v, &bits, 8);
  return v;
}

double qv_exp64(double x) {
  static const double c[14] = {1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
                               1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
  if (x != x) return x;
  if (x > 709.7) return INFINITY;
  if (x < -745.0) return 0.0;
  double n = qv_round_f64(x * 1.4426950408889634);
  double r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10;
  int whole = (int)n, half = whole >= 0 ? whole / 2 : -((1 - whole) / 2);
  return horner(c, 13, r) * power_of_2(half) * power_of_2(whole - half);
}

double qv_tanh64(double x) {
  double size = fabs(x);
  if (x != x) return x;
  if (size > 20.0) return x < 0 ? -1.0 : 1.0;
  if (size < 1e-5) return x - ((x * x) * x) / 3.0;
  double t = qv_exp64(2.0 * size), y = 1.0 - 2.0 / (t + 1.0);
  return x < 0 ? -y : y;
}

double qv_sigmoid64(double x) { return 1.0 / (1.0 + qv_exp64(-x)); }

double qv_log64(double x) {
  static const double c[15] = {1.0,      1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13, 1.0 / 15,
                               1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23, 1.0 / 25, 1.0 / 27, 1.0 / 29};
  if (x == 0) return -INFINITY;
  if (x < 0 || x != x) return NAN;
  if (x > 1.7976931348623157e308) return INFINITY;
  int e = 0;
  if (x < 2.2250738585072014e-308) {
    x *= 18014398509481984.0; /* 2^54: subnormal to normal, exactly */
    e = -54;
  }
  uint64_t bits;
  memcpy(&bits, &x, 8);
  e += (int)(bits >> 52 & 2047) - 1022;
  bits = (bits & 0x000FFFFFFFFFFFFFULL) | (uint64_t)1022 << 52;
  double m;
  memcpy(&m, &bits, 8);
  if (m < 0.7071067811865476) {
    m *= 2.0;
    e -= 1;
  }
  double f = (m - 1.0) / (m + 1.0), p = horner(c, 14, f * f), n = (double)e;
  return n * 0.6931471803691238 + ((2.0 * f) * p + n * 1.9082149292705877e-10);
}

double qv_pow64(double x, double y) { return x == 0 ? 0.0 : qv_exp64(y * qv_log64(x)); }

double qv_erf64(double x) {
  double size = fabs(x), y;
  if (x != x) return x;
  if (size >= 6.0) {
    y = 1.0;
  } else if (size < 2.5) {
    double c[41], factorial = 1.0, sign = 1.0;
    for (int k = 0; k <= 40; k++) {
      if (k) factorial *= (double)k;
      c[k] = sign / (factorial * (2 * k + 1));
      sign = -sign;
    }
    y = (1.1283791670955126 * size) * horner(c, 40, size * size);
  } else {
    double t = 0.0;
    for (int k = 60; k >= 1; k--) t = (k * 0.5) / (size + t);
    y = 1.0 - qv_exp64(-(size * size)) * (0.5641895835477563 / (size + t));
  }
  return x < 0 ? -y : y;
}

double qv_sinh64(double x) {
  static const double c[6] = {1.0, 1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880, 1.0 / 39916800};
  if (fabs(x) < 0.25) return x * horner(c, 5, x * x);
  return 0.5 * (qv_exp64(x) - qv_exp64(-x));
}

double qv_asinh64(double x) {
  static const double c[3] = {1.0, -1.0 / 6, 3.0 / 40};
  double size = fabs(x);
  if (size < 1e-4) return x * horner(c, 2, x * x);
  double y = qv_log64(size + sqrt(size * size + 1.0));
  return x < 0 ? -y : y;
}

double qv_atanh64(double x) {
  static const double c[3] = {1.0, 1.0 / 3, 1.0 / 5};
  if (fabs(x) < 1e-4) return x * horner(c, 2, x * x);
  return 0.5 * qv_log64((1.0 + x) / (1.0 - x));
}

double qv_atan64(double x) {
  double c[23], sign = 1.0, size = fabs(x), add = 0.0;
  if (x != x) return x;
  for (int k = 0; k <= 22; k++, sign = -sign) c[k] = sign / (2 * k + 1);
  double t = size > 1.0 ? 1.0 / size : size;
  if (t > 0.4142135623730951) {
    add = 0.7853981633974483;
    t = (t - 1.0) / (t + 1.0);
  }
  double y = add + t * horner(c, 22, t * t);
  if (size > 1.0) y = 1.5707963267948966 - y;
  return x < 0 ? -y : y;
}

double qv_sin64(double x, int quarters) {
  double s[10], c[10], factorial = 1.0, sign = 1.0;
  if (!(fabs(x) <= 1048576.0)) return NAN;
  for (int k = 0; k < 10; k++, sign = -sign) {
    c[k] = sign / factorial;
    factorial *= (double)(2 * k + 1);
    s[k] = sign / factorial;
    factorial *= (double)(2 * k + 2);
  }
  double n = qv_round_f64(x * 0.6366197723675814);
  double r = ((x - n * 1.5707963267341256) - n * 6.077100506303966e-11) - n * 2.0222662487959506e-21;
  int turn = ((int)n + quarters) & 3;
  double y = turn & 1 ? horner(c, 9, r * r) : r * horner(s, 9, r * r);
  return turn & 2 ? -y : y;
}

int32_t qv_quantize(float x, float scale, int32_t zero, int32_t dtype) {
  float low = (float)(qv_qmin(dtype) - zero), high = (float)(qv_qmax(dtype) - zero), v = x / scale;
  if (v != v) return qv_qmin(dtype);
  v = qv_clamp_f32(v, low, high);
  return (int32_t)qv_round_f32(v) + zero;
}

float qv_dequantize(int32_t q, float scale, int32_t zero) { return (float)(q - zero) * scale; }

void qv_dynamic_parameters(const float *x, int64_t count, float *scale, int32_t *zero) {
  float low = 0.0f, high = 0.0f;
  for (int64_t i = 0; i < count; i++) {
    low = x[i] < low ? x[i] : low; /* both comparisons are false for NaN, which is thus ignored */
    high = x[i] > high ? x[i] : high;
  }
  float range = high - low;
  *scale = low == high ? 1.0f : range / 255.0f;
  float at = -low / *scale;
  *zero = at >= 0.0f && at <= 255.0f ? (int32_t)qv_round_f32(at) : 255;
}
