/* The list of all kinds of faults that change a copy of a node before it runs. */
#ifndef QV_PARAMETER_FAULTS_H
#define QV_PARAMETER_FAULTS_H
#include "shadow.h"

/* clang-format off */
#define QV_PARAMETER_FAULTS(X) \
  X(round_tflite_single) X(round_gemmlowp) X(round_cmsis) X(round_pow2_half_up) X(round_pow2_half_away) X(round_pow2_floor) \
  X(round_mul8) X(round_mul15) X(round_mul16) X(round_mul24) X(round_mul31) X(round_f64) \
  X(zero_input) X(zero_weight) X(zero_output) X(scales_shifted) X(scales_per_tensor) \
  X(bias_missing) X(bias_shifted) X(bias_narrow) X(clamp_missing) X(clamp_extra) X(sign_input) X(sign_weight) \
  X(layout_input) X(layout_weight) X(window_offset) X(pool_count) X(resize_offset) X(resize_mode) X(lut_offset) X(lut_sign) \
  X(tap_mirrored)
/* clang-format on */

/* Withheld kinds: no code in the verifier is written for them. Each must change a least number of elements (table.c). */
#define QV_WITHHELD_PARAMETER_FAULTS(X) X(weight_half_lost) X(input_sign_folded) X(weights_pruned) X(weights_block_float) X(input_dithered)

/* Slight faults for nodes that compute in float or add 16-bit values. */
#define QV_FLOAT_PARAMETER_FAULTS(X) X(gamma_row) X(epsilon_tenfold) X(variance_unbiased) X(bias_slight)

#define QV_DECLARE_PARAMETER_FAULT(name) qv_why qv_parameter_##name(qv_shadow *w);
QV_PARAMETER_FAULTS(QV_DECLARE_PARAMETER_FAULT)
QV_WITHHELD_PARAMETER_FAULTS(QV_DECLARE_PARAMETER_FAULT)
QV_FLOAT_PARAMETER_FAULTS(QV_DECLARE_PARAMETER_FAULT)
#endif
