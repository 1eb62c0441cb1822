/* Reads fields of the payloads of PROTOCOL.md within their bounds, and writes texts. */
#include "messages.h"

#include <string.h>

qv_cursor qv_payload(const qv_frame *f) {
  qv_cursor c = {f->payload, f->payload + f->length, 0};
  return c;
}

const uint8_t *qv_take(qv_cursor *c, size_t bytes) {
  if (c->bad || (size_t)(c->end - c->p) < bytes) {
    c->bad = 1;
    return NULL;
  }
  const uint8_t *p = c->p;
  c->p += bytes;
  return p;
}

uint32_t qv_take16(qv_cursor *c) {
  const uint8_t *p = qv_take(c, 2);
  return p ? (uint32_t)p[0] | (uint32_t)p[1] << 8 : 0;
}

uint32_t qv_take32(qv_cursor *c) {
  const uint8_t *p = qv_take(c, 4);
  return p ? qv_get32(p) : 0;
}

uint64_t qv_take64(qv_cursor *c) {
  const uint8_t *p = qv_take(c, 8);
  return p ? qv_get64(p) : 0;
}

void qv_take_text(qv_cursor *c, char out[QV_TEXT]) {
  uint32_t length = qv_take16(c);
  const uint8_t *p = qv_take(c, length);
  out[0] = 0;
  if (!p || length >= QV_TEXT || memchr(p, 0, length)) {
    c->bad = 1;
    return;
  }
  memcpy(out, p, length);
  out[length] = 0;
}

uint32_t qv_put_text(uint8_t *p, const char *text) {
  size_t length = strlen(text);
  if (length >= QV_TEXT) length = QV_TEXT - 1;
  p[0] = (uint8_t)length;
  p[1] = (uint8_t)(length >> 8);
  memcpy(p + 2, text, length);
  return (uint32_t)length + 2;
}
