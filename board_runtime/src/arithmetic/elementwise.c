/* The qv_elementwise kernels for x86 with FMA and for 64-bit ARM, which always has FMA. */
#include "elementwise_body.h"
#include "x86.h"

#if defined(__x86_64__)
QV_ELEMENTWISE(wide, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))))
QV_ELEMENTWISE(narrow, __attribute__((target("avx2,fma"))))
const qv_elementwise *qv_elementwise_avx512(void) { return qv_x86_has(QV_X86_AVX512) ? &wide : NULL; }
const qv_elementwise *qv_elementwise_avx2(void) { return qv_x86_has(QV_X86_AVX2_FMA) ? &narrow : NULL; }
const qv_elementwise *qv_elementwise_neon(void) { return NULL; }
#else
const qv_elementwise *qv_elementwise_avx512(void) { return NULL; }
const qv_elementwise *qv_elementwise_avx2(void) { return NULL; }
#if defined(__aarch64__)
QV_ELEMENTWISE(neon, )
const qv_elementwise *qv_elementwise_neon(void) { return &neon; }
#else
const qv_elementwise *qv_elementwise_neon(void) { return NULL; }
#endif
#endif
