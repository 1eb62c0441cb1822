/* Sets the inputs of qvrt infer from raw files, and the parts of the image that resizer nodes take from --roi. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../loaded.h"
#include "../posix.h"
#include "options.h"

/* Returns whether a graph input is the second input of a resizer: the part (x, y, width, height) of the image
   that it takes. */
static int is_part(const qv_model *m, int32_t input) {
  for (int i = 0; i < m->n_nodes; i++) {
    const qv_node *n = &m->nodes[i];
    if (strcmp(n->op->stem, "resizer") == 0 && n->n_inputs == 2 && n->inputs[1] == input) return 1;
  }
  return 0;
}

/* Sets an input from the next "left,top,right,bottom" of a list separated by ";", and advances *roi after it. The
   column `right` and the row `bottom` belong to the part. */
static qv_status feed_part(qv_loaded *l, int32_t input, const char **roi) {
  long at[4];
  const char *text = *roi;
  for (int i = 0; i < 4; i++) {
    char *end = NULL;
    at[i] = strtol(text, &end, 10);
    int good = end != text && at[i] >= 0 && at[i] < 1 << 20 && (i == 3 ? *end == 0 || *end == ';' : *end == ',');
    if (!good) {
      snprintf(l->model.error, sizeof l->model.error, "--roi: %.60s: wanted left,top,right,bottom for input %.60s", *roi,
               l->model.tensors[input].name);
      return QV_E_INPUT;
    }
    text = end + (*end != 0);
  }
  *roi = text;
  long part[4] = {at[0], at[1], at[2] - at[0] + 1, at[3] - at[1] + 1};
  if (part[2] < 1 || part[3] < 1) {
    snprintf(l->model.error, sizeof l->model.error, "--roi: %ld,%ld,%ld,%ld is empty: wanted left,top,right,bottom", at[0], at[1], at[2],
             at[3]);
    return QV_E_INPUT;
  }
  uint8_t bytes[16];
  for (int i = 0; i < 16; i++) bytes[i] = (uint8_t)((unsigned long)part[i / 4] >> (i % 4 * 8));
  return qv_set_input(&l->session, input, bytes, sizeof bytes);
}

/* Sets an input from the next file of a list separated by commas, and advances *list after it. */
static qv_status feed_file(qv_loaded *l, int number, int32_t input, const char **list) {
  const qv_tensor *t = &l->model.tensors[input];
  char path[1024];
  size_t length = strcspn(*list, ",");
  if (length == 0 || length >= sizeof path) {
    snprintf(l->model.error, sizeof l->model.error, "no file for input %d (%.100s); give %d files in --input_file", number, t->name,
             l->model.n_inputs);
    return QV_E_INPUT;
  }
  memcpy(path, *list, length);
  path[length] = 0;
  *list += length + ((*list)[length] == ',');
  uint8_t *data = NULL;
  size_t bytes = 0;
  errno = 0;
  qv_status status = qv_read_file(path, &data, &bytes);
  if (status == QV_E_IO) {
    snprintf(l->model.error, sizeof l->model.error, "%.120s: cannot be read: %s", path, errno ? strerror(errno) : "not a regular file");
    return QV_E_INPUT;
  }
  if (status == QV_OK) status = qv_set_input(&l->session, input, data, (int64_t)bytes);
  free(data);
  if (status == QV_OK) return status;
  snprintf(l->model.error, sizeof l->model.error, "%.80s: %lu bytes for input %.60s, wanted %ld", path, (unsigned long)bytes, t->name,
           (long)t->aligned_bytes);
  return QV_E_INPUT;
}

qv_status qv_feed(qv_loaded *l, const char *files, const char *roi) {
  qv_status status = QV_OK;
  int parts = 0;
  for (int i = 0; i < l->model.n_inputs && status == QV_OK; i++) {
    int32_t input = l->model.inputs[i];
    int part = roi && is_part(&l->model, input);
    parts += part;
    status = part ? feed_part(l, input, &roi) : feed_file(l, i, input, &files);
  }
  if (status != QV_OK) return status;
  if (roi && !parts) snprintf(l->model.error, sizeof l->model.error, "--roi: the model has no resizer input");
  else if (roi && *roi) snprintf(l->model.error, sizeof l->model.error, "--roi: more parts than the %d resizer inputs: %.60s", parts, roi);
  else if (*files)
    snprintf(l->model.error, sizeof l->model.error, "more files than the %d inputs: %.150s", l->model.n_inputs - parts, files);
  else return QV_OK;
  return QV_E_INPUT;
}
