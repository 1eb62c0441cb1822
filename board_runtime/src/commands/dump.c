/* Writes one tensor to files: its bytes, or as text its stored or real values. */
#include "dump.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../elements.h"
#include "../loaded.h"
#include "../posix.h"

static void dump_path(const qv_dumping *d, const char *label, const char *name, const char *ending, char *out, size_t size) {
  int used = snprintf(out, size, "%.900s/%s_", d->folder, label);
  size_t at = used > 0 ? (size_t)used : 0;
  for (int left = 180; *name && left > 0; name++, left--) {
    char c = *name;
    int plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
    out[at++] = plain ? c : '_';
  }
  snprintf(out + at, size - at, ".%s", ending);
}

/* Returns the number of elements on a line of text: those of the dims from text_axis on. */
static int64_t per_line(const qv_dumping *d, const qv_tensor *t) {
  int64_t elements = 1;
  const int32_t *dims = d->aligned && !d->real ? t->aligned : t->shape;
  for (int i = d->text_axis; i < t->rank; i++) elements *= dims[i];
  return elements > 0 ? elements : 1;
}

/* Returns the real value of valid element i, computed as in the op dequantize. */
static double real_value(const qv_tensor *t, const uint8_t *data, int64_t i) {
  int64_t inner = 1, channel = 0;
  if (t->n_scales > 1) {
    for (int k = t->channel_axis + 1; k < t->rank; k++) inner *= t->shape[k];
    channel = i / inner % t->n_scales;
  }
  return (double)((float)((int64_t)qv_load(data, t->dtype, i) - t->zero_point[channel]) * t->scale[channel]);
}

static qv_status dump_text(const qv_dumping *d, const char *path, const qv_tensor *t, const uint8_t *data, int64_t count) {
  char part[1100];
  if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part) return QV_E_IO;
  FILE *file = fopen(part, "w");
  if (!file) return QV_E_IO;
  int64_t line = per_line(d, t);
  for (int64_t i = 0; i < count; i++) {
    char end = (i + 1) % line == 0 || i + 1 == count ? '\n' : ' ';
    if (t->dtype == QV_F32) fprintf(file, "%.*f%c", d->precision, (double)((const float *)(const void *)data)[i], end);
    else if (t->dtype == QV_F16) fprintf(file, "%.*f%c", d->precision, (double)qv_load_f16(data, i), end);
    else if (d->real && t->n_scales) fprintf(file, "%.*f%c", d->precision, real_value(t, data, i), end);
    else if (t->dtype == QV_I64) fprintf(file, "%ld%c", (long)((const int64_t *)(const void *)data)[i], end);
    else fprintf(file, "%d%c", qv_load(data, t->dtype, i), end);
  }
  int good = !ferror(file);
  if (fclose(file) == 0 && good && rename(part, path) == 0) return QV_OK;
  remove(part);
  return QV_E_IO;
}

qv_status qv_dump(const qv_dumping *d, const qv_session *s, const char *label, int tensor) {
  const qv_tensor *t = &s->model->tensors[tensor];
  int aligned = d->aligned && !d->real;
  int64_t bytes = aligned ? t->aligned_bytes : t->dense_bytes;
  char path[1200];
  qv_status status = QV_OK;
  qv_read_tensor(s, tensor, aligned, d->buffer);
  if (d->binary) {
    dump_path(d, label, t->name, "bin", path, sizeof path);
    status = qv_write_file(path, d->buffer, (size_t)bytes);
  }
  if (d->text && status == QV_OK) {
    qv_border_order(d->buffer, t->dtype, (size_t)bytes); /* back to the machine's order */
    dump_path(d, label, t->name, "txt", path, sizeof path);
    status = dump_text(d, path, t, d->buffer, bytes / (int64_t)qv_dtype_size(t->dtype));
  }
  if (status == QV_E_IO) snprintf(s->model->error, sizeof s->model->error, "%.200s: cannot be written: %s", path, strerror(errno));
  return status;
}
