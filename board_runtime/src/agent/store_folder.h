/* The store in a directory; partial contents are kept under NAME.part and can be resumed by a later run. */
#ifndef QV_STORE_FOLDER_H
#define QV_STORE_FOLDER_H
#include "store.h"

uint64_t qv_folder_held(const char *folder, const uint8_t hash[32], int *whole);
/* Removes a whole content. */
void qv_folder_drop(const char *folder, const uint8_t hash[32]);
/* Where the file system is full, contents this connection does not use go, oldest first; QV_E_FULL when none is left. */
qv_status qv_folder_append(const qv_store *s, const uint8_t hash[32], uint64_t offset, const uint8_t *data, uint32_t bytes);
/* Gives the partial content its name, after checking its hash unless exactly `came` bytes of it are there. */
qv_status qv_folder_name(const char *folder, const uint8_t hash[32], uint64_t came);
qv_status qv_folder_load(const char *folder, const uint8_t hash[32], uint8_t **data, size_t *bytes);
/* Removes contents this connection does not use, oldest first, until `room` bytes fit into the limit and into half of what
   the file system has for contents. QV_E_FULL: not into the limit. */
qv_status qv_folder_evict(const qv_store *s, uint64_t room);
/* Bytes a further content may take without any being removed. */
uint64_t qv_folder_room(const qv_store *s);
#endif
