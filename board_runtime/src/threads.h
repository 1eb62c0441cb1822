/* Runs parts of one node's work on several threads. The result does not depend on which thread runs which part. */
#ifndef QV_THREADS_H
#define QV_THREADS_H
#include <stdint.h>

enum { QV_MOST_THREADS = 64 };
/* Starts threads beside the caller's; they receive no signals and end with the process. Returns the number of threads
   that now exist, including the caller's, which is less than `wanted` if the system starts no more. After the first
   call of qv_workers the number no longer changes, because models have memory for it. */
int qv_start_threads(int wanted);
int qv_threads(void); /* number of threads, including the caller's */
/* Returns how many threads take part in a loop of this number of parts and multiplications: 1 to qv_threads(). */
int qv_workers(int64_t parts, int64_t work);

/* worker: 0 .. qv_workers(parts, work) - 1; parts with the same worker number never run at the same time. */
typedef void (*qv_part)(void *user, int64_t part, int worker);
/* Calls part(user, i, worker) once for each i of 0 .. parts - 1, in any order. work: number of multiplications in all
   parts; if it is small, the caller's thread runs all parts. */
void qv_for_parts(qv_part part, void *user, int64_t parts, int64_t work);
#endif
