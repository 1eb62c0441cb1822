/* The qv_dots kernels for 64-bit ARM, which always has NEON. */
#include "dot.h"

#if defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>

#include "dot_body.h"

static void panel(const int16_t *w, int64_t stride, const int16_t *columns, int64_t pairs, uint32_t *acc) {
  int32x4_t sum[QV_ROWS][4];
  for (int r = 0; r < QV_ROWS; r++)
    for (int q = 0; q < 4; q++) sum[r][q] = vdupq_n_s32(0);
  for (int64_t k = 0; k < pairs; k++) {
    int16x8x2_t low = vld2q_s16(columns + k * 2 * QV_PANEL), high = vld2q_s16(columns + k * 2 * QV_PANEL + QV_PANEL);
    for (int r = 0; r < QV_ROWS; r++)
      for (int step = 0; step < 2; step++) {
        int16_t tap = w[r * stride + 2 * k + step];
        sum[r][0] = vmlal_n_s16(sum[r][0], vget_low_s16(low.val[step]), tap);
        sum[r][1] = vmlal_n_s16(sum[r][1], vget_high_s16(low.val[step]), tap);
        sum[r][2] = vmlal_n_s16(sum[r][2], vget_low_s16(high.val[step]), tap);
        sum[r][3] = vmlal_n_s16(sum[r][3], vget_high_s16(high.val[step]), tap);
      }
  }
  for (int r = 0; r < QV_ROWS; r++)
    for (int q = 0; q < 4; q++) vst1q_u32(acc + r * QV_TILE + 4 * q, vreinterpretq_u32_s32(sum[r][q]));
}

QV_DOTS_FUNCTIONS()

static const qv_dots table = {"neon", panel, taps, row, finish, centre};

const qv_dots *qv_dots_neon(void) { return &table; }
#else
const qv_dots *qv_dots_neon(void) { return NULL; }
#endif
