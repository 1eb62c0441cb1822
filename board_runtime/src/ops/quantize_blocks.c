/* q, s: rows in blocks, s = largest |x| / 127, q = x * (127 / largest), rounded (NUMERICS.md, quantize_blocks). */
#include "../arithmetic/float32.h"
#include "op.h"

#define SMALLEST 0x1.fc0002p-122f /* the least float by which 127 can be divided */

static qv_status quantize_blocks_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 2, 0);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *q = qv_out(m, n, 0), *scale = qv_out(m, n, 1);
  if (!x || x->dtype != QV_F32 || q->dtype != QV_S8 || scale->dtype != QV_F32 || x->rank < 1 || q->rank != x->rank + 1 ||
      scale->rank != q->rank)
    return qv_fail_operands(m, n, "float32 in; int8 and float32 of one more dim out");
  int last = x->rank;
  int64_t depth = x->shape[last - 1], blocks = q->shape[last - 1], length = q->shape[last];
  int wrong = scale->shape[last - 1] != q->shape[last - 1] || scale->shape[last] != 1 || depth > blocks * length;
  for (int k = 0; k < last - 1; k++) wrong |= q->shape[k] != x->shape[k] || scale->shape[k] != x->shape[k];
  if (wrong) return qv_fail_operands(m, n, "(..., K) in, (..., B, L) and (..., B, 1) out, where B blocks of L hold K elements or more");
  return QV_OK;
}

/* Quantizes the `count` elements of a block of `length`, and returns its scale. */
static float quantize_block(const float *x, int64_t count, int64_t length, int8_t *q) {
  float largest = 0.0f;
  for (int64_t k = 0; k < count; k++) {
    float size = x[k] < 0.0f ? -x[k] : x[k];
    if (size > largest) largest = size; /* not true for a NaN */
  }
  float divisor = largest < SMALLEST ? SMALLEST : largest, steps = 127.0f / divisor;
  for (int64_t k = 0; k < count; k++) {
    float v = x[k] * steps;
    q[k] = v == v ? (int8_t)qv_round_f32(v) : 0;
  }
  for (int64_t k = count; k < length; k++) q[k] = 0;
  return largest / 127.0f;
}

static qv_status quantize_blocks_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *q = qv_out(s->model, n, 0);
  const float *from = qv_data(s, x);
  int8_t *to = qv_data(s, q);
  float *scale = qv_data(s, qv_out(s->model, n, 1));
  int64_t depth = x->shape[x->rank - 1], blocks = q->shape[x->rank - 1], length = q->shape[x->rank];
  for (int64_t row = 0; row < x->elements / depth; row++)
    for (int64_t b = 0; b < blocks; b++) {
      int64_t first = b * length, left = depth > first ? depth - first : 0;
      scale[row * blocks + b] =
          quantize_block(from + row * depth + (left ? first : 0), left < length ? left : length, length, to + (row * blocks + b) * length);
    }
  return QV_OK;
}

const qv_op qv_op_quantize_blocks = {"quantize_blocks", quantize_blocks_check, NULL, quantize_blocks_run};
