/* Frames of PROTOCOL.md: found in a stream that may be damaged, and made. */
#include "frames.h"

#include <string.h>

int qv_frame_take(uint8_t *buffer, uint32_t *used, uint32_t *consumed, qv_frame *out) {
  if (*consumed) {
    memmove(buffer, buffer + *consumed, *used - *consumed);
    *used -= *consumed;
    *consumed = 0;
  }
  uint32_t at = 0;
  int result = 0;
  for (; *used - at >= QV_FRAME_HEADER; at++) {
    const uint8_t *p = buffer + at;
    if (p[0] != 0x51 || p[1] != 0x56 || p[2] != 1 || qv_crc32c(0, p, 12) != qv_get32(p + 12)) continue;
    uint32_t length = qv_get32(p + 8);
    if (length > QV_MAX_PAYLOAD) continue;
    if (*used - at < QV_FRAME_HEADER + length + 4) break;
    out->type = p[3];
    out->sequence = qv_get32(p + 4);
    out->length = length;
    out->payload = p + QV_FRAME_HEADER;
    *consumed = at + QV_FRAME_HEADER + length + 4;
    result = qv_crc32c(0, out->payload, length) == qv_get32(out->payload + length) ? 1 : QV_E_CRC;
    return result;
  }
  if (at) {
    memmove(buffer, buffer + at, *used - at);
    *used -= at;
  }
  return result;
}

uint32_t qv_frame_finish(uint8_t *frame, uint8_t type, uint32_t sequence, uint32_t length) {
  frame[0] = 0x51;
  frame[1] = 0x56;
  frame[2] = 1;
  frame[3] = type;
  qv_put32(frame + 4, sequence);
  qv_put32(frame + 8, length);
  qv_put32(frame + 12, qv_crc32c(0, frame, 12));
  qv_put32(frame + QV_FRAME_HEADER + length, qv_crc32c(0, frame + QV_FRAME_HEADER, length));
  return QV_FRAME_HEADER + length + 4;
}
