/* The store of contents by their SHA-256, in one directory or in memory, with a limit of its size. */
#ifndef QV_STORE_H
#define QV_STORE_H
#include "needed.h"
#include "qvrt.h"

#ifndef QV_STORE_LIMIT
#define QV_STORE_LIMIT 2048 /* contents in memory: a model and its inputs must fit */
#endif
enum { QV_STORE_ENTRIES = QV_STORE_LIMIT };

typedef struct {
  uint8_t hash[32];
  uint8_t *data;
  uint64_t total, held;
  uint32_t age; /* value of the store's clock at the last use; 0: this entry is free */
  int checked;  /* 1 if its hash was verified */
  int lent;     /* 1 if the model that is loaded lies in it, so that it is not removed */
} qv_stored;

/* folder: directory of the store; if NULL, the contents are in memory, in `entries`. limit_bytes: largest size of all
   contents; to stay below it, the least recently used contents are removed first. coming, came: hash of the content
   that is being received, and how many of its bytes this agent has received without a gap, in frames whose CRC was
   correct. */
typedef struct {
  const char *folder;
  uint64_t limit_bytes;
  uint32_t clock;
  uint64_t came;
  uint8_t coming[32];
  qv_stored entries[QV_STORE_ENTRIES];
  qv_needed needed;
} qv_store;

/* Returns the number of stored bytes of a content. Sets *whole to whether the content is complete. */
uint64_t qv_store_held(const qv_store *s, const uint8_t hash[32], int *whole);
/* Appends a piece of a content if offset is the number of stored bytes; otherwise does nothing (the caller's answer
   contains that number). When all `total` bytes are stored, the content is complete and its file gets its final name.
   If this agent did not receive all of them itself, the hash is verified first; otherwise it is verified when the
   content is loaded. Returns QV_E_CRC if the hash differs, after removing the whole content; QV_E_FULL if the file
   system or the limit has too little room even after removing every content that may be removed; QV_E_MEMORY;
   QV_E_INPUT if the piece does not lie within `total` bytes. */
qv_status qv_store_put(qv_store *s, const uint8_t hash[32], uint64_t total, uint64_t offset, const uint8_t *data, uint32_t bytes);
/* Copies a complete content with the right hash into memory from qv_aligned_alloc, which the caller frees. Returns
   QV_E_NOT_FOUND, QV_E_MEMORY or QV_E_CRC on failure. */
qv_status qv_store_load(qv_store *s, const uint8_t hash[32], uint8_t **data, size_t *bytes);
/* As qv_store_load, for a model, but without a copy: where the content is a file it is mapped (*mapped is QV_MAPPED;
   qv_unmap_file frees it), and where it is in memory it is lent until the next call (QV_LENT; nothing frees it). On a
   machine that converts the byte order of a model in place it is copied from memory (QV_OWNED). */
qv_status qv_store_map(qv_store *s, const uint8_t hash[32], uint8_t **data, size_t *bytes, int *mapped);
/* Returns how many bytes fit without removing a content; of a store in memory its limit. */
uint64_t qv_store_room(const qv_store *s);
void qv_store_close(qv_store *s);
#endif
