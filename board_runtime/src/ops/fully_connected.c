/* y = clip(requantize(b + sum (x-zx)(w-zw), S) + zy): x [M,K], w [N,K]. */
#include "op.h"
#include "../arithmetic/dot.h"
#include "blocks.h"

enum { HEAD = 64 }; /* prepared memory: pointer to the kernels (HEAD bytes), then the centred weights */

static qv_status fully_connected_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 4, 1, 2);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *k = qv_in(m, n, 1), *y = qv_out(m, n, 0);
  if (!x || !k || !k->constant || !qv_is_q(x) || !qv_is_q(k) || x->n_scales != 1 || x->rank != 2 || k->rank != 2 || y->rank != 2 ||
      x->shape[1] != k->shape[1] || y->shape[0] != x->shape[0] || y->shape[1] != k->shape[0] || (k->n_scales > 1 && k->channel_axis != 0))
    return qv_fail_operands(m, n, "(N, C) quantized with one scale, constant quantized weights (M, C), scales on axis 0, to (N, M)");
  if ((status = qv_check_bias(m, n, y->shape[1])) != QV_OK) return status;
  if (!qv_is_wide(x, k, y)) {
    n->prepared_bytes = HEAD + k->elements * 2;
    n->scratch_bytes = (int64_t)x->shape[1] * 2;
    qv_fully_connected_blocks_check(m, n);
  }
  return qv_check_scaled(m, n, 3, y->shape[1], 0);
}

static qv_status fully_connected_prepare(const qv_session *s, const qv_node *n) {
  const qv_tensor *k = qv_in(s->model, n, 1);
  if (!n->prepared_bytes) return QV_OK;
  qv_node probe = *n;
  if (qv_fully_connected_blocks_check(s->model, &probe)) {
    qv_fully_connected_blocks_prepare(s, n);
    return QV_OK;
  }
  const qv_dots *dots = qv_chosen_instructions().dots;
  memcpy(qv_prepared(s, n), &dots, sizeof dots);
  int16_t *to = (int16_t *)qv_prepared(s, n) + HEAD / 2;
  for (int64_t o = 0; o < k->shape[0]; o++)
    dots->centre((const uint8_t *)k->constant + o * k->shape[1], k->dtype == QV_S8, qv_zero(k, o), k->shape[1], 1, to + o * k->shape[1]);
  return QV_OK;
}

static int64_t bias_of(const qv_tensor *b, int64_t o) {
  return !b ? 0 : b->dtype == QV_I64 ? ((const int64_t *)b->constant)[o] : ((const int32_t *)b->constant)[o];
}

static void fast(const qv_session *s, const qv_node *n, const qv_requantizer *r) {
  const qv_tensor *x = qv_in(s->model, n, 0), *b = qv_whole_bias(s->model, n), *y = qv_out(s->model, n, 0);
  const qv_dots *dots;
  memcpy(&dots, qv_prepared(s, n), sizeof dots);
  const int16_t *weights = (const int16_t *)qv_prepared(s, n) + HEAD / 2;
  int16_t *centred = qv_scratch(s, n);
  int64_t depth = x->shape[1], outputs = y->shape[1];
  const uint8_t *from = qv_data(s, x);
  for (int64_t i = 0; i < x->shape[0]; i++) {
    dots->centre(from + i * depth, x->dtype == QV_S8, x->zero_point[0], depth, 1, centred);
    for (int64_t o = 0; o < outputs; o++) {
      int32_t acc = (int32_t)(dots->row(centred, weights + o * depth, depth) + (uint32_t)bias_of(b, o));
      qv_store(qv_data(s, y), y->dtype, i * outputs + o, qv_requantize(r, acc, o));
    }
  }
}

static qv_status fully_connected_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *k = qv_in(s->model, n, 1), *b = qv_whole_bias(s->model, n), *y = qv_out(s->model, n, 0);
  int wide = qv_is_wide(x, k, y);
  int64_t depth = x->shape[1], outputs = y->shape[1];
  qv_requantizer r;
  qv_requantizer_of(s, n, 3, 0, wide, &r);
  if (!wide && !s->plain_only) {
    if (qv_blocks_of(s, n)) qv_fully_connected_blocks_run(s, n, &r);
    else fast(s, n, &r);
    return QV_OK;
  }
  const void *from = qv_data(s, x);
  for (int64_t i = 0; i < x->shape[0]; i++)
    for (int64_t o = 0; o < outputs; o++) {
      uint64_t acc = (uint64_t)bias_of(b, o);
      int32_t zero_x = x->zero_point[0], zero_w = qv_zero(k, o);
      for (int64_t p = 0; p < depth; p++)
        acc += (uint64_t)((int64_t)(qv_load(from, x->dtype, i * depth + p) - zero_x) *
                          (qv_load(k->constant, k->dtype, o * depth + p) - zero_w));
      qv_store(qv_data(s, y), y->dtype, i * outputs + o, qv_requantize(&r, wide ? (int64_t)acc : (int32_t)(uint32_t)acc, o));
    }
  return QV_OK;
}

const qv_op qv_op_fully_connected = {"fully_connected", fully_connected_check, fully_connected_prepare, fully_connected_run};
