/* An advisory lock on the board itself, so that it has one user at a time; it is released when its process ends. */
#ifndef QV_BOARD_LOCK_H
#define QV_BOARD_LOCK_H
#include "qvrt.h"

typedef struct {
  int file; /* file descriptor; -1: none */
  uint64_t noted_s;
  char path[256], owner[128];
} qv_board_lock;

enum { QV_LOCK_NONE, QV_LOCK_HELD, QV_LOCK_BUSY };

/* Takes the lock and returns its state; QV_LOCK_NONE if no lock file can be opened. path: of the lock file, or "auto"
   for the first usable one of several folders that everybody can write to. If owner ends in "#" and 16 hex digits, and
   the owner of the current holder ends in the same, that process is killed first: it serves a lost connection of the
   same run. */
int qv_lock_take(qv_board_lock *l, const char *path, const char *owner);
/* Writes to the file of a held lock the time of the last message from the host and whether a run is going on; at most
   every other second unless `running` changes. If the file was deleted, takes the lock again. Returns QV_LOCK_HELD, or
   another state if that failed. */
int qv_lock_heard(qv_board_lock *l, const char *path, int running);
/* Copies the JSON object that the holder wrote to the lock file; "{}" if it cannot be read. */
void qv_lock_holder(const qv_board_lock *l, char *json, size_t size);
/* Main function of `qvrt lock show|break`. show prints the state of the lock and its holder. break kills the holder if
   it has received no message for a minute, runs nothing, really holds the lock and is a qvrt. */
int qv_lock_main(int argc, char **argv);
#endif
