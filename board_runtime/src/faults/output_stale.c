/* Stale buffers: another tensor's bytes, or this one's of the frame before. */
#include <stdlib.h>

#include "output_faults.h"

static size_t bytes_of(const qv_output_fault *f) { return (size_t)f->elements * f->size; }

/* The seed chooses among the inputs of the model and what nodes before this one made. */
qv_why qv_output_stale_tensor(const qv_output_fault *f) {
  const qv_model *m = f->s->model;
  int node = (int)(f->n - m->nodes), fitting = 0;
  for (int pass = 0, pick = -1; pass < 2; pass++) {
    for (int i = 0, seen = 0; i < m->n_tensors; i++) {
      const qv_tensor *t = &m->tensors[i];
      if (t->constant || t->first_use >= node || t->dense_bytes < (int64_t)bytes_of(f)) continue;
      if (seen++ == pick) memcpy(f->data, qv_data(f->s, t), bytes_of(f));
    }
    for (int i = 0; pass == 0 && i < m->n_tensors; i++)
      fitting += !m->tensors[i].constant && m->tensors[i].first_use < node && m->tensors[i].dense_bytes >= (int64_t)bytes_of(f);
    if (!fitting) return "no earlier tensor is as large";
    pick = (int)(f->seed % (uint64_t)fitting);
  }
  return NULL;
}

/* One frame late; on the first frame nothing has been written. A static: there is one fault of a kind in a process. */
qv_why qv_output_stale_frame(const qv_output_fault *f) {
  static uint8_t *last;
  uint8_t *now = malloc(bytes_of(f));
  if (!now) return "no memory to keep a frame";
  memcpy(now, f->before, bytes_of(f));
  if (last) memcpy(f->data, last, bytes_of(f));
  else memset(f->data, 0, bytes_of(f));
  free(last);
  last = now;
  return NULL;
}
