/* Error messages: one line in the model's error field, and a phrase for each status. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "qvrt.h"

qv_status qv_refuse(qv_model *m, qv_status status, const char *format, ...) {
  va_list words;
  va_start(words, format);
  vsnprintf(m->error, sizeof m->error, format, words);
  va_end(words);
  return status;
}

qv_status qv_fail(qv_model *m, const qv_node *n, qv_status status, const char *format, ...) {
  int used = snprintf(m->error, sizeof m->error, "%.100s (%.40s): ", n->name, n->op_name);
  va_list words;
  va_start(words, format);
  if (used > 0 && used < (int)sizeof m->error) vsnprintf(m->error + used, sizeof m->error - (size_t)used, format, words);
  va_end(words);
  return status;
}

typedef struct {
  char *end;
  size_t room;
} line;

static void append(line *to, const char *format, va_list words) {
  int length = vsnprintf(to->end, to->room, format, words);
  size_t used = length < 0 ? 0 : (size_t)length < to->room ? (size_t)length : to->room - 1;
  to->end += used;
  to->room -= used;
}

static void add(line *to, const char *format, ...) {
  va_list words;
  va_start(words, format);
  append(to, format, words);
  va_end(words);
}

static void add_tensor(line *to, const qv_tensor *t) {
  static const char *const DTYPE[] = {"?", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "float64", "bool", "float16"};
  if (!t) {
    add(to, "absent");
    return;
  }
  add(to, "%s%s (", t->constant ? "constant " : "", DTYPE[t->dtype]);
  for (int k = 0; k < t->rank; k++) add(to, k ? ", %d" : "%d", t->shape[k]);
  add(to, ")");
  if (t->n_scales > 1) add(to, " %d scales on axis %d", t->n_scales, t->channel_axis);
}

qv_status qv_fail_operands(qv_model *m, const qv_node *n, const char *format, ...) {
  qv_status status = qv_fail(m, n, QV_E_FORMAT, "wanted ");
  size_t used = strlen(m->error);
  line to = {m->error + used, sizeof m->error - used};
  va_list words;
  va_start(words, format);
  append(&to, format, words);
  va_end(words);
  for (int i = 0; i < n->n_inputs; i++) {
    add(&to, i ? ", " : "; got ");
    add_tensor(&to, qv_in(m, n, i));
  }
  for (int i = 0; i < n->n_outputs; i++) {
    add(&to, i ? ", " : " -> ");
    add_tensor(&to, qv_out(m, n, i));
  }
  return status;
}

const char *qv_status_phrase(qv_status s) {
  switch (s) {
    case QV_OK: return "ok";
    case QV_E_IO: return "input or output failed";
    case QV_E_FORMAT: return "not a valid model.bin";
    case QV_E_CRC: return "damaged: a checksum differs";
    case QV_E_UNSUPPORTED: return "not supported by this runtime";
    case QV_E_MEMORY: return "not enough memory";
    case QV_E_INPUT: return "wrong input";
    case QV_E_CANCELLED: return "cancelled";
    case QV_E_PROTOCOL: return "protocol error";
    case QV_E_BUSY: return "the board is in use";
    case QV_E_FULL: return "no space left";
    case QV_E_NOT_FOUND: return "not found";
    default: return "internal error";
  }
}
