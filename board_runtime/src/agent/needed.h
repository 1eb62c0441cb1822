/* The contents that a connection still needs: no store removes them to make room. */
#ifndef QV_NEEDED_H
#define QV_NEEDED_H
#include "qvrt.h"

#ifndef QV_USES_LIMIT
#define QV_USES_LIMIT 8192
#endif
enum { QV_USES = QV_USES_LIMIT };

/* The first `of_run` hashes were used by the last RUN. */
typedef struct {
  uint32_t count, of_run;
  uint8_t hashes[QV_USES][32];
} qv_needed;

int qv_is_needed(const qv_needed *n, const uint8_t hash[32]);
/* Adds a hash, if there is room for it. */
void qv_need(qv_needed *n, const uint8_t hash[32]);
#endif
