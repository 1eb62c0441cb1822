/* Frames of PROTOCOL.md over two file descriptors. */
#ifndef QV_FRAMES_H
#define QV_FRAMES_H
#include "qvrt.h"

enum { QV_MAX_PAYLOAD = 1 << 20, QV_FRAME_HEADER = 16 };
enum { QV_HELLO = 1, QV_HAVE, QV_PUT, QV_RUN, QV_NODE, QV_DONE, QV_UNIT, QV_GET, QV_DATA, QV_PING, QV_BYE, QV_ERROR };

typedef struct {
  uint8_t type;
  uint32_t sequence, length;
  const uint8_t *payload;
} qv_frame;

/* Takes one frame from buffer[0..*used); moves the rest down. 1: a frame; 0: more bytes needed; QV_E_CRC: a payload was
   damaged (its sequence number is in out). The payload stays valid until the next call. */
int qv_frame_take(uint8_t *buffer, uint32_t *used, uint32_t *consumed, qv_frame *out);
/* Header and trailing CRC around a payload already at frame + QV_FRAME_HEADER; returns the whole size. */
uint32_t qv_frame_finish(uint8_t *frame, uint8_t type, uint32_t sequence, uint32_t length);
static inline uint32_t qv_get32(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }
static inline uint64_t qv_get64(const uint8_t *p) { return qv_get32(p) | (uint64_t)qv_get32(p + 4) << 32; }
static inline void qv_put32(uint8_t *p, uint32_t v) { for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (8 * i)); }
static inline void qv_put64(uint8_t *p, uint64_t v) { for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> (8 * i)); }
#endif
