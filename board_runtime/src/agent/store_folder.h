/* The store in a directory; partial contents are kept under NAME.part and can be resumed by a later run. */
#ifndef QV_STORE_FOLDER_H
#define QV_STORE_FOLDER_H
#include "store.h"

uint64_t qv_folder_held(const char *folder, const uint8_t hash[32], int *whole);
qv_status qv_folder_append(const char *folder, const uint8_t hash[32], uint64_t offset, const uint8_t *data, uint32_t bytes);
/* Gives the partial content its name, after checking its hash unless exactly `came` bytes of it are there. */
qv_status qv_folder_name(const char *folder, const uint8_t hash[32], uint64_t came);
qv_status qv_folder_load(const char *folder, const uint8_t hash[32], uint8_t **data, size_t *bytes);
/* Removes the contents used longest ago until `room` bytes fit into limit. */
void qv_folder_evict(const char *folder, uint64_t limit, uint64_t room);
#endif
