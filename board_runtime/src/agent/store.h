/* Contents by SHA-256 in one directory. */
#ifndef QV_STORE_H
#define QV_STORE_H
#include "qvrt.h"

typedef struct {
  const char *folder;
} qv_store;

void qv_store_path(const qv_store *s, const uint8_t hash[32], int part, char out[1024]);
uint64_t qv_store_held(const qv_store *s, const uint8_t hash[32]);
/* Appends at offset; when total is reached the hash is checked and the content gets its name. */
qv_status qv_store_put(const qv_store *s, const uint8_t hash[32], uint64_t total, uint64_t offset, const uint8_t *data, uint32_t bytes);
#endif
