/* The store of a machine without files: contents in the heap and in flash, which runs use where they are. */
#include <stdlib.h>
#include <string.h>

#include "../src/agent/store.h"
#include "../src/posix.h"
#include "flash.h"
#include "heap.h"

static qv_stored *find(const qv_store *s, const uint8_t hash[32]) {
  for (int i = 0; i < QV_STORE_ENTRIES; i++)
    if (s->entries[i].age && memcmp(s->entries[i].hash, hash, 32) == 0) return (qv_stored *)(uintptr_t)&s->entries[i];
  return NULL;
}

static const qv_flash_content *in_flash(const uint8_t hash[32]) {
  for (const qv_flash_content *f = qv_flash; f->data; f++)
    if (memcmp(f->hash, hash, 32) == 0) return f;
  return NULL;
}

static void forget(qv_stored *e) {
  if (e->data) qv_heap_lend(e->data, 0);
  free(e->data);
  memset(e, 0, sizeof *e);
}

uint64_t qv_store_held(const qv_store *s, const uint8_t hash[32], int *whole) {
  const qv_flash_content *f = in_flash(hash);
  const qv_stored *e = f ? NULL : find(s, hash);
  *whole = f || (e && e->held == e->total);
  return f ? (uint64_t)(f->end - f->data) : e ? e->held : 0;
}

/* Returns a new entry with memory for `total` bytes, after removing contents that this connection does not need, the
   least recently used ones first; NULL if there is not enough memory. */
static qv_stored *claim(qv_store *s, const uint8_t hash[32], uint64_t total) {
  for (;;) {
    qv_stored *empty = NULL, *oldest = NULL;
    for (qv_stored *e = s->entries; e < s->entries + QV_STORE_ENTRIES; e++) {
      if (!e->age) empty = e;
      else if (!qv_is_needed(&s->needed, e->hash) && (!oldest || e->age < oldest->age)) oldest = e;
    }
    uint8_t *data = empty ? qv_aligned_alloc((size_t)total) : NULL;
    if (data) {
      qv_heap_lend(data, 1);
      empty->data = data;
      memcpy(empty->hash, hash, 32);
      empty->total = total;
      empty->age = ++s->clock;
      return empty;
    }
    if (!oldest) return NULL;
    forget(oldest);
  }
}

qv_status qv_store_put(qv_store *s, const uint8_t hash[32], uint64_t total, uint64_t offset, const uint8_t *data, uint32_t bytes) {
  int whole;
  uint64_t held = qv_store_held(s, hash, &whole);
  if (total > s->limit_bytes) return QV_E_MEMORY;
  if (offset > total || bytes > total - offset) return QV_E_INPUT;
  if (whole || held != offset) return QV_OK;
  qv_stored *e = find(s, hash);
  if (e && e->total != total) return QV_E_INPUT;
  if (!e) e = claim(s, hash, total);
  if (!e) return QV_E_MEMORY;
  qv_need(&s->needed, hash);
  if (bytes) memcpy(e->data + e->held, data, bytes);
  e->held += bytes;
  return QV_OK;
}

qv_status qv_store_map(qv_store *s, const uint8_t hash[32], uint8_t **data, size_t *bytes, int *mapped) {
  *mapped = QV_OWNED;
  return qv_store_load(s, hash, data, bytes);
}

/* The bytes are lent: free() leaves them. */
qv_status qv_store_load(qv_store *s, const uint8_t hash[32], uint8_t **data, size_t *bytes) {
  const qv_flash_content *f = in_flash(hash);
  qv_need(&s->needed, hash);
  if (f) {
    *data = (uint8_t *)(uintptr_t)f->data;
    *bytes = (size_t)(f->end - f->data);
    return qv_sha256_is(hash, *data, *bytes) ? QV_OK : QV_E_CRC;
  }
  qv_stored *e = find(s, hash);
  if (!e || e->held != e->total) return QV_E_NOT_FOUND;
  if (!e->checked && !qv_sha256_is(hash, e->data, (size_t)e->total)) {
    forget(e);
    return QV_E_CRC;
  }
  e->checked = 1;
  e->age = ++s->clock;
  *data = e->data;
  *bytes = (size_t)e->total;
  return QV_OK;
}

uint64_t qv_store_room(const qv_store *s) { return s->limit_bytes; }

void qv_store_close(qv_store *s) {
  for (int i = 0; i < QV_STORE_ENTRIES; i++) forget(&s->entries[i]);
}
