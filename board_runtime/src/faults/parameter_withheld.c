/* Unusual kinds of faults inside a node. They were written as withheld kinds; faulty_runtime.py lists those among them
   that proved equivalent to known mistakes as known. */
#include "parameter_faults.h"

/* The second half of every filter does not reach the weight buffer, which contains the first half twice. */
qv_why qv_parameter_weight_half_lost(qv_shadow *w) {
  qv_tensor *k = qv_shadow_in(w, qv_roles_of(&w->node)->weights);
  if (!k || k->elements / k->shape[0] < 4) return "it has no filters of several weights";
  int64_t depth = k->elements / k->shape[0], half = (depth + 1) / 2;
  uint8_t *at = qv_shadow_bytes(k);
  size_t size = qv_dtype_size(k->dtype);
  for (int64_t o = 0; o < k->shape[0]; o++)
    memcpy(at + (size_t)(o * depth + half) * size, at + (size_t)(o * depth) * size, (size_t)(depth - half) * size);
  return NULL;
}

/* A rectifier in front of the node: input values below the zero point are mirrored above it. */
qv_why qv_parameter_input_sign_folded(qv_shadow *w) {
  qv_tensor *x = qv_shadow_in(w, 0);
  if (!x || !qv_is_q(x)) return "it has no quantized input";
  if (qv_shadow_out(w)->dtype == QV_F32) return "of real numbers it might as well be the sign bit";
  int64_t inner = 1;
  for (int k = x->channel_axis + 1; x->n_scales > 1 && k < x->rank; k++) inner *= x->shape[k];
  int32_t high = qv_qmax(x->dtype);
  for (int64_t i = 0; i < x->elements; i++) {
    int32_t zero = qv_zero(x, i / inner % x->n_scales), v = qv_load(x->constant, x->dtype, i), folded = v < zero ? 2 * zero - v : v;
    qv_store(qv_shadow_bytes(x), x->dtype, i, folded > high ? high : folded);
  }
  return NULL;
}

/* Filters are applied as a true convolution: every plane of taps is rotated by 180 degrees. */
qv_why qv_parameter_tap_mirrored(qv_shadow *w) {
  qv_tensor *k = qv_shadow_in(w, qv_roles_of(&w->node)->weights);
  if (!k || k->rank != 4 || k->shape[2] * k->shape[3] < 2) return "its filters have one tap";
  int64_t area = (int64_t)k->shape[2] * k->shape[3];
  void *at = qv_shadow_bytes(k);
  for (int64_t first = 0; first < k->elements; first += area)
    for (int64_t i = 0; i < area / 2; i++) {
      int32_t a = qv_load(at, k->dtype, first + i), b = qv_load(at, k->dtype, first + area - 1 - i);
      qv_store(at, k->dtype, first + i, b);
      qv_store(at, k->dtype, first + area - 1 - i, a);
    }
  return NULL;
}

/* Of each four consecutive weights, the two smaller ones are set to zero, as for an accelerator with 2:4 sparsity.
   smaller returns whether weight i is one of these two. */
static int smaller(const int32_t *size, int i) {
  int above = 0;
  for (int k = 0; k < 4; k++) above += size[k] > size[i] || (size[k] == size[i] && k < i);
  return above >= 2;
}
qv_why qv_parameter_weights_pruned(qv_shadow *w) {
  qv_tensor *k = qv_shadow_in(w, qv_roles_of(&w->node)->weights);
  if (!k || k->elements / k->shape[0] < 4) return "it has no filters of several weights";
  int64_t depth = k->elements / k->shape[0];
  for (int64_t o = 0; o < k->shape[0]; o++)
    for (int64_t first = o * depth; first + 4 <= (o + 1) * depth; first += 4) {
      int32_t size[4], zero = qv_zero(k, o);
      for (int i = 0; i < 4; i++) {
        int32_t d = qv_load(k->constant, k->dtype, first + i) - zero;
        size[i] = d < 0 ? -d : d;
      }
      for (int i = 0; i < 4; i++)
        if (smaller(size, i)) qv_store(qv_shadow_bytes(k), k->dtype, first + i, zero);
    }
  return NULL;
}

/* Weights are packed in blocks of sixteen, with one exponent for the block and a sign and three bits for
   each weight. */
enum { BLOCK = 16, MOST = 7 };
static void pack(const qv_tensor *k, int64_t first, int64_t end, int32_t zero) {
  int32_t step = 1, size = 0;
  for (int64_t i = first; i < end; i++) {
    int32_t d = qv_load(k->constant, k->dtype, i) - zero;
    size = d > size ? d : -d > size ? -d : size;
  }
  while (size / step > MOST) step *= 2;
  for (int64_t i = first; i < end; i++)
    qv_store(qv_shadow_bytes(k), k->dtype, i, zero + (qv_load(k->constant, k->dtype, i) - zero) / step * step);
}
qv_why qv_parameter_weights_block_float(qv_shadow *w) {
  qv_tensor *k = qv_shadow_in(w, qv_roles_of(&w->node)->weights);
  if (!k || k->elements / k->shape[0] < 4) return "it has no filters of several weights";
  int64_t depth = k->elements / k->shape[0];
  for (int64_t o = 0; o < k->shape[0]; o++)
    for (int64_t at = 0; at < depth; at += BLOCK)
      pack(k, o * depth + at, o * depth + (at + BLOCK < depth ? at + BLOCK : depth), qv_zero(k, o));
  return NULL;
}

/* Adds noise of at most one step to the input of the node. */
qv_why qv_parameter_input_dithered(qv_shadow *w) {
  qv_tensor *x = qv_shadow_in(w, 0);
  if (!x || !qv_is_q(x)) return "it has no quantized input";
  uint64_t dice = w->seed;
  for (int64_t i = 0; i < x->elements; i++) {
    int32_t v = qv_load(x->constant, x->dtype, i) + (int32_t)qv_roll_below(&dice, 3) - 1;
    if (v >= qv_qmin(x->dtype) && v <= qv_qmax(x->dtype)) qv_store(qv_shadow_bytes(x), x->dtype, i, v);
  }
  return NULL;
}
