/* One board, one user at a time: an advisory lock on the board itself, gone with the process that holds it. */
#ifndef QV_BOARD_LOCK_H
#define QV_BOARD_LOCK_H
#include "qvrt.h"

typedef struct {
  int file; /* -1: none */
  uint64_t noted_s;
  char path[256], owner[128];
} qv_board_lock;

enum { QV_LOCK_NONE, QV_LOCK_HELD, QV_LOCK_BUSY };

/* path: "auto" looks for a folder everybody can write. QV_LOCK_NONE where the board has none. An owner that ends in "#" and 16
   hex digits ends a holder that ends in the same: itself, on a connection that was lost. */
int qv_lock_take(qv_board_lock *l, const char *path, const char *owner);
/* Notes in the file of a lock that is held, at most every other second, that the holder was heard, and whether a run goes on.
   Where the file was deleted meanwhile the lock is taken anew; another state than QV_LOCK_HELD: it could not be. */
int qv_lock_heard(qv_board_lock *l, const char *path, int running);
/* What the holder wrote: one JSON object; "{}" where nothing can be read. */
void qv_lock_holder(const qv_board_lock *l, char *json, size_t size);
/* qvrt lock show|break: the holder; breaking it kills a holder nobody has spoken to for a minute and that runs nothing,
   if that process really holds the lock and is a qvrt. */
int qv_lock_main(int argc, char **argv);
#endif
