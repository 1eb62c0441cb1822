/* Payloads of PROTOCOL.md read within their bounds, and written. */
#ifndef QV_MESSAGES_H
#define QV_MESSAGES_H
#include "frames.h"

enum { QV_TEXT = 1024 };

/* A cursor over a payload; `bad` once anything lay outside. */
typedef struct {
  const uint8_t *p, *end;
  int bad;
} qv_cursor;

qv_cursor qv_payload(const qv_frame *f);
const uint8_t *qv_take(qv_cursor *c, size_t bytes); /* NULL when not there */
uint32_t qv_take16(qv_cursor *c);
uint32_t qv_take32(qv_cursor *c);
uint64_t qv_take64(qv_cursor *c);
/* A text as a C string (no NUL inside, shorter than QV_TEXT); empty when bad. */
void qv_take_text(qv_cursor *c, char out[QV_TEXT]);
uint32_t qv_put_text(uint8_t *p, const char *text); /* cut at QV_TEXT; returns bytes written */
#endif
