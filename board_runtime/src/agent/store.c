/* The store of contents by their SHA-256: its checks and limits, and the store in memory; store_folder.c is the one in
   a directory. */
#include "store.h"

#include <stdlib.h>
#include <string.h>

#include "../posix.h"
#include "store_folder.h"

static qv_stored *find(const qv_store *s, const uint8_t hash[32]) {
  for (int i = 0; i < QV_STORE_ENTRIES; i++)
    if (s->entries[i].age && memcmp(s->entries[i].hash, hash, 32) == 0) return (qv_stored *)(uintptr_t)&s->entries[i];
  return NULL;
}

static void forget(qv_stored *e) {
  free(e->data);
  memset(e, 0, sizeof *e);
}

uint64_t qv_store_held(const qv_store *s, const uint8_t hash[32], int *whole) {
  if (s->folder) return qv_folder_held(s->folder, hash, whole);
  const qv_stored *e = find(s, hash);
  *whole = e && e->held == e->total;
  return e ? e->held : 0;
}

/* Returns a new entry with memory for `total` bytes, after removing the least recently used ones as far as needed, those
   that this connection still needs last; NULL if there is not enough memory. */
static qv_stored *claim(qv_store *s, const uint8_t hash[32], uint64_t total) {
  for (;;) {
    qv_stored *empty = NULL, *oldest = NULL;
    uint64_t sum = total;
    int oldest_is_used = 0;
    for (qv_stored *e = s->entries; e < s->entries + QV_STORE_ENTRIES; e++) {
      sum += e->age ? e->total : 0;
      int is_used = e->age && qv_is_needed(&s->needed, e->hash);
      if (!e->age) {
        empty = e;
      } else if (!e->lent && (!oldest || is_used < oldest_is_used || (is_used == oldest_is_used && e->age < oldest->age))) {
        oldest = e;
        oldest_is_used = is_used;
      }
    }
    if (empty && sum <= s->limit_bytes) {
      empty->data = qv_aligned_alloc((size_t)total);
      if (!empty->data) return NULL;
      memcpy(empty->hash, hash, 32);
      empty->total = total;
      empty->age = ++s->clock;
      return empty;
    }
    if (!oldest) return NULL;
    forget(oldest);
  }
}

static qv_status put_in_memory(qv_store *s, const uint8_t hash[32], uint64_t total, const uint8_t *data, uint32_t bytes) {
  qv_stored *e = find(s, hash);
  if (e && e->total != total) return QV_E_INPUT;
  if (!e) e = claim(s, hash, total);
  if (!e) return QV_E_MEMORY;
  if (bytes) memcpy(e->data + e->held, data, bytes);
  e->held += bytes;
  return QV_OK;
}

/* Records a piece of a content, and returns whether this agent has received all bytes of the content up to the end of
   the piece. */
static int came_whole(qv_store *s, const uint8_t hash[32], uint64_t offset, uint32_t bytes) {
  if (offset == 0) {
    memcpy(s->coming, hash, 32);
    s->came = 0;
  }
  if (s->came != offset || memcmp(s->coming, hash, 32) != 0) return 0;
  s->came += bytes;
  return 1;
}

qv_status qv_store_put(qv_store *s, const uint8_t hash[32], uint64_t total, uint64_t offset, const uint8_t *data, uint32_t bytes) {
  const qv_folder folder = {s->folder, s->limit_bytes, &s->needed};
  int whole;
  uint64_t held = qv_store_held(s, hash, &whole);
  if (total > SIZE_MAX / 2) return QV_E_MEMORY;
  if (total > s->limit_bytes) return s->folder ? QV_E_FULL : QV_E_MEMORY;
  if (offset > total || bytes > total - offset) return QV_E_INPUT;
  if (whole && held != total && s->folder) { /* cut off by a power failure, or changed by somebody on the board */
    qv_folder_drop(s->folder, hash);
    held = qv_store_held(s, hash, &whole);
  }
  if (whole || held != offset) return QV_OK;
  qv_need(&s->needed, hash);
  qv_status status = s->folder && offset == 0 ? qv_folder_evict(&folder, total) : QV_OK;
  if (status == QV_OK)
    status = s->folder ? qv_folder_append(&folder, hash, offset, data, bytes) : put_in_memory(s, hash, total, data, bytes);
  if (status != QV_OK) return status;
  int here = came_whole(s, hash, offset, bytes);
  return s->folder && offset + bytes == total ? qv_folder_name(s->folder, hash, here ? total : 0) : QV_OK;
}

qv_status qv_store_load(qv_store *s, const uint8_t hash[32], uint8_t **data, size_t *bytes) {
  qv_need(&s->needed, hash);
  if (s->folder) return qv_folder_load(s->folder, hash, data, bytes);
  qv_stored *e = find(s, hash);
  if (!e || e->held != e->total) return QV_E_NOT_FOUND;
  if (!e->checked && !qv_sha256_is(hash, e->data, (size_t)e->total)) {
    forget(e);
    return QV_E_CRC;
  }
  e->checked = 1;
  *data = qv_aligned_alloc((size_t)e->total);
  if (!*data) return QV_E_MEMORY;
  *bytes = (size_t)e->total;
  memcpy(*data, e->data, *bytes);
  e->age = ++s->clock;
  return QV_OK;
}

qv_status qv_store_map(qv_store *s, const uint8_t hash[32], uint8_t **data, size_t *bytes, int *mapped) {
  for (qv_stored *e = s->entries; e < s->entries + QV_STORE_ENTRIES; e++) e->lent = 0;
  *mapped = s->folder ? QV_MAPPED : QV_OWNED;
  if (s->folder) {
    qv_need(&s->needed, hash);
    return qv_folder_map(s->folder, hash, data, bytes);
  }
  qv_stored *e = find(s, hash);
  if (!e || e->held != e->total || !qv_little_endian()) return qv_store_load(s, hash, data, bytes);
  qv_need(&s->needed, hash);
  if (!e->checked && !qv_sha256_is(hash, e->data, (size_t)e->total)) {
    forget(e);
    return QV_E_CRC;
  }
  e->checked = e->lent = 1;
  e->age = ++s->clock;
  *mapped = QV_LENT;
  *data = e->data;
  *bytes = (size_t)e->total;
  return QV_OK;
}

uint64_t qv_store_room(const qv_store *s) {
  const qv_folder folder = {s->folder, s->limit_bytes, &s->needed};
  return s->folder ? qv_folder_room(&folder) : s->limit_bytes;
}

void qv_store_close(qv_store *s) {
  for (int i = 0; i < QV_STORE_ENTRIES; i++) forget(&s->entries[i]);
}
