/* Reads the frames of PROTOCOL.md from a byte stream that may be damaged, and writes frames. */
#ifndef QV_FRAMES_H
#define QV_FRAMES_H
#include "qvrt.h"

/* Largest payload. A build for a machine with little memory defines a smaller one; HELLO states it. */
#ifndef QV_PAYLOAD_LIMIT
#define QV_PAYLOAD_LIMIT (1 << 20)
#define QV_FRAME_SLACK 4096
#endif
enum { QV_MAX_PAYLOAD = QV_PAYLOAD_LIMIT, QV_FRAME_HEADER = 16, QV_FRAME_BUFFER = QV_MAX_PAYLOAD + QV_FRAME_SLACK };
enum {
  QV_HELLO = 1,
  QV_HAVE,
  QV_PUT,
  QV_RUN,
  QV_NODE,
  QV_DONE,
  QV_UNIT,
  QV_GET,
  QV_DATA,
  QV_PING,
  QV_BYE,
  QV_ERROR,
  QV_EVENTS,
  QV_CANCEL,
  QV_AGAIN,
  QV_PACKED,
  QV_PUT_PACKED,
  QV_NODES
};

typedef struct {
  uint8_t type;
  uint32_t sequence, length;
  const uint8_t *payload;
} qv_frame;

/* buffer: QV_FRAME_BUFFER bytes, provided by the caller. used: number of bytes received into it. consumed: how many of
   these, at its beginning, the next call of qv_frame_take drops. */
typedef struct {
  uint8_t *buffer;
  uint32_t used, consumed;
} qv_frame_reader;

/* Takes the next frame from the buffer. Returns 1 with a frame, whose payload is valid until the next call; 0 if more
   bytes are needed (the buffer has room for some); QV_E_CRC if the payload of the frame with number out->sequence was
   damaged: its bytes are then searched for other frames. */
int qv_frame_take(qv_frame_reader *r, qv_frame *out);
/* Gives up an incomplete frame, so that the next call of qv_frame_take searches its bytes for other frames. */
void qv_frame_give_up(qv_frame_reader *r);
/* Writes the header and the trailing CRC around a payload that is already at frame + QV_FRAME_HEADER. Returns the size
   of the frame in bytes. */
uint32_t qv_frame_finish(uint8_t *frame, uint8_t type, uint32_t sequence, uint32_t length);
static inline uint32_t qv_get32(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline uint64_t qv_get64(const uint8_t *p) { return qv_get32(p) | (uint64_t)qv_get32(p + 4) << 32; }
static inline void qv_put32(uint8_t *p, uint32_t v) {
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (8 * i));
}
static inline void qv_put64(uint8_t *p, uint64_t v) {
  for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> (8 * i));
}
#endif
