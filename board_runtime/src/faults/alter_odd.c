/* Withheld kinds inside a node: nothing in the verifier was written for them. */
#include "alterations.h"

/* The second half of every filter never reached the weight buffer: the first stands there again. */
qv_why qv_alter_weight_half_lost(qv_shadow *w) {
  qv_tensor *k = qv_shadow_in(w, qv_roles_of(&w->node)->weights);
  if (!k || k->elements / k->shape[0] < 4) return "it has no filters of several weights";
  int64_t depth = k->elements / k->shape[0], half = (depth + 1) / 2;
  uint8_t *at = qv_shadow_bytes(k);
  size_t size = qv_dtype_size(k->dtype);
  for (int64_t o = 0; o < k->shape[0]; o++) memcpy(at + (size_t)(o * depth + half) * size, at + (size_t)(o * depth) * size, (size_t)(depth - half) * size);
  return NULL;
}

/* A rectifier in front of the node: what lies below the zero point is mirrored above it. */
qv_why qv_alter_input_sign_folded(qv_shadow *w) {
  qv_tensor *x = qv_shadow_in(w, 0);
  if (!x || !qv_is_q(x)) return "it has no quantized input";
  int32_t zero = x->zero_point[0], high = qv_qmax(x->dtype);
  for (int64_t i = 0; i < x->elements; i++) {
    int32_t v = qv_load(x->constant, x->dtype, i), folded = v < zero ? 2 * zero - v : v;
    qv_store(qv_shadow_bytes(x), x->dtype, i, folded > high ? high : folded);
  }
  return NULL;
}

/* Filters applied as a true convolution: every plane of taps turned by half a circle. */
qv_why qv_alter_tap_mirrored(qv_shadow *w) {
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
