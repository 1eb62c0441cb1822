/* qvrt infer: one inference from raw input files; outputs and nodes dumped as bin or txt, aligned or valid. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../loaded.h"
#include "../elements.h"
#include "../posix.h"
#include "options.h"

typedef struct {
  const char *folder;
  int aligned, text, binary, precision, nodes, digests;
  uint8_t *buffer;
  qv_status status;
} dumping;

/* DIR/LABEL_NAME.ENDING; the label is unlike any other, the name is cut at 180 bytes, what is not a letter, digit, - or . is _. */
static void dump_path(const dumping *d, const char *label, const char *name, const char *ending, char *out, size_t size) {
  int used = snprintf(out, size, "%.900s/%s_", d->folder, label);
  size_t at = used > 0 ? (size_t)used : 0;
  for (int left = 180; *name && left > 0; name++, left--) {
    char c = *name;
    int plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
    out[at++] = plain ? c : '_';
  }
  snprintf(out + at, size - at, ".%s", ending);
}

static qv_status dump_text(const dumping *d, const char *path, const qv_tensor *t, const uint8_t *data, int64_t count) {
  char part[1100];
  if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part) return QV_E_IO;
  FILE *file = fopen(part, "w");
  if (!file) return QV_E_IO;
  for (int64_t i = 0; i < count; i++) {
    if (t->dtype == QV_F32) fprintf(file, "%.*f\n", d->precision, (double)((const float *)(const void *)data)[i]);
    else if (t->dtype == QV_I64) fprintf(file, "%ld\n", (long)((const int64_t *)(const void *)data)[i]);
    else fprintf(file, "%d\n", qv_load(data, t->dtype, i));
  }
  int good = !ferror(file);
  if (fclose(file) == 0 && good && rename(part, path) == 0) return QV_OK;
  remove(part);
  return QV_E_IO;
}

static qv_status dump(const dumping *d, const qv_session *s, const char *label, int tensor) {
  const qv_tensor *t = &s->model->tensors[tensor];
  int64_t bytes = d->aligned ? t->aligned_bytes : t->dense_bytes;
  char path[1200];
  qv_status status = QV_OK;
  qv_read_tensor(s, tensor, d->aligned, d->buffer);
  if (d->binary) {
    dump_path(d, label, t->name, "bin", path, sizeof path);
    status = qv_write_file(path, d->buffer, (size_t)bytes);
  }
  if (d->text && status == QV_OK) {
    qv_border_order(d->buffer, t->dtype, (size_t)bytes); /* to be read as values */
    dump_path(d, label, t->name, "txt", path, sizeof path);
    status = dump_text(d, path, t, d->buffer, bytes / (int64_t)qv_dtype_size(t->dtype));
  }
  if (status == QV_E_IO) snprintf(s->model->error, sizeof s->model->error, "%.200s: cannot be written: %s", path, strerror(errno));
  return status;
}

static int on_node(void *user, const qv_session *s, int index, uint64_t elapsed_ns) {
  dumping *d = user;
  const qv_node *n = &s->model->nodes[index];
  for (int i = 0; i < n->n_outputs && d->status == QV_OK; i++) {
    const qv_tensor *t = &s->model->tensors[n->outputs[i]];
    if (t->flags & QV_INTERIOR) continue;
    if (d->digests)
      printf("%016llx %s %llu\n", (unsigned long long)qv_tensor_digest(s, n->outputs[i]), t->name, (unsigned long long)elapsed_ns);
    char label[40];
    snprintf(label, sizeof label, n->n_outputs > 1 ? "node_%d.%d" : "node_%d", index, i);
    if (d->nodes) d->status = dump(d, s, label, n->outputs[i]);
  }
  return d->status != QV_OK;
}

