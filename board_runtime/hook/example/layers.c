/* The kernels of the example's inference engine. */
#include "layers.h"

/* The integers of all tensors have one type: int8, or uint8. */
static int32_t get(int32_t at) { return network_is_unsigned ? arena[at] : (int8_t)arena[at]; }
static void put(int32_t at, int32_t v) { arena[at] = (uint8_t)v; }
static int32_t clamp(int32_t v, int32_t low, int32_t high) { return v < low ? low : v > high ? high : v; }

/* Returns v times a factor, rounded to the nearest, halves to even. */
static int32_t scaled(int32_t v, factor f) {
  int32_t bits = 31 + f.shift;
  if (bits > 62) return 0;
  int64_t product = (int64_t)v * f.value, half = (int64_t)1 << (bits - 1), whole = (product + half) >> bits;
  return (int32_t)(product + half == whole * 2 * half ? whole & ~(int64_t)1 : whole);
}

static int32_t nearest_even(float v) {
  int32_t whole = (int32_t)v;
  float rest = v - (float)whole;
  if (rest > 0.5f || (rest == 0.5f && whole % 2)) return whole + 1;
  if (rest < -0.5f || (rest == -0.5f && whole % 2)) return whole - 1;
  return whole;
}

static void quantize(const layer *l) {
  int32_t pixels = l->out_h * l->out_w;
  float scale = l->table[0];
  for (int32_t c = 0; c < l->out_c; c++)
    for (int32_t i = 0; i < pixels; i++) {
      float steps = network_input[c * pixels + i] / scale;
      steps = steps < -1000.0f ? -1000.0f : steps > 1000.0f ? 1000.0f : steps;
      put(l->out + i * l->out_c + c, clamp(nearest_even(steps) + l->zero_out, l->low, l->high));
    }
}

/* The sum of one output element before it is scaled; depthwise: only channel `channel` of the input. */
static int32_t window_sum(const layer *l, int32_t row, int32_t column, int32_t channel) {
  int32_t sum = l->bias ? l->bias[channel] : 0;
  for (int32_t i = 0; i < l->kernel_h; i++)
    for (int32_t j = 0; j < l->kernel_w; j++) {
      int32_t y = row * l->stride_h - l->pad_top + i, x = column * l->stride_w - l->pad_left + j;
      if (y < 0 || y >= l->in_h || x < 0 || x >= l->in_w) continue;
      int32_t pixel = l->in + (y * l->in_w + x) * l->in_c;
      if (l->kind == DEPTHWISE) {
        sum += (get(pixel + channel) - l->zero_in) * l->weights[(i * l->kernel_w + j) * l->out_c + channel];
        continue;
      }
      const int8_t *weights = l->weights + ((channel * l->kernel_h + i) * l->kernel_w + j) * l->in_c;
      for (int32_t c = 0; c < l->in_c; c++) sum += (get(pixel + c) - l->zero_in) * weights[c];
    }
  return sum;
}

static void convolve(const layer *l) {
  int32_t to = l->out;
  for (int32_t y = 0; y < l->out_h; y++)
    for (int32_t x = 0; x < l->out_w; x++)
      for (int32_t c = 0; c < l->out_c; c++) put(to++, clamp(scaled(window_sum(l, y, x, c), l->factors[c]) + l->zero_out, l->low, l->high));
}

static void take_largest(const layer *l) {
  int32_t to = l->out;
  for (int32_t y = 0; y < l->out_h; y++)
    for (int32_t x = 0; x < l->out_w; x++)
      for (int32_t c = 0; c < l->out_c; c++) {
        int32_t largest = -128;
        for (int32_t i = 0; i < l->kernel_h; i++)
          for (int32_t j = 0; j < l->kernel_w; j++) {
            int32_t row = y * l->stride_h - l->pad_top + i, column = x * l->stride_w - l->pad_left + j;
            if (row < 0 || row >= l->in_h || column < 0 || column >= l->in_w) continue;
            int32_t v = get(l->in + (row * l->in_w + column) * l->in_c + c);
            largest = v > largest ? v : largest;
          }
        put(to++, largest);
      }
}

static void look_up(const layer *l) {
  for (int32_t i = 0; i < (int32_t)output_elements(l); i++) put(l->out + i, l->weights[arena[l->in + i]]);
}

static void add(const layer *l) {
  for (int32_t i = 0; i < (int32_t)output_elements(l); i++) {
    int32_t a = (get(l->in + i) - l->zero_in) * (1 << 20), b = (get(l->in2 + i) - l->zero_in2) * (1 << 20);
    int32_t sum = scaled(a, l->factors[0]) + scaled(b, l->factors[1]);
    put(l->out + i, clamp(scaled(sum, l->factors[2]) + l->zero_out, l->low, l->high));
  }
}

static void average(const layer *l) {
  for (int32_t c = 0; c < l->out_c; c++) {
    int32_t sum = 0;
    for (int32_t i = 0; i < l->in_h * l->in_w; i++) sum += get(l->in + i * l->in_c + c) - l->zero_in;
    put(l->out + c, clamp(scaled(sum * 64, l->factors[0]) + l->zero_out, l->low, l->high));
  }
}

/* The elements of a tensor in another shape; channels come first in the order of elements. */
static void reshape(const layer *l) {
  int32_t pixels = l->in_h * l->in_w, count = (int32_t)output_elements(l);
  for (int32_t i = 0; i < count; i++) put(l->out + i, get(l->in + i % pixels * l->in_c + i / pixels));
}

static void softmax(const layer *l) {
  int32_t largest = -128, n = l->out_c;
  float sum = 0.0f;
  for (int32_t i = 0; i < n; i++) largest = get(l->in + i) > largest ? get(l->in + i) : largest;
  for (int32_t i = 0; i < n; i++) sum += l->table[largest - get(l->in + i)];
  for (int32_t i = 0; i < n; i++) {
    float share = l->table[largest - get(l->in + i)] / sum;
    put(l->out + i, clamp(nearest_even(share / l->table[256]) + l->zero_out, l->low, l->high));
  }
}

static void dequantize(const layer *l) {
  float *to = (float *)(void *)(arena + l->out);
  for (int32_t i = 0; i < (int32_t)output_elements(l); i++) to[i] = (float)(get(l->in + i) - l->zero_in) * l->table[0];
}

void run_layer(const layer *l) {
  switch (l->kind) {
    case QUANTIZE: quantize(l); break;
    case CONV:
    case DEPTHWISE:
    case FULLY_CONNECTED: convolve(l); break; /* a fully connected layer is a convolution of one pixel */
    case LOOKUP: look_up(l); break;
    case ADD: add(l); break;
    case AVERAGE_POOL: average(l); break;
    case MAX_POOL: take_largest(l); break;
    case RESHAPE: reshape(l); break;
    case SOFTMAX: softmax(l); break;
    default: dequantize(l); break;
  }
}

uint32_t output_elements(const layer *l) { return (uint32_t)(l->out_h * l->out_w * l->out_c); }
uint32_t output_element_bytes(const layer *l) { return l->kind == DEQUANTIZE ? 4 : 1; }
