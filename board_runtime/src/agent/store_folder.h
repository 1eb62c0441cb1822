/* The store in a directory. Incomplete contents are kept as HASH.part, and a later run can resume them. */
#ifndef QV_STORE_FOLDER_H
#define QV_STORE_FOLDER_H
#include "needed.h"
#include "qvrt.h"

/* A directory of contents, of at most limit_bytes in all; those that `needed` names are never removed to make room. */
typedef struct {
  const char *path;
  uint64_t limit_bytes;
  const qv_needed *needed;
} qv_folder;

uint64_t qv_folder_held(const char *folder, const uint8_t hash[32], int *whole);
/* Removes a complete content. */
void qv_folder_drop(const char *folder, const uint8_t hash[32]);
/* Appends bytes to an incomplete content. While the file system is full, removes contents that this connection does not
   need, the least recently changed first; returns QV_E_FULL if none is left. */
qv_status qv_folder_append(const qv_folder *f, const uint8_t hash[32], uint64_t offset, const uint8_t *data, uint32_t bytes);
/* Gives the file of an incomplete content its final name. came: size of the content if this agent received all of it,
   otherwise 0; unless the file has this size, the hash is verified first. */
qv_status qv_folder_name(const char *folder, const uint8_t hash[32], uint64_t came);
qv_status qv_folder_load(const char *folder, const uint8_t hash[32], uint8_t **data, size_t *bytes);
qv_status qv_folder_map(const char *folder, const uint8_t hash[32], uint8_t **data, size_t *bytes);
/* Removes contents that this connection does not need, the least recently changed first, until `room` more bytes fit
   into the limit and into half of the space that the file system has for contents. Returns QV_E_FULL if they do not fit
   into the limit. */
qv_status qv_folder_evict(const qv_folder *f, uint64_t room);
/* Returns how many bytes fit without removing a content. */
uint64_t qv_folder_room(const qv_folder *f);
#endif
