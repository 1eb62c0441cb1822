/* Reads the frames of PROTOCOL.md from a byte stream that may be damaged, and writes frames. */
#include "frames.h"

#include <string.h>

static void drop(qv_frame_reader *r, uint32_t bytes) {
  memmove(r->buffer, r->buffer + bytes, r->used - bytes);
  r->used -= bytes;
}

static int is_header(const uint8_t *p) {
  return p[0] == 0x51 && p[1] == 0x56 && p[2] == 1 && qv_get32(p + 8) <= QV_MAX_PAYLOAD && qv_crc32c(0, p, 12) == qv_get32(p + 12);
}

int qv_frame_take(qv_frame_reader *r, qv_frame *out) {
  if (r->consumed) {
    drop(r, r->consumed);
    r->consumed = 0;
  }
  uint32_t at = 0;
  while (r->used - at >= QV_FRAME_HEADER && !is_header(r->buffer + at)) at++;
  if (at) drop(r, at);
  if (r->used < QV_FRAME_HEADER) return 0;
  const uint8_t *p = r->buffer;
  uint32_t length = qv_get32(p + 8);
  if (r->used < QV_FRAME_HEADER + length + 4) return 0;
  out->type = p[3];
  out->sequence = qv_get32(p + 4);
  out->length = length;
  out->payload = p + QV_FRAME_HEADER;
  int good = qv_crc32c(0, p, QV_FRAME_HEADER + length) == qv_get32(out->payload + length);
  r->consumed = good ? QV_FRAME_HEADER + length + 4 : 1;
  return good ? 1 : QV_E_CRC;
}

void qv_frame_give_up(qv_frame_reader *r) {
  if (r->used > r->consumed) r->consumed++;
}

uint32_t qv_frame_finish(uint8_t *frame, uint8_t type, uint32_t sequence, uint32_t length) {
  frame[0] = 0x51;
  frame[1] = 0x56;
  frame[2] = 1;
  frame[3] = type;
  qv_put32(frame + 4, sequence);
  qv_put32(frame + 8, length);
  qv_put32(frame + 12, qv_crc32c(0, frame, 12));
  qv_put32(frame + QV_FRAME_HEADER + length, qv_crc32c(0, frame, QV_FRAME_HEADER + length));
  return QV_FRAME_HEADER + length + 4;
}
