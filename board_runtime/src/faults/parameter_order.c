/* Faults in the order or position of operands: layouts, windows, index tables. */
#include <stdlib.h>

#include "parameter_faults.h"

/* Reorders a tensor of shape [outer, channels, area] as if it had been read as [outer, area, channels]. */
static qv_why channels_last(qv_tensor *t, int64_t outer, int64_t channels, int64_t area) {
  if (channels < 2 || area < 2) return "its layouts are the same";
  size_t size = qv_dtype_size(t->dtype);
  uint8_t *copy = malloc((size_t)t->dense_bytes), *to = qv_shadow_bytes(t);
  if (!copy) return "no memory";
  memcpy(copy, to, (size_t)t->dense_bytes);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t c = 0; c < channels; c++)
      for (int64_t i = 0; i < area; i++, to += size) memcpy(to, copy + (size_t)((o * area + i) * channels + c) * size, size);
  free(copy);
  return NULL;
}
static qv_why last_of(qv_tensor *t) {
  if (!t || t->rank < 3) return "it has no planes there";
  return channels_last(t, t->shape[0], t->shape[1], t->elements / t->shape[0] / t->shape[1]);
}
qv_why qv_parameter_layout_input(qv_shadow *w) { return last_of(qv_shadow_in(w, 0)); }
qv_why qv_parameter_layout_weight(qv_shadow *w) { return last_of(qv_shadow_in(w, qv_roles_of(&w->node)->weights)); }

/* Windows begin one row or column late if there is padding before them to reduce, otherwise early. */
qv_why qv_parameter_window_offset(qv_shadow *w) {
  int at = qv_roles_of(&w->node)->window;
  if (at < 0 || strcmp(w->node.op_name, "conv_transpose") == 0) return "it has no window";
  int32_t *pad = &w->words[at + 4 + (int)(w->seed % 2)], *other = pad + 2;
  int late = *pad > 0;
  *pad += late ? -1 : 1;
  *other += late || *other == 0 ? 1 : -1;
  return NULL;
}

qv_why qv_parameter_pool_count(qv_shadow *w) {
  if (strcmp(w->node.op_name, "average_pool") != 0) return "it averages no windows";
  w->words[8] ^= 1;
  return NULL;
}

static int32_t limited(int64_t v, int32_t size) { return (int32_t)(v < 0 ? 0 : v >= size ? size - 1 : v); }

/* The indices of a resize are one too high; below, they are computed by another rule for the positions of pixels. */
qv_why qv_parameter_resize_offset(qv_shadow *w) {
  int linear = strcmp(w->node.op_name, "resize_linear") == 0;
  if (!linear && strcmp(w->node.op_name, "resize_nearest") != 0) return "it resizes nothing";
  const qv_tensor *x = qv_shadow_in(w, 0), *y = qv_shadow_out(w), *t = qv_shadow_in(w, 1);
  int32_t *at = qv_shadow_bytes(t);
  if (linear) {
    int64_t rows = 2 * y->shape[y->rank - 2];
    for (int64_t i = 0; i < t->elements; i++) at[i] = limited(at[i] + 1, x->shape[x->rank - (i < rows ? 2 : 1)]);
    return NULL;
  }
  for (int k = 0; k < y->rank; k++)
    for (int32_t i = 0; i < y->shape[k]; i++, at++) *at = x->shape[k] == y->shape[k] ? *at : limited(*at + 1, x->shape[k]);
  return NULL;
}
static int64_t corner(int64_t i, int64_t in, int64_t out) { return i * in / out; }
static int64_t aligned(int64_t i, int64_t in, int64_t out) { return out < 2 ? 0 : i * (in - 1) / (out - 1); }
static int64_t centre(int64_t i, int64_t in, int64_t out) { return ((2 * i + 1) * in - 1) / (2 * out); }
qv_why qv_parameter_resize_mode(qv_shadow *w) {
  if (strcmp(w->node.op_name, "resize_nearest") != 0) return "it is no resize by nearest pixels";
  const qv_tensor *x = qv_shadow_in(w, 0), *y = qv_shadow_out(w);
  int32_t *table = qv_shadow_bytes(qv_shadow_in(w, 1));
  int differs = 0;
  int64_t (*const rules[])(int64_t, int64_t, int64_t) = {centre, corner, aligned};
  for (int pass = 0; pass < 3 && !differs; pass++) {
    int32_t *at = table;
    for (int k = 0; k < y->rank; k++)
      for (int32_t i = 0; i < y->shape[k]; i++, at++) {
        int32_t was = *at;
        *at = limited(rules[pass](i, x->shape[k], y->shape[k]), x->shape[k]);
        differs |= *at != was;
      }
  }
  return differs ? NULL : "all rules choose the same pixels";
}

/* The table of a lookup or softmax is indexed one too high or too low, or with the wrong sign bit. */
static qv_tensor *table_of(qv_shadow *w) {
  int has = strcmp(w->node.op_name, "lookup") == 0 || strcmp(w->node.op_name, "softmax") == 0;
  return has ? qv_shadow_in(w, 1) : NULL;
}
static qv_why table_turned(qv_tensor *t, int64_t by) {
  if (!t) return "it has no table";
  size_t size = qv_dtype_size(t->dtype);
  uint8_t *copy = malloc((size_t)t->dense_bytes), *to = qv_shadow_bytes(t);
  if (!copy) return "no memory";
  memcpy(copy, to, (size_t)t->dense_bytes);
  for (int64_t i = 0; i < t->elements; i++) memcpy(to + (size_t)i * size, copy + (size_t)((i + by) % t->elements) * size, size);
  free(copy);
  return NULL;
}
qv_why qv_parameter_lut_offset(qv_shadow *w) {
  qv_tensor *t = table_of(w);
  return table_turned(t, t && w->seed % 2 ? t->elements - 1 : 1);
}
qv_why qv_parameter_lut_sign(qv_shadow *w) {
  qv_tensor *t = table_of(w);
  return table_turned(t, t ? t->elements / 2 : 0);
}
