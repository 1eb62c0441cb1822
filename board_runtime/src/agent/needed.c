#include "needed.h"

#include <string.h>

int qv_is_needed(const qv_needed *n, const uint8_t hash[32]) {
  for (uint32_t i = 0; i < n->count; i++)
    if (memcmp(n->hashes[i], hash, 32) == 0) return 1;
  return 0;
}

void qv_need(qv_needed *n, const uint8_t hash[32]) {
  if (n->count < QV_USES && !qv_is_needed(n, hash)) memcpy(n->hashes[n->count++], hash, 32);
}
