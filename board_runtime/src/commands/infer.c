/* The command qvrt infer: runs a model on raw input files and dumps its outputs and nodes as bin or txt,
   aligned or valid. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../loaded.h"
#include "../posix.h"
#include "dump.h"
#include "options.h"

typedef struct {
  qv_dumping dump;
  int nodes, digests;
  qv_status status;
} watching;

static int on_node(void *user, const qv_session *s, int index, uint64_t elapsed_ns) {
  watching *w = user;
  const qv_node *n = &s->model->nodes[index];
  for (int i = 0; i < n->n_outputs && w->status == QV_OK; i++) {
    const qv_tensor *t = &s->model->tensors[n->outputs[i]];
    if (t->flags & QV_INTERIOR) continue;
    if (w->digests)
      printf("%016llx %s %llu\n", (unsigned long long)qv_tensor_digest(s, n->outputs[i]), t->name, (unsigned long long)elapsed_ns);
    char label[40];
    snprintf(label, sizeof label, n->n_outputs > 1 ? "node_%d.%d" : "node_%d", index, i);
    if (w->nodes) w->status = qv_dump(&w->dump, s, label, n->outputs[i]);
  }
  return w->status != QV_OK;
}

/* Reads the options of dumps. Returns 0, after a message on stderr, if one is wrong or two cannot be combined;
   otherwise 1. */
static int take_dumps(int argc, char **argv, watching *w, int *real) {
  const char *format = qv_option(argc, argv, "dump_format", "bin"), *folder = qv_option(argc, argv, "dump_dir", ".");
  long level, precision, axis;
  if (!qv_number(argc, argv, "dump_intermediate", 0, 0, 3, &level) || !qv_number(argc, argv, "dump_precision", 9, 0, 17, &precision) ||
      !qv_number(argc, argv, "dump_txt_axis", QV_MAX_RANK, 0, QV_MAX_RANK, &axis))
    return 0;
  int text = strcmp(format, "txt") == 0;
  if (!text && strcmp(format, "bin") != 0) {
    fprintf(stderr, "qvrt infer: --dump_format=%.20s: wanted bin or txt\n", format);
    return 0;
  }
  *real = qv_flag(argc, argv, "hybrid_dequantize_process");
  if (*real && !(text && qv_flag(argc, argv, "enable_dump"))) {
    fprintf(stderr, "qvrt infer: --hybrid_dequantize_process: wanted --enable_dump=true and --dump_format=txt beside it\n");
    return 0;
  }
  w->dump.folder = qv_option(argc, argv, "dump_path", folder);
  w->dump.precision = (int)precision;
  w->dump.text_axis = (int)axis;
  w->dump.aligned = !(qv_flag(argc, argv, "remove_padding_process") || level == 3);
  w->dump.binary = !text || level > 0;
  w->dump.text = text || level > 1;
  w->nodes = level > 0;
  w->digests = qv_flag(argc, argv, "digests");
  return 1;
}

/* Reads --roi and --roi_infer, which are only valid together. Returns 0, after a message on stderr, if
   only one is there. */
static int take_roi(int argc, char **argv, const char **roi) {
  *roi = qv_option(argc, argv, "roi", NULL);
  if ((*roi != NULL) == qv_flag(argc, argv, "roi_infer")) return 1;
  fprintf(stderr, "qvrt infer: %s\n",
          *roi ? "--roi: wanted --roi_infer=true beside it" : "--roi_infer: wanted --roi=left,top,right,bottom[;...] beside it");
  return 0;
}

static qv_status run_frames(qv_loaded *l, watching *w, long frames, const char *inputs, const char *roi, uint64_t *total) {
  qv_run_hooks hooks = {on_node, w, qv_now_ns};
  qv_status status = QV_OK;
  for (long i = 0; i < frames && status == QV_OK; i++) {
    status = qv_feed(l, inputs, roi);
    uint64_t start = qv_now_ns();
    if (status == QV_OK) status = qv_run(&l->session, &hooks);
    *total += qv_now_ns() - start;
  }
  return status == QV_E_CANCELLED ? w->status : status;
}

int qv_infer_main(int argc, char **argv) {
  const char *path = qv_option(argc, argv, "model_file", NULL), *inputs = qv_option(argc, argv, "input_file", NULL), *roi = NULL;
  long frames;
  int real = 0;
  watching w = {.status = QV_OK};
  if (!qv_number(argc, argv, "frame_count", 1, 1, 1000000, &frames) || !take_dumps(argc, argv, &w, &real) || !take_roi(argc, argv, &roi) ||
      !qv_take_core(argc, argv) || !qv_take_instructions(argc, argv) || !qv_take_threads(argc, argv))
    return 2;
  if (!path || !inputs) {
    fprintf(
        stderr,
        "qvrt infer: wanted --model_file=model.bin --input_file=a.bin[,b.bin] [--enable_dump] [--dump_format=bin|txt] [--dump_intermediate=0..3] [--frame_count=N]\n");
    return 2;
  }
  qv_loaded l;
  qv_status status = qv_load_path(&l, path, 0);
  l.session.plain_only = qv_flag(argc, argv, "plain");
  int64_t largest = 1;
  for (int i = 0; status == QV_OK && i < l.model.n_tensors; i++)
    if (l.model.tensors[i].aligned_bytes > largest) largest = l.model.tensors[i].aligned_bytes;
  w.dump.buffer = status == QV_OK ? qv_aligned_alloc((size_t)largest) : NULL;
  if (status == QV_OK && !w.dump.buffer) status = QV_E_MEMORY;
  uint64_t total = 0;
  int loaded = status == QV_OK;
  if (loaded) status = run_frames(&l, &w, frames, inputs, roi, &total);
  w.dump.real = real; /* real values for the outputs only, not for the nodes before */
  if (real) w.dump.binary = 0;
  for (int i = 0; status == QV_OK && qv_flag(argc, argv, "enable_dump") && i < l.model.n_outputs; i++) {
    char label[40];
    snprintf(label, sizeof label, "model_infer_output_%d", i);
    status = qv_dump(&w.dump, &l.session, label, l.model.outputs[i]);
  }
  if (status == QV_OK) printf("infer success\nInfer time: %.3f ms\n", (double)total / 1e6 / (double)frames);
  else fprintf(stderr, "qvrt infer: %s: %s\n", qv_status_phrase(status), l.model.error);
  free(w.dump.buffer);
  qv_unload(&l);
  return status == QV_OK ? 0 : loaded && status != QV_E_INPUT ? 3 : 2;
}
