/* Plans all memory of a model: tensors (first fit over their lifetimes), prepared constants and one scratch area for
   all nodes. */
#include <string.h>

#include "qvrt.h"

static int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/* Sets first_use to the node that computes the tensor (-1 for a graph input), and last_use to the last node that reads
   it (n_nodes for a graph output). */
static void lifetimes(qv_model *m) {
  for (int i = 0; i < m->n_tensors; i++) m->tensors[i].first_use = m->tensors[i].last_use = -1;
  for (int k = 0; k < m->n_nodes; k++) {
    const qv_node *n = &m->nodes[k];
    for (int i = 0; i < n->n_inputs; i++)
      if (n->inputs[i] >= 0) m->tensors[n->inputs[i]].last_use = k;
    for (int i = 0; i < n->n_outputs; i++) m->tensors[n->outputs[i]].first_use = m->tensors[n->outputs[i]].last_use = k;
  }
  for (int i = 0; i < m->n_tensors; i++)
    if (m->tensors[i].flags & QV_OUTPUT) m->tensors[i].last_use = m->n_nodes;
}

/* Returns whether no tensor is computed earlier than one that precedes it in the file. */
static int in_order(const qv_model *m) {
  int latest = -1;
  for (int i = 0; i < m->n_tensors; i++) {
    if (m->tensors[i].constant) continue;
    if (m->tensors[i].first_use < latest) return 0;
    latest = m->tensors[i].first_use;
  }
  return 1;
}

/* Gives tensor number i the lowest offset at which it does not overlap a placed tensor with an overlapping lifetime.
   The placed tensors are a linked list from *head, sorted by offset. forget: 1 if no later tensor has an earlier first
   use; tensors whose last use has passed are then removed from the list. */
static void place(qv_model *m, int i, int *head, int forget) {
  qv_tensor *t = &m->tensors[i];
  int64_t at = 0, size = padded(t->dense_bytes);
  int *link = head;
  while (*link >= 0) {
    const qv_tensor *other = &m->tensors[*link];
    if (forget && other->last_use < t->first_use) {
      *link = other->next_placed;
      continue;
    }
    if (other->arena_offset >= at + size) break;
    int64_t after = other->arena_offset + padded(other->dense_bytes);
    if (other->last_use >= t->first_use && t->last_use >= other->first_use && after > at) at = after;
    link = &m->tensors[*link].next_placed;
  }
  t->arena_offset = at;
  for (link = head; *link >= 0 && m->tensors[*link].arena_offset < at;) link = &m->tensors[*link].next_placed;
  t->next_placed = *link;
  *link = i;
}

int64_t qv_arena_plan(qv_model *m, int keep_all) {
  int64_t top = 0, scratch = 0;
  lifetimes(m);
  int head = -1, forget = in_order(m);
  for (int i = 0; i < m->n_tensors; i++) m->tensors[i].arena_offset = -1;
  for (int i = 0; i < m->n_tensors; i++) {
    qv_tensor *t = &m->tensors[i];
    if (t->constant) continue;
    if (keep_all) t->arena_offset = top;
    else place(m, i, &head, forget);
    int64_t end = t->arena_offset + padded(t->dense_bytes);
    if (end > top) top = end;
  }
  for (int k = 0; k < m->n_nodes; k++) {
    if (m->nodes[k].scratch_bytes < 0 || m->nodes[k].prepared_bytes < 0) return QV_E_MEMORY;
    if (m->nodes[k].scratch_bytes > scratch) scratch = m->nodes[k].scratch_bytes;
    m->nodes[k].prepared_offset = top;
    top += padded(m->nodes[k].prepared_bytes);
    if (top > (int64_t)1 << 40) return QV_E_MEMORY;
  }
  if (scratch > (int64_t)1 << 40) return QV_E_MEMORY;
  for (int k = 0; k < m->n_nodes; k++) m->nodes[k].scratch_offset = top;
  return top + padded(scratch) + 64;
}
