/* qvrt model_info: inputs, outputs, shapes, strides, quantization and memory of a model.bin. */
#include <stdio.h>

#include "../loaded.h"
#include "options.h"

static const char *const DTYPE[] = {"", "F32", "U8", "S8", "U16", "S16", "S32", "S64", "F64", "BOOL"};
static const char *const LAYOUT[] = {"NONE", "NCHW", "NHWC", "NCW", "NC"};

static void dims(const char *label, const int32_t *shape, int rank) {
  printf("%s: (", label);
  for (int i = 0; i < rank; i++) printf("%d,", shape[i]);
  printf(")\n");
}

static void tensor(const char *kind, int index, const qv_tensor *t) {
  printf("\n%s[%d]: \nname: %s\n", kind, index, t->name);
  dims("valid shape", t->shape, t->rank);
  dims("aligned shape", t->aligned, t->rank);
  printf("aligned byte size: %ld\ntensor type: %s\ntensor layout: %s\nquanti type: %s\nstride: (", (long)t->aligned_bytes, DTYPE[t->dtype], LAYOUT[t->layout], t->n_scales ? "SCALE" : "NONE");
  for (int i = 0; i < t->rank; i++) printf("%ld,", (long)t->stride[i]);
  printf(")\n");
  if (!t->n_scales) return;
  printf("scale data: ");
  for (int i = 0; i < t->n_scales; i++) printf("%s%.9g", i ? "," : "", (double)t->scale[i]);
  printf("\nzero point: ");
  for (int i = 0; i < t->n_scales; i++) printf("%s%d", i ? "," : "", t->zero_point[i]);
  printf("\n");
}

int qv_model_info_main(int argc, char **argv) {
  const char *path = qv_option(argc, argv, "model_file", NULL);
  qv_loaded l;
  if (!path) {
    fprintf(stderr, "qvrt model_info: no model given. Next: --model_file=model.bin\n");
    return 2;
  }
  qv_status status = qv_load_path(&l, path, 0);
  if (status != QV_OK) {
    fprintf(stderr, "qvrt model_info: %s: %s\n", qv_status_phrase(status), l.model.error);
    qv_unload(&l);
    return 2;
  }
  printf("[model]: %s\nnodes: %d\ntensors: %d\nrounding id: %d\narena bytes: %ld\n", path, l.model.n_nodes, l.model.n_tensors, (int)l.model.rounding, (long)l.session.arena_bytes);
  for (int i = 0; i < l.model.n_inputs; i++) tensor("input", i, &l.model.tensors[l.model.inputs[i]]);
  for (int i = 0; i < l.model.n_outputs; i++) tensor("output", i, &l.model.tensors[l.model.outputs[i]]);
  qv_unload(&l);
  return 0;
}