/* Feeds the comma list of raw files; QV_E_INPUT with the line in model.error. */
static qv_status feed(qv_loaded *l, const char *list) {
  char path[1024];
  for (int i = 0; i < l->model.n_inputs; i++) {
    const qv_tensor *t = &l->model.tensors[l->model.inputs[i]];
    size_t length = strcspn(list, ",");
    if (length == 0 || length >= sizeof path) {
      snprintf(l->model.error, sizeof l->model.error, "no file for input %d (%.100s); give %d files in --input_file", i, t->name,
               l->model.n_inputs);
      return QV_E_INPUT;
    }
    memcpy(path, list, length);
    path[length] = 0;
    list += length + (list[length] == ',');
    uint8_t *data = NULL;
    size_t bytes = 0;
    errno = 0;
    qv_status status = qv_read_file(path, &data, &bytes);
    if (status == QV_E_IO) {
      snprintf(l->model.error, sizeof l->model.error, "%.120s: cannot be read: %s", path, errno ? strerror(errno) : "not a regular file");
      return QV_E_INPUT;
    }
    if (status == QV_OK) status = qv_set_input(&l->session, l->model.inputs[i], data, (int64_t)bytes);
    free(data);
    if (status != QV_OK) {
      snprintf(l->model.error, sizeof l->model.error, "%.80s: %lu bytes for input %.60s, wanted %ld", path, (unsigned long)bytes, t->name,
               (long)t->aligned_bytes);
      return QV_E_INPUT;
    }
  }
  if (*list) {
    snprintf(l->model.error, sizeof l->model.error, "more files than the %d inputs: %.150s", l->model.n_inputs, list);
    return QV_E_INPUT;
  }
  return QV_OK;
}

int qv_infer_main(int argc, char **argv) {
  const char *path = qv_option(argc, argv, "model_file", NULL), *inputs = qv_option(argc, argv, "input_file", NULL);
  const char *format = qv_option(argc, argv, "dump_format", "bin");
  long level, frames, precision;
  if (!qv_number(argc, argv, "dump_intermediate", 0, 0, 3, &level) || !qv_number(argc, argv, "frame_count", 1, 1, 1000000, &frames) ||
      !qv_number(argc, argv, "dump_precision", 9, 0, 17, &precision) || !qv_take_instructions(argc, argv) || !qv_take_threads(argc, argv))
    return 2;
  if (!path || !inputs || (strcmp(format, "bin") != 0 && strcmp(format, "txt") != 0)) {
    fprintf(
        stderr,
        "qvrt infer: wanted --model_file=model.bin --input_file=a.bin[,b.bin] [--enable_dump] [--dump_format=bin|txt] [--dump_intermediate=0..3] [--frame_count=N]\n");
    return 2;
  }
  qv_loaded l;
  dumping d = {
      .folder = qv_option(argc, argv, "dump_path", "."), .nodes = level > 0, .digests = qv_flag(argc, argv, "digests"), .status = QV_OK};
  d.precision = (int)precision;
  d.aligned = !(qv_flag(argc, argv, "remove_padding_process") || level == 3);
  d.binary = strcmp(format, "bin") == 0 || level > 0;
  d.text = strcmp(format, "txt") == 0 || level > 1;
  qv_status status = qv_load_path(&l, path, 0);
  l.session.plain_only = qv_flag(argc, argv, "plain");
  int64_t largest = 1;
  for (int i = 0; status == QV_OK && i < l.model.n_tensors; i++)
    if (l.model.tensors[i].aligned_bytes > largest) largest = l.model.tensors[i].aligned_bytes;
  d.buffer = status == QV_OK ? qv_aligned_alloc((size_t)largest) : NULL;
  if (status == QV_OK && !d.buffer) status = QV_E_MEMORY;
  qv_run_hooks hooks = {on_node, &d, qv_now_ns};
  uint64_t total = 0;
  int loaded = status == QV_OK;
  for (long i = 0; i < frames && status == QV_OK; i++) {
    status = feed(&l, inputs);
    uint64_t start = qv_now_ns();
    if (status == QV_OK) status = qv_run(&l.session, &hooks);
    total += qv_now_ns() - start;
  }
  if (status == QV_E_CANCELLED) status = d.status;
  for (int i = 0; status == QV_OK && qv_flag(argc, argv, "enable_dump") && i < l.model.n_outputs; i++) {
    char label[40];
    snprintf(label, sizeof label, "model_infer_output_%d", i);
    status = dump(&d, &l.session, label, l.model.outputs[i]);
  }
  if (status == QV_OK) printf("infer success\nInfer time: %.3f ms\n", (double)total / 1e6 / (double)frames);
  else fprintf(stderr, "qvrt infer: %s: %s\n", qv_status_phrase(status), l.model.error);
  free(d.buffer);
  qv_unload(&l);
  return status == QV_OK ? 0 : loaded && status != QV_E_INPUT ? 3 : 2;
}
