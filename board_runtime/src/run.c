/* Runs a model: sets inputs, runs the nodes in order, reads tensors. The model was checked at load. */
#include <string.h>

#include "elements.h"
#include "qvrt.h"

qv_status qv_session_open(qv_session *s, qv_model *m, void *arena, int64_t arena_bytes, int keep_all) {
  memset(s, 0, sizeof *s);
  int64_t need = qv_arena_plan(m, keep_all);
  if (need < 0 || need > arena_bytes) return QV_E_MEMORY;
  s->model = m;
  s->arena = arena;
  s->arena_bytes = arena_bytes;
  s->keep_all = keep_all;
  memset(arena, 0, (size_t)need);
  for (int k = 0; k < m->n_nodes; k++) {
    const qv_node *n = &m->nodes[k];
    qv_status status = n->op->prepare ? n->op->prepare(s, n) : QV_OK;
    if (status != QV_OK) return status;
    for (int i = 0; qv_done_with && n->prepared_bytes > 0 && i < n->n_inputs; i++) {
      const qv_tensor *t = n->inputs[i] < 0 ? NULL : &m->tensors[n->inputs[i]];
      if (t && t->constant) qv_done_with(t->constant, (size_t)t->dense_bytes);
    }
  }
  return QV_OK;
}

/* Copies row by row from the aligned layout to the dense buffer, or, if outward is 1, in the other direction. */
static void border(const qv_tensor *t, uint8_t *dense, uint8_t *aligned, int outward) {
  int64_t index[QV_MAX_RANK] = {0}, at = 0;
  int last = t->rank - 1;
  size_t row = t->rank ? (size_t)t->shape[last] * qv_dtype_size(t->dtype) : (size_t)t->dense_bytes;
  for (int64_t done = 0; done < t->dense_bytes; done += (int64_t)row) {
    if (outward) memcpy(aligned + at, dense + done, row);
    else memcpy(dense + done, aligned + at, row);
    for (int k = last - 1; k >= 0; k--) {
      at += t->stride[k];
      if (++index[k] < t->shape[k]) break;
      at -= t->stride[k] * t->shape[k];
      index[k] = 0;
    }
  }
}

/* Sets every bool element that is not 0 to 1: bytes from outside may contain other values for true. */
static void settle_truth(const qv_tensor *t, uint8_t *dense) {
  for (int64_t i = 0; t->dtype == QV_BOOL && i < t->elements; i++) dense[i] = dense[i] != 0;
}

qv_status qv_set_input(qv_session *s, int tensor, const uint8_t *aligned, int64_t bytes) {
  const qv_tensor *t = &s->model->tensors[tensor];
  if (bytes != t->aligned_bytes || t->constant) return QV_E_INPUT;
  border(t, s->arena + t->arena_offset, (uint8_t *)(uintptr_t)aligned, 0);
  qv_border_order(s->arena + t->arena_offset, t->dtype, (size_t)t->dense_bytes);
  settle_truth(t, s->arena + t->arena_offset);
  return QV_OK;
}

qv_status qv_set_dense(qv_session *s, int tensor, const uint8_t *dense, int64_t bytes) {
  const qv_tensor *t = &s->model->tensors[tensor];
  if (bytes != t->dense_bytes || t->constant) return QV_E_INPUT;
  memcpy(s->arena + t->arena_offset, dense, (size_t)bytes);
  qv_border_order(s->arena + t->arena_offset, t->dtype, (size_t)bytes);
  settle_truth(t, s->arena + t->arena_offset);
  return QV_OK;
}

void qv_read_tensor(const qv_session *s, int tensor, int aligned, uint8_t *out) {
  const qv_tensor *t = &s->model->tensors[tensor];
  if (!aligned) {
    memcpy(out, qv_data(s, t), (size_t)t->dense_bytes);
  } else {
    memset(out, 0, (size_t)t->aligned_bytes);
    border(t, qv_data(s, t), out, 1);
  }
  qv_border_order(out, t->dtype, (size_t)(aligned ? t->aligned_bytes : t->dense_bytes));
}

uint64_t qv_tensor_digest(const qv_session *s, int tensor) {
  const qv_tensor *t = &s->model->tensors[tensor];
  size_t bytes = (size_t)t->dense_bytes;
  qv_border_order(qv_data(s, t), t->dtype, bytes);
  uint64_t digest = qv_xxh64(qv_data(s, t), bytes, 0);
  qv_border_order(qv_data(s, t), t->dtype, bytes);
  return digest;
}

qv_status qv_run_node(qv_session *s, int node_index, const qv_run_hooks *hooks) {
  const qv_node *n = &s->model->nodes[node_index];
  uint64_t start = hooks && hooks->now_ns ? hooks->now_ns() : 0;
  qv_status status = qv_run_op(s, n);
  if (status != QV_OK) return status;
  uint64_t elapsed = hooks && hooks->now_ns ? hooks->now_ns() - start : 0;
  if (hooks && hooks->on_node && hooks->on_node(hooks->user, s, node_index, elapsed)) return QV_E_CANCELLED;
  return QV_OK;
}

qv_status qv_run(qv_session *s, const qv_run_hooks *hooks) {
  for (int k = 0; k < s->model->n_nodes; k++) {
    qv_status status = qv_run_node(s, k, hooks);
    if (status != QV_OK) return status;
  }
  return QV_OK;
}
