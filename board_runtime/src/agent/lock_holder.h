/* Whether the process a lock's file names is the one to end: anybody on the board may have written that file. */
#ifndef QV_LOCK_HOLDER_H
#define QV_LOCK_HOLDER_H

/* NULL where the process holds the flock on the open file and is a qvrt; else what it is not. */
const char *qv_holder_doubt(int file, long long process);
#endif
