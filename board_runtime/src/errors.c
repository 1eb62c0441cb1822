/* Refusals: one line into the model's error, and a phrase for each status. */
#include <stdarg.h>
#include <stdio.h>

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
