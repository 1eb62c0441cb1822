/* Creates, runs and frees a private copy of one node. */
#include "shadow.h"

#include <stdlib.h>

static const qv_roles roles[] = {
    {"conv", 3, 11, 1, 2, 0},           {"conv_transpose", 3, 11, 1, 2, 0}, {"fully_connected", 3, 0, 1, 2, -1},
    {"matmul", 2, 0, -1, -1, -1},       {"mul", 2, 0, -1, -1, -1},          {"global_average_pool", 1, 0, -1, -1, -1},
    {"add", -1, 1, -1, -1, -1},         {"average_pool", -1, 9, -1, -1, 0}, {"max_pool", -1, -1, -1, -1, 0},
    {"reduce_mean", -1, 1, -1, -1, -1}, {NULL, -1, -1, -1, -1, -1},
};

const qv_roles *qv_roles_of(const qv_node *n) {
  const qv_roles *r = roles;
  while (r->op && strcmp(r->op, n->op_name) != 0) r++;
  return r;
}

static void *copied(const void *from, int64_t bytes) {
  void *to = malloc((size_t)bytes + 64);
  if (to) memcpy(to, from, (size_t)bytes);
  return to;
}

/* Copies a tensor. Until the run, tensors that are not constants are represented as constants, too, so that every
   operand has bytes of its own. */
static int copy_tensor(qv_tensor *to, const qv_session *s, const qv_tensor *from) {
  *to = *from;
  to->constant = copied(qv_data(s, from), from->dense_bytes);
  if (from->n_scales) {
    to->scale = copied(from->scale, from->n_scales * 4);
    to->zero_point = copied(from->zero_point, from->n_scales * 4);
  }
  return to->constant && (!from->n_scales || (to->scale && to->zero_point));
}

qv_shadow *qv_shadow_open(const qv_session *s, const qv_node *n, uint64_t seed) {
  qv_shadow *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  w->seed = seed;
  w->model = *s->model;
  w->model.tensors = w->tensors;
  w->model.n_tensors = n->n_inputs + n->n_outputs;
  w->node = *n;
  w->node.scratch_bytes = w->node.prepared_bytes = 0;
  w->node.inputs = w->ends;
  w->node.outputs = w->ends + n->n_inputs;
  w->node.words = w->words;
  memcpy(w->words, n->words, (size_t)n->n_words * sizeof *w->words);
  for (int i = 0; i < w->model.n_tensors; i++) {
    int32_t at = i < n->n_inputs ? n->inputs[i] : n->outputs[i - n->n_inputs];
    w->ends[i] = at < 0 ? QV_NO_TENSOR : i;
    if (at >= 0 && !copy_tensor(&w->tensors[i], s, &s->model->tensors[at])) {
      qv_shadow_close(w);
      return NULL;
    }
  }
  return w;
}

void qv_shadow_close(qv_shadow *w) {
  for (int i = 0; i < w->model.n_tensors; i++) {
    free((void *)(uintptr_t)w->tensors[i].constant);
    if (w->tensors[i].n_scales) {
      free((void *)(uintptr_t)w->tensors[i].scale);
      free((void *)(uintptr_t)w->tensors[i].zero_point);
    }
  }
  free(w->session.arena);
  free(w);
}

/* Moves a tensor that is not a constant to the arena before the run, because an op may check whether a tensor
   is a constant. */
static void move_stream(qv_shadow *w, qv_tensor *t, int64_t *top) {
  t->arena_offset = *top;
  *top += (t->dense_bytes + 63) / 64 * 64;
  memcpy(w->session.arena + t->arena_offset, t->constant, (size_t)t->dense_bytes);
  free((void *)(uintptr_t)t->constant);
  t->constant = NULL;
}

static qv_status run(qv_shadow *w, const qv_session *s, const qv_node *n) {
  int64_t need = w->node.scratch_bytes + w->node.prepared_bytes + 256, top = 0;
  for (int i = 0; i < w->model.n_tensors; i++) need += w->tensors[i].dense_bytes + 64;
  w->session = *s;
  w->session.model = &w->model;
  w->session.arena = calloc(1, (size_t)need + 64);
  if (!w->session.arena) return QV_E_MEMORY;
  for (int i = 0; i < w->model.n_tensors; i++)
    if (w->ends[i] >= 0 && !(w->tensors[i].flags & QV_CONSTANT)) move_stream(w, &w->tensors[i], &top);
  w->node.prepared_offset = top;
  w->node.scratch_offset = top + (w->node.prepared_bytes + 63) / 64 * 64;
  qv_status status = n->op->prepare ? n->op->prepare(&w->session, &w->node) : QV_OK;
  return status == QV_OK ? qv_run_kernel(&w->session, &w->node) : status;
}

qv_why qv_shadow_run(qv_shadow *w, const qv_session *s, const qv_node *n) {
  if (w->node.op->check(&w->model, &w->node) != QV_OK) return "the changed node would not load";
  if (run(w, s, &w->node) != QV_OK) return "the changed node would not run";
  for (int i = 0; i < n->n_outputs; i++) {
    const qv_tensor *made = qv_out(&w->model, &w->node, i), *own = qv_out(s->model, n, i);
    memcpy(qv_data(s, own), qv_data(&w->session, made), (size_t)own->dense_bytes);
  }
  return NULL;
}

qv_tensor *qv_shadow_in(qv_shadow *w, int i) { return i < 0 || i >= w->node.n_inputs || w->ends[i] < 0 ? NULL : &w->tensors[i]; }
qv_tensor *qv_shadow_out(qv_shadow *w) { return &w->tensors[w->node.n_inputs]; }
void *qv_shadow_bytes(const qv_tensor *t) { return (void *)(uintptr_t)t->constant; }
int32_t *qv_shadow_zero(const qv_tensor *t) { return (int32_t *)(uintptr_t)t->zero_point; }

void *qv_shadow_replace(qv_tensor *t, int32_t dtype, int32_t rows, int32_t columns) {
  int64_t elements = (int64_t)(rows ? rows : 1) * columns, bytes = elements * (int64_t)qv_dtype_size(dtype);
  free((void *)(uintptr_t)t->constant);
  t->constant = calloc(1, (size_t)bytes + 64);
  t->dtype = dtype;
  t->rank = rows ? 2 : 1;
  t->shape[0] = rows ? rows : columns;
  t->shape[1] = columns;
  t->elements = elements;
  t->dense_bytes = t->aligned_bytes = bytes;
  return qv_shadow_bytes(t);
}
