/* Reads fields of the payloads of PROTOCOL.md within their bounds, and writes texts. */
#ifndef QV_MESSAGES_H
#define QV_MESSAGES_H
#include "frames.h"

enum { QV_TEXT = 1024 };

/* A cursor over a payload. bad: 1 as soon as a field lay outside the payload or a text was not valid. */
typedef struct {
  const uint8_t *p, *end;
  int bad;
} qv_cursor;

qv_cursor qv_payload(const qv_frame *f);
const uint8_t *qv_take(qv_cursor *c, size_t bytes); /* NULL if fewer bytes are left */
uint32_t qv_take16(qv_cursor *c);
uint32_t qv_take32(qv_cursor *c);
uint64_t qv_take64(qv_cursor *c);
/* Reads a text as a C string. It must contain no NUL and be shorter than QV_TEXT; otherwise c->bad is set and `out` is
   empty. */
void qv_take_text(qv_cursor *c, char out[QV_TEXT]);
uint32_t qv_put_text(uint8_t *p, const char *text); /* cuts the text to fewer than QV_TEXT bytes; returns the bytes written */
#endif
