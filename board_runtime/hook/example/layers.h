/* A small inference engine as a firmware has one: integer kernels on channels-last tensors in one arena, and a table of
   layers that is walked in order. It stands for TFLite Micro or a program on CMSIS-NN, and shares nothing with qvrt. */
#ifndef EXAMPLE_LAYERS_H
#define EXAMPLE_LAYERS_H
#include <stdint.h>

enum { QUANTIZE, CONV, DEPTHWISE, FULLY_CONNECTED, LOOKUP, ADD, AVERAGE_POOL, MAX_POOL, RESHAPE, SOFTMAX, DEQUANTIZE };

/* The real number value / 2^31 * 2^-shift, below 1. */
typedef struct {
  int32_t value, shift;
} factor;

typedef struct {
  const char *name; /* of its output, in the model that the host judges by */
  uint8_t kind;
  int32_t in, in2, out; /* offsets in the arena */
  int16_t in_h, in_w, in_c, out_h, out_w, out_c;
  int16_t kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
  int32_t zero_in, zero_in2, zero_out, low, high;
  const int8_t *weights; /* CONV: out_c, kernel_h, kernel_w, in_c; DEPTHWISE: kernel_h, kernel_w, out_c; the table of LOOKUP */
  const int32_t *bias;
  const factor *factors; /* one for each output channel; ADD: of both inputs and of the sum */
  const float *table;    /* SOFTMAX: exp of each difference; QUANTIZE, DEQUANTIZE, SOFTMAX: the scale follows last */
} layer;

extern const layer network[];
extern const int32_t network_layers, network_input_elements, network_is_unsigned;
extern const char network_input_name[];
extern uint8_t arena[];
extern float network_input[]; /* the network's input, as the host sends it: channels first */

void run_layer(const layer *l);
uint32_t output_elements(const layer *l);
uint32_t output_element_bytes(const layer *l);
#endif
