/* Contents by SHA-256, in one directory or in memory; bounded. */
#ifndef QV_STORE_H
#define QV_STORE_H
#include "qvrt.h"

enum { QV_STORE_ENTRIES = 64, QV_USES = 8192 };

typedef struct {
  uint8_t hash[32];
  uint8_t *data;
  uint64_t total, held;
  uint32_t age; /* of the last use; 0: free */
  int checked;  /* its hash was found right */
} qv_stored;

/* folder NULL: in memory, in `entries`. limit_bytes: of all contents; the least recently used go first. came: bytes of the
   content `coming` that arrived here without a gap, each frame with its CRC. used: what this connection still needs, never
   removed from the folder to make room; the first used_of_run of them belong to the last RUN. */
typedef struct {
  const char *folder;
  uint64_t limit_bytes;
  uint32_t clock;
  uint64_t came;
  uint8_t coming[32];
  qv_stored entries[QV_STORE_ENTRIES];
  uint32_t used_count, used_of_run;
  uint8_t used[QV_USES][32];
} qv_store;

/* Bytes held of a content; *whole says whether that is all of it and its hash held. */
uint64_t qv_store_held(const qv_store *s, const uint8_t hash[32], int *whole);
/* This connection needs the content: others make room first. */
void qv_store_use(qv_store *s, const uint8_t hash[32]);
int qv_store_used(const qv_store *s, const uint8_t hash[32]);
/* Appends when offset is what is held (else nothing happens: the caller answers with what is held). When total is reached
   the content gets its name. What began to come before this agent was started has its hash checked first; QV_E_CRC: another
   hash, all of it dropped; QV_E_FULL: its file system or the limit has no room, whatever may be removed is. What came here whole has it checked when it is loaded. */
qv_status qv_store_put(qv_store *s, const uint8_t hash[32], uint64_t total, uint64_t offset, const uint8_t *data, uint32_t bytes);
/* A copy of a whole content, from qv_aligned_alloc, its hash checked. QV_E_NOT_FOUND, QV_E_MEMORY, QV_E_CRC. */
qv_status qv_store_load(qv_store *s, const uint8_t hash[32], uint8_t **data, size_t *bytes);
void qv_store_close(qv_store *s);
#endif
