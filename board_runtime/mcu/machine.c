/* What the agent needs of an operating system, on a machine without one: the clock, the line, no files. */
#include "../src/posix.h"

#include "../src/agent/board_lock.h"
#include "../src/agent/wire.h"
#include "hal.h"
#include "heap.h"

#ifndef QV_ARCH
#define QV_ARCH "microcontroller"
#endif

uint64_t qv_now_ns(void) { return qv_hal_now_ns(); }
int64_t qv_memory_bytes(void) { return (int64_t)qv_heap_bytes(); }
const char *qv_machine(void) { return QV_ARCH; }
const char *qv_system(void) { return "bare metal"; }
void qv_release_file(const void *data, size_t bytes) {
  (void)data;
  (void)bytes;
}
void qv_unmap_file(uint8_t *data, size_t bytes) {
  (void)data;
  (void)bytes;
}
int32_t qv_temperature_mc(void) { return INT32_MIN; }
int32_t qv_frequency_khz(void) { return INT32_MIN; }

/* One host has the line, so there is no lock. */
int qv_lock_take(qv_board_lock *l, const char *path, const char *owner) {
  (void)l;
  (void)path;
  (void)owner;
  return QV_LOCK_NONE;
}
int qv_lock_heard(qv_board_lock *l, const char *path, int running) {
  (void)l;
  (void)path;
  (void)running;
  return QV_LOCK_NONE;
}
void qv_lock_holder(const qv_board_lock *l, char *json, size_t size) {
  (void)l;
  if (size) json[0] = 0;
}

void qv_wire_open(void) { qv_hal_open(); }

/* A node that never ends is ended by the watchdog: qv_hal_watchdog starts it anew with the next limit; 0 stops it. */
static long watched_s;
void qv_wire_watch(int on, long limit_s) {
  watched_s = on ? limit_s : 0;
  qv_hal_watchdog(watched_s);
}
void qv_wire_alive(void) { qv_hal_watchdog(watched_s); }

/* Bytes that follow each other within GAP_NS are taken together. */
int64_t qv_wire_read(uint8_t *to, size_t room, int wait_ms) {
  enum { GAP_NS = 500000 };
  uint64_t begin = qv_hal_now_ns(), last = 0;
  size_t got = 0;
  while (got < room) {
    int byte = qv_hal_read();
    if (byte >= 0) {
      to[got++] = (uint8_t)byte;
      last = 0;
    } else if (got) {
      uint64_t now = qv_hal_now_ns();
      if (!last) last = now;
      if (wait_ms == 0 || now - last > GAP_NS) break;
    } else if (wait_ms >= 0 && qv_hal_now_ns() - begin >= (uint64_t)wait_ms * 1000000u) {
      break;
    }
  }
  return (int64_t)got;
}

int qv_wire_write(const uint8_t *data, size_t bytes) {
  qv_hal_write(data, (uint32_t)bytes);
  return 0;
}
