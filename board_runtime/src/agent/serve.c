/* Answers the messages of PROTOCOL.md. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../arithmetic/float_canary.h"
#include "../commands/options.h"
#include "../posix.h"
#include "agent.h"
#include "lz4.h"

enum { EVENTS_BYTES = QV_MAX_PAYLOAD < 8192 ? QV_MAX_PAYLOAD : 8192 };
enum { PATIENCE_MS = 400 }; /* milliseconds after which the rest of an incomplete frame counts as lost */

/* Writes value / 1000 as a JSON number, or null if value is INT32_MIN. */
static void thousandths(char *text, size_t size, int32_t value) {
  int tenths = (int)(value / 100), positive = tenths < 0 ? -tenths : tenths;
  if (value == INT32_MIN) snprintf(text, size, "null");
  else snprintf(text, size, "%s%d.%d", tenths < 0 ? "-" : "", positive / 10, positive % 10);
}

/* Answers HELLO. If the payload names an owner, takes the board's lock for it; if another process has the lock, the
   answer names its holder. */
static void hello(qv_agent *a, const qv_frame *f) {
  static const char *const STATE[] = {"none", "held", "busy"};
  char json[1200], holder[512] = "{}", temperature[24], frequency[24], owner[QV_TEXT];
  thousandths(temperature, sizeof temperature, qv_temperature_mc());
  thousandths(frequency, sizeof frequency, qv_frequency_khz());
  qv_cursor c = qv_payload(f);
  qv_take_text(&c, owner);
  if (a->lock_path && !c.bad && owner[0]) a->lock_state = qv_lock_take(&a->lock, a->lock_path, owner);
  if (a->lock_path && !c.bad && owner[0] && a->lock_state == QV_LOCK_NONE && strcmp(a->lock_path, "auto") != 0) {
    snprintf(json, sizeof json, "lock=%.250s: cannot be opened on the board: %s. Next: name a file in a folder that is there", a->lock_path,
             strerror(errno));
    qv_agent_error(a, f->sequence, QV_E_IO, json);
    return;
  }
  if (a->lock_state == QV_LOCK_BUSY) qv_lock_holder(&a->lock, holder, sizeof holder);
  a->ran = 0; /* this may be another host, with the same sequence numbers as the last one */
  snprintf(
      json, sizeof json,
      "{\"version\": \"0.2.0\", \"protocol\": 1, \"arch\": \"%.40s\", \"system\": \"%s\", \"endian\": \"%s\", \"memory_bytes\": %lld, "
      "\"features\": [\"finals\", \"per_node\", \"inject\", \"digests\"], \"packs\": \"lz4\", \"instructions\": \"%s\", \"temperature_c\": %s, \"frequency_mhz\": %s, "
      "\"lock\": \"%s\", \"holder\": %s, \"uptime_s\": %llu, \"idle_s\": %ld, \"max_payload\": %ld, \"float\": \"%s\", \"keeps\": 1}",
      qv_machine(), qv_system(), qv_little_endian() ? "little" : "big", (long long)qv_memory_bytes(), qv_instructions_name(), temperature,
      frequency, STATE[a->lock_state], holder, (unsigned long long)(qv_now_ns() / 1000000000u), a->idle_s, (long)QV_MAX_PAYLOAD,
      qv_float_canary());
  qv_agent_send(a, QV_HELLO, f->sequence, qv_put_text(a->out + QV_FRAME_HEADER, json));
}

static void have(qv_agent *a, const qv_frame *f) {
  uint32_t count = f->length / 32;
  if (f->length % 32 || count > QV_LIST_MAX) {
    char text[100];
    snprintf(text, sizeof text, "HAVE: %u bytes, wanted at most %d hashes of 32", (unsigned)f->length, (int)QV_LIST_MAX);
    qv_agent_error(a, f->sequence, QV_E_PROTOCOL, text);
    return;
  }
  int whole;
  for (uint32_t i = 0; i < count; i++) {
    const uint8_t *hash = f->payload + 32 * i;
    uint64_t held = qv_store_held(&a->store, hash, &whole);
    if (held) qv_need(&a->store.needed, hash);
    qv_put64(a->out + QV_FRAME_HEADER + 8 * i, held);
  }
  qv_agent_send(a, QV_HAVE, f->sequence, count * 8);
}

