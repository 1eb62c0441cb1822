/* CMSIS-NN: names the output of a layer right after its call, from the dims that the call was given.

       arm_convolve_wrapper_s8(&ctx, &params, &quant, &in_dims, in, &filter_dims, w, &bias_dims, b, &out_dims, out);
       QV_CMSIS_NN("conv0", out, &out_dims);                        // int8, n = 1, channels last in memory
       QV_CMSIS_NN_FLAT("logits", out, &out_dims);                  // int8 without height and width: fully connected

   dims is any pointer to a struct with the fields n, h, w and c, as cmsis_nn_dims has them. */
#ifndef QV_CMSIS_NN_H
#define QV_CMSIS_NN_H
#include "qv_hook.h"

#define QV_CMSIS_NN_OF(name, data, dims, element_bytes) \
  qv_hook_channels_last(name, data, (uint32_t)((dims)->n * (dims)->h * (dims)->w), (uint32_t)(dims)->c, element_bytes)
#define QV_CMSIS_NN(name, data, dims) QV_CMSIS_NN_OF(name, data, dims, 1)
#define QV_CMSIS_NN_16(name, data, dims) QV_CMSIS_NN_OF(name, data, dims, 2)
#define QV_CMSIS_NN_FLAT(name, data, dims) qv_hook_tensor(name, data, (uint32_t)((dims)->n * (dims)->c))
#endif
