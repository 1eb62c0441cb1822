/* float32 and float64 arithmetic in a defined order (NUMERICS.md section 3). The only library functions used
   are sqrt and fabs. */
#ifndef QV_FLOAT32_H
#define QV_FLOAT32_H
#include "../elements.h"

/* Round to the nearest integer, ties to even; |v| must be at most 2^22 (f32) or 2^51 (f64). */
static inline float qv_round_f32(float v) {
  float big = v + 12582912.0f;
  return big - 12582912.0f;
}
static inline double qv_round_f64(double v) {
  double big = v + 6755399441055744.0;
  return big - 6755399441055744.0;
}
/* Limit v to low .. high; NaN remains NaN. */
static inline float qv_clamp_f32(float v, float low, float high) { return v < low ? low : v > high ? high : v; }
static inline double qv_clamp_f64(double v, double low, double high) { return v < low ? low : v > high ? high : v; }
/* Returns the exact product, which has at most 48 significant bits. On s390x, `volatile` keeps the compiler from
   joining the widening and the multiplication into one instruction (MDEBR), which QEMU before 8.1 computes wrongly. */
static inline double qv_wide_product(float a, float b) {
#ifdef __s390x__
  volatile double wide = (double)a;
  return wide * (double)b;
#else
  return (double)a * (double)b;
#endif
}
float qv_fma32(float a, float b, float c); /* a*b + c with one rounding, without an FMA instruction */
double qv_exp64(double x);
double qv_tanh64(double x);
double qv_sigmoid64(double x);
double qv_log64(double x);
double qv_pow64(double x, double y);
double qv_erf64(double x);
double qv_sinh64(double x);
double qv_asinh64(double x);
double qv_atanh64(double x);
double qv_atan64(double x);
double qv_sin64(double x, int quarters); /* sin(x + quarters * pi / 2) */
/* The ops quantize and dequantize (NUMERICS.md) for one element. */
int32_t qv_quantize(float x, float scale, int32_t zero, int32_t dtype);
/* Computes the scale and zero point of uint8 for the range of x, extended to include 0 (NUMERICS.md,
   dynamic_quantize). */
void qv_dynamic_parameters(const float *x, int64_t count, float *scale, int32_t *zero);
float qv_dequantize(int32_t q, float scale, int32_t zero);
#endif
