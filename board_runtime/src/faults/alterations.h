/* Every kind of fault that alters a copy of a node before it runs, one line each. */
#ifndef QV_ALTERATIONS_H
#define QV_ALTERATIONS_H
#include "shadow.h"

/* clang-format off */
#define QV_ALTERATIONS(X) \
  X(round_tflite_single) X(round_gemmlowp) X(round_cmsis) X(round_pow2_half_up) X(round_pow2_half_away) X(round_pow2_floor) \
  X(round_mul8) X(round_mul15) X(round_mul16) X(round_mul24) X(round_mul31) X(round_f64) \
  X(zero_input) X(zero_weight) X(zero_output) X(scales_shifted) X(scales_per_tensor) \
  X(bias_missing) X(bias_shifted) X(bias_narrow) X(clamp_missing) X(clamp_extra) X(sign_input) X(sign_weight) \
  X(layout_input) X(layout_weight) X(window_offset) X(pool_count) X(resize_offset) X(resize_mode) X(lut_offset) X(lut_sign) \
  X(tap_mirrored)
/* clang-format on */

/* Withheld from the verifier, and held to change enough elements (table.c). */
#define QV_ODD_ALTERATIONS(X) X(weight_half_lost) X(input_sign_folded) X(weights_pruned) X(weights_block_float) X(input_dithered)

/* Slight ones, of nodes that are left in float or sum 16 bits. */
#define QV_FLOAT_ALTERATIONS(X) X(gamma_row) X(epsilon_tenfold) X(variance_unbiased) X(bias_slight)

#define QV_DECLARE_ALTERATION(name) qv_why qv_alter_##name(qv_shadow *w);
QV_ALTERATIONS(QV_DECLARE_ALTERATION)
QV_ODD_ALTERATIONS(QV_DECLARE_ALTERATION)
QV_FLOAT_ALTERATIONS(QV_DECLARE_ALTERATION)
#endif
