/* Checks that the process named in a lock file may be killed, because anybody on the board may have written that file.
   */
#ifndef QV_LOCK_HOLDER_H
#define QV_LOCK_HOLDER_H

/* Returns NULL if the process holds the flock on the open file and is a qvrt; otherwise the reason for the doubt. */
const char *qv_holder_doubt(int file, long long process);
#endif
