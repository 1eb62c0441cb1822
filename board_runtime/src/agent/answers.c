/* Sends answers, and takes the frames that arrive during a run. */
#include <string.h>

#include "agent.h"
#include "wire.h"

void qv_agent_send(qv_agent *a, uint8_t type, uint32_t sequence, uint32_t length) {
  uint32_t size = qv_frame_finish(a->out, type, sequence, length);
  if (!a->broken && qv_wire_write(a->out, size) != 0) a->broken = 1;
}

void qv_agent_error(qv_agent *a, uint32_t sequence, qv_status status, const char *text) {
  uint8_t *p = a->out + QV_FRAME_HEADER;
  qv_put32(p, (uint32_t)status);
  qv_agent_send(a, QV_ERROR, sequence, 4 + qv_put_text(p + 4, text[0] ? text : qv_status_phrase(status)));
}

void qv_agent_ping(qv_agent *a, const qv_frame *f) {
  uint32_t length = f->length < 64 ? f->length : 64;
  memcpy(a->out + QV_FRAME_HEADER, f->payload, length);
  qv_agent_send(a, QV_PING, f->sequence, length);
}

static void answer_meanwhile(qv_agent *a, const qv_frame *f) {
  if (f->type == QV_CANCEL) a->cancelled = 1;
  if (f->type == QV_CANCEL || f->type == QV_PING) qv_agent_ping(a, f);
  else if (f->sequence != a->run_sequence) qv_agent_error(a, f->sequence, QV_E_PROTOCOL, "a run is going on");
}

int64_t qv_agent_listen(qv_agent *a, int wait_ms) {
  int64_t got = qv_wire_read(a->in.buffer + a->in.used, QV_FRAME_BUFFER - a->in.used, wait_ms);
  if (got < 0) a->broken = 1;
  else a->in.used += (uint32_t)got;
  return got;
}

void qv_agent_poll(qv_agent *a) {
  qv_frame f;
  if (a->in.used - a->in.consumed == QV_FRAME_BUFFER || a->broken) return;
  int found = qv_frame_take(&a->in, &f);
  if (found == 0 && qv_agent_listen(a, 0) > 0) found = qv_frame_take(&a->in, &f);
  for (; found != 0; found = qv_frame_take(&a->in, &f))
    if (found == 1) answer_meanwhile(a, &f);
}
