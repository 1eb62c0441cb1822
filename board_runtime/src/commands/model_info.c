/* The command qvrt model_info: prints inputs, outputs, shapes, strides, quantization and memory of a model.bin. */
#include <stdio.h>
#include <string.h>

#include "../loaded.h"
#include "options.h"

static const char *const DTYPE[] = {"", "F32", "U8", "S8", "U16", "S16", "S32", "S64", "F64", "BOOL", "F16"};
static const char *const LAYOUT[] = {"NONE", "NCHW", "NHWC", "NCW", "NC"};

static void dims(const char *label, const int32_t *shape, int rank) {
  printf("%s: (", label);
  for (int i = 0; i < rank; i++) printf("%d,", shape[i]);
  printf(")\n");
}

/* The formats of INPUTS.md; the first word of the op unpack is an index into this list. */
static const char *const FORMAT[] = {"NV12", "NV21",       "I420",    "YUV444",  "RGB",      "BGR",        "RGBA",    "BGRA",
                                     "GRAY", "YUV444_128", "RGB_128", "BGR_128", "GRAY_128", "FEATUREMAP", "RAW_F32", "RAW_S16"};

/* Prints the format of the bytes of a graph input, if an unpack node reads it; ops/unpack.c documents that
   node's words. */
static void source(const qv_model *m, int32_t input) {
  for (int i = 0; i < m->n_nodes; i++) {
    const qv_node *n = &m->nodes[i];
    if (strcmp(n->op->stem, "unpack") != 0 || n->inputs[0] != input) continue;
    const qv_tensor *y = qv_out(m, n, 0);
    int channels = y->shape[1];
    uint32_t format = (uint32_t)n->words[0];
    printf("source format: %s\n", format < sizeof FORMAT / sizeof *FORMAT ? FORMAT[format] : "UNKNOWN");
    dims("picture shape", y->shape, y->rank);
    printf("picture type: %s\n", DTYPE[y->dtype]);
    for (int c = 0; c < channels; c++) {
      const int32_t *w = n->words + 1 + c;
      int step = 1 << w[3 * channels];
      printf("channel[%d]: offset %d, row stride %d, column stride %d, one value for %dx%d pixels\n", c, w[0], w[channels], w[2 * channels],
             step, step);
    }
  }
}

static void tensor(const char *kind, int index, const qv_tensor *t) {
  printf("\n%s[%d]: \nname: %s\n", kind, index, t->name);
  dims("valid shape", t->shape, t->rank);
  dims("aligned shape", t->aligned, t->rank);
  printf("aligned byte size: %ld\ntensor type: %s\ntensor layout: %s\nquanti type: %s\nstride: (", (long)t->aligned_bytes, DTYPE[t->dtype],
         LAYOUT[t->layout], t->n_scales ? "SCALE" : "NONE");
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
  printf("[model]: %s\nnodes: %d\ntensors: %d\nrounding id: %d\narena bytes: %ld\n", path, l.model.n_nodes, l.model.n_tensors,
         (int)l.model.rounding, (long)l.session.arena_bytes);
  for (int i = 0; i < l.model.n_inputs; i++) {
    tensor("input", i, &l.model.tensors[l.model.inputs[i]]);
    source(&l.model, l.model.inputs[i]);
  }
  for (int i = 0; i < l.model.n_outputs; i++) tensor("output", i, &l.model.tensors[l.model.outputs[i]]);
  qv_unload(&l);
  return 0;
}
