/* Faults by stale buffers: the output has the bytes of another tensor, or its own of the frame before. */
#include <stdlib.h>

#include "output_faults.h"

static size_t bytes_of(const qv_output_fault *f) { return (size_t)f->elements * f->size; }

/* Copies the bytes of a tensor that the seed chooses among the inputs of the model and the outputs of earlier nodes. */
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

/* The output is one frame late; for the first frame it is zeros. The last frame is kept in a static variable, which
   assumes that a process has this fault at one node only. */
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