static void put_failed(qv_agent *a, const qv_frame *f, qv_status status, uint64_t total) {
  char text[QV_TEXT] = "";
  if (status == QV_E_CRC) snprintf(text, sizeof text, "PUT: the bytes do not have the hash they were sent under");
  if (status == QV_E_FULL)
    snprintf(text, sizeof text, "no space left in %.700s (%llu bytes free, %llu wanted); `qverify boards clean NAME`", a->store.folder,
             (unsigned long long)qv_store_room(&a->store), (unsigned long long)total);
  qv_agent_error(a, f->sequence, status, text);
}

static void put(qv_agent *a, const qv_frame *f) {
  static uint8_t plain[QV_MAX_PAYLOAD];
  qv_cursor c = qv_payload(f);
  const uint8_t *hash = qv_take(&c, 32);
  uint64_t total = qv_take64(&c), offset = qv_take64(&c);
  uint32_t bytes = f->type == QV_PUT_PACKED ? qv_take32(&c) : (uint32_t)(c.end - c.p);
  const uint8_t *data = c.p;
  int whole;
  qv_status status = c.bad || bytes > QV_MAX_PAYLOAD ? QV_E_PROTOCOL : QV_OK;
  if (status == QV_OK && f->type == QV_PUT_PACKED) {
    if (!qv_lz4_unpack(c.p, (uint32_t)(c.end - c.p), plain, bytes)) status = QV_E_PROTOCOL;
    data = plain;
  }
  if (status == QV_OK) status = qv_store_put(&a->store, hash, total, offset, data, bytes);
  if (status != QV_OK) {
    put_failed(a, f, status, total);
    return;
  }
  qv_put64(a->out + QV_FRAME_HEADER, qv_store_held(&a->store, hash, &whole));
  qv_agent_send(a, QV_PUT, f->sequence, 8);
}

static void events(qv_agent *a, const qv_frame *f) {
  qv_cursor c = qv_payload(f);
  uint32_t index = qv_take32(&c), length = 0;
  uint8_t *p = a->out + QV_FRAME_HEADER;
  if (c.bad || !a->loaded_any || !a->ran) {
    qv_agent_error(a, f->sequence, QV_E_PROTOCOL, "EVENTS: there was no run");
    return;
  }
  for (; index < a->event_count && length + 24 + 2 + QV_TEXT < EVENTS_BYTES; index++) length += qv_agent_event(a, index, p + length);
  qv_agent_send(a, QV_EVENTS, f->sequence, length);
}

static void heard(qv_agent *a, int running) {
  if (a->lock_state != QV_LOCK_HELD || qv_lock_heard(&a->lock, a->lock_path, running) == QV_LOCK_HELD) return;
  a->lock_state = QV_LOCK_BUSY;
  a->lock_lost = 1;
}

static void run(qv_agent *a, const qv_frame *f) {
  if (a->lock_state == QV_LOCK_BUSY) {
    qv_agent_error(a, f->sequence, QV_E_BUSY,
                   a->lock_lost ? "the lock's file was deleted while this run held it, and it cannot be had again" : "");
    return;
  }
  qv_agent_run(a, f);
  heard(a, 0);
}

static void unknown(qv_agent *a, const qv_frame *f) {
  char text[60];
  snprintf(text, sizeof text, "unknown message of type %d", (int)f->type);
  qv_agent_error(a, f->sequence, QV_E_PROTOCOL, text);
}

/* Answers one frame. Returns 0 if the agent must end. */
static int answer(qv_agent *a, const qv_frame *f) {
  heard(a, f->type == QV_RUN || f->type == QV_UNIT);
  switch (f->type) {
    case QV_HELLO: hello(a, f); break;
    case QV_HAVE: have(a, f); break;
    case QV_PUT:
    case QV_PUT_PACKED: put(a, f); break;
    case QV_RUN:
    case QV_UNIT: run(a, f); break;
    case QV_EVENTS: events(a, f); break;
    case QV_GET: qv_agent_get(a, f); break;
    case QV_CANCEL:
    case QV_PING: qv_agent_ping(a, f); break;
    case QV_BYE: qv_agent_send(a, QV_BYE, f->sequence, 0); return 0;
    default: unknown(a, f); break;
  }
  return !a->broken;
}

void qv_agent_serve(qv_agent *a, int idle_ms) {
  for (int going = 1; going && !a->broken;) {
    qv_frame f;
    int found = qv_frame_take(&a->in, &f), half = a->in.used != 0;
    if (found == 1) going = answer(a, &f);
    else if (found < 0) qv_agent_send(a, QV_AGAIN, f.sequence, 0);
    else if (qv_agent_listen(a, half ? PATIENCE_MS : idle_ms) == 0) {
      if (!half) return;
      qv_frame_give_up(&a->in);
    }
  }
}
