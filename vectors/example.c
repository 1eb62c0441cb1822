/* Kernels in gemmlowp's arithmetic (vectors/tflm.json: conv, fully_connected), as vectors/check.py calls them.
 *     cc -O2 -shared -fPIC -o example.so vectors/example.c -lm && python vectors/check.py vectors/tflm.json example.so
 */
#include <math.h>
#include <stdint.h>

static int32_t clamp(int64_t v, int64_t low, int64_t high) { return (int32_t)(v < low ? low : v > high ? high : v); }

/* sum * scale: the scale is multiplier * 2^(exponent - 31); two roundings, halves away from zero at the second. */
static int32_t scaled(int32_t sum, double scale) {
    int exponent;
    int64_t multiplier = (int64_t)floor(frexp(scale, &exponent) * 2147483648.0 + 0.5);
    if (multiplier == INT64_C(2147483648)) multiplier /= 2, exponent++;
    int left = exponent > 0 ? exponent : 0, right = exponent > 0 ? 0 : -exponent;
    if (right > 31) return 0;
    int64_t high = clamp((int64_t)sum * (INT64_C(1) << left), INT32_MIN, INT32_MAX) * multiplier + (INT64_C(1) << 30);
    high = (high - (high & INT64_C(0x7fffffff))) / INT64_C(2147483648); /* down, without a shift of a negative number */
    int64_t half = right ? INT64_C(1) << (right - 1) : 0, unit = INT64_C(1) << right;
    return (int32_t)(high < 0 ? -((-high + half) / unit) : (high + half) / unit);
}

static int linear(int32_t n, const int32_t *a, const int32_t *b, const double *scales, const int32_t *zeros,
                  const int32_t *limits, int32_t count, int32_t *result) {
    volatile double scale = scales[0] * scales[1] / scales[2]; /* a double even where registers are longer */
    for (int32_t i = 0; i < n; i++) {
        int32_t sum = count ? 0 : a[i];
        for (int32_t k = 0; k < count; k++) sum += (a[i * count + k] - zeros[0]) * (b[i * count + k] - zeros[1]);
        result[i] = clamp((int64_t)scaled(sum, scale) + zeros[2], limits[0], limits[1]);
    }
    return 0;
}

#define EXPORT(name) \
    int name(int32_t n, const int32_t *a, const int32_t *b, const double *scales, const int32_t *zeros, \
             const int32_t *limits, int32_t count, int32_t *result) { \
        return linear(n, a, b, scales, zeros, limits, count, result); \
    }
EXPORT(conv)
EXPORT(fully_connected)
