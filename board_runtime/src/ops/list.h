/* Every op of the runtime. Written by build.py from the files of this folder. */
#ifndef QV_OPS_LIST_H
#define QV_OPS_LIST_H
#include "op.h"

/* clang-format off */
#define QV_OPS(X) \
  X(add) \
  X(arg_max) \
  X(arg_min) \
  X(average_pool) \
  X(average_pool_float) \
  X(batch_norm) \
  X(cast) \
  X(concat) \
  X(conv) \
  X(conv_float) \
  X(conv_integer) \
  X(conv_transpose) \
  X(conv_transpose_float) \
  X(cum_sum) \
  X(depth_to_space) \
  X(dequantize) \
  X(dynamic_quantize) \
  X(elementwise_float) \
  X(elementwise_integer) \
  X(fully_connected) \
  X(gather) \
  X(gather_elements) \
  X(gather_nd) \
  X(global_average_pool) \
  X(group_norm) \
  X(gru) \
  X(half_float) \
  X(layer_norm) \
  X(log_softmax) \
  X(lookup) \
  X(lp_norm) \
  X(lrn) \
  X(lstm) \
  X(lstm_integer) \
  X(matmul) \
  X(matmul_blocks) \
  X(matmul_float) \
  X(matmul_integer) \
  X(matmul_integer_scaled) \
  X(max_pool) \
  X(mod) \
  X(mul) \
  X(non_max_suppression) \
  X(normalize) \
  X(one_hot) \
  X(pad) \
  X(quantize) \
  X(quantize_blocks) \
  X(reduce_float) \
  X(reduce_integer) \
  X(reduce_mean) \
  X(reshape) \
  X(resize_linear) \
  X(resize_nearest) \
  X(resize_weighted) \
  X(resizer) \
  X(rms_norm) \
  X(rnn) \
  X(scatter_elements) \
  X(scatter_nd) \
  X(slice) \
  X(softmax) \
  X(softmax_float) \
  X(split) \
  X(tile) \
  X(top_k) \
  X(transpose) \
  X(trilu) \
  X(unpack) \
  X(variadic_float) \
  X(where) \
  X(yuv_to_rgb)
/* clang-format on */

#define QV_DECLARE_OP(stem) extern const qv_op qv_op_##stem;
QV_OPS(QV_DECLARE_OP)
#endif
