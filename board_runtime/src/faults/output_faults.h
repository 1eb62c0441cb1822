/* The list of all kinds of faults that change a node's output. */
#ifndef QV_OUTPUT_FAULTS_H
#define QV_OUTPUT_FAULTS_H
#include "fault.h"

/* clang-format off */
#define QV_OUTPUT_FAULTS(X) \
  X(bitflip) X(bit_flips) X(jitter) X(stuck_bit) X(byte_order) X(nan) X(nan_scrub) X(sign_output) \
  X(plus_one) X(off_by_one) X(zero_tail) X(stride_ignored) X(stride_imagined) X(align_garbage) \
  X(layout_output) X(axes_swapped) X(channel_swap) X(channel_reverse) X(group_order) \
  X(tile_repeated) X(tile_dropped) X(row_repeated) X(row_dropped) X(stale_tensor) X(stale_frame) \
  X(acc_sat16) X(acc_sat_pairs) X(acc_wrap16) X(acc_wrap20) X(pad_value) \
  X(round_half_away) X(round_floor) X(round_to_zero) X(round_exact_product) X(round_through_reals) \
  X(narrow_saturation) X(dealt) X(tiles_turned)

/* Withheld kinds: no code in the verifier is written for them. Each must change a least number of elements (table.c). */
#define QV_WITHHELD_OUTPUT_FAULTS(X) \
  X(channel_drift) X(checkerboard) X(dither) X(gamma) X(gray_code) X(echo) X(scrambler) X(fade) X(smoothed) X(running_max) X(nibble_mirrored) \
  X(line_reversed) X(tiles_negated) X(sheared) X(ploughed) X(lanes_shuffled) \
  X(minifloat) X(lossy_pairs) X(delta_drift) X(run_too_long) X(zeros_skipped) X(code_book_reversed) X(nibble_lag) X(ecc_miscorrected) \
  X(error_diffused) X(slew_limited) X(supply_droop) X(crosstalk) X(median_filtered) X(rows_blended) X(bank_hashed) \
  X(multiplier_mitchell) X(sum_in_bfloat16) X(carry_late) X(winograd_cut)
/* clang-format on */

/* Slight faults for nodes that compute in float. */
#define QV_FLOAT_OUTPUT_FAULTS(X) X(offset_slight) X(exp_rough)

#define QV_DECLARE_OUTPUT_FAULT(name) qv_why qv_output_##name(const qv_output_fault *f);
QV_OUTPUT_FAULTS(QV_DECLARE_OUTPUT_FAULT)
QV_WITHHELD_OUTPUT_FAULTS(QV_DECLARE_OUTPUT_FAULT)
QV_FLOAT_OUTPUT_FAULTS(QV_DECLARE_OUTPUT_FAULT)
#endif
