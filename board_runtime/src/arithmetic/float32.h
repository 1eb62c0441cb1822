/* float32 and float64 arithmetic in a defined order (NUMERICS.md section 3). No library function but sqrt. */
#ifndef QV_FLOAT32_H
#define QV_FLOAT32_H
#include "../elements.h"

/* Round to nearest even, |v| <= 2^22 (f32) or 2^51 (f64). */
static inline float qv_round_f32(float v) {
  float big = v + 12582912.0f;
  return big - 12582912.0f;
}
static inline double qv_round_f64(double v) {
  double big = v + 6755399441055744.0;
  return big - 6755399441055744.0;
}
/* NaN stays NaN. */
static inline float qv_clamp_f32(float v, float low, float high) { return v < low ? low : v > high ? high : v; }
static inline double qv_clamp_f64(double v, double low, double high) { return v < low ? low : v > high ? high : v; }
/* The product, exact: 48 bits. QEMU before 8.1 multiplies wrongly where the compiler makes one instruction (MDEBR) of widening and product. */
static inline double qv_wide_product(float a, float b) {
#ifdef __s390x__
  volatile double wide = (double)a;
  return wide * (double)b;
#else
  return (double)a * (double)b;
#endif
}
float qv_fma32(float a, float b, float c); /* one rounding, without the machine's fma */
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
/* quantize and dequantize of NUMERICS.md, one element. */
int32_t qv_quantize(float x, float scale, int32_t zero, int32_t dtype);
/* The parameters of uint8 for the range of x, which includes 0 (NUMERICS.md, dynamic_quantize). */
void qv_dynamic_parameters(const float *x, int64_t count, float *scale, int32_t *zero);
float qv_dequantize(int32_t q, float scale, int32_t zero);
#endif
