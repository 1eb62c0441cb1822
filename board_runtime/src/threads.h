/* Parts of one node's work on several threads. Which thread does which part decides no bit. */
#ifndef QV_THREADS_H
#define QV_THREADS_H
#include <stdint.h>

enum { QV_MOST_THREADS = 64 };
/* Starts threads beside the caller's, once; they take no signals and end with the process. The number that there are now, which is
   less than wanted where the system gives no more, and stays what it is once qv_workers was asked: models have memory for it. */
int qv_start_threads(int wanted);
int qv_threads(void); /* 1 without */
/* How many threads take part in a loop of so many parts and so much work: 1 to qv_threads(). */
int qv_workers(int64_t parts, int64_t work);

/* worker: 0 .. qv_workers(parts, work) - 1, of which no two run at once. */
typedef void (*qv_part)(void *user, int64_t part, int worker);
/* Calls part(user, 0 .. parts - 1, worker), each once, in any order. work: multiplications in all; few are done by the caller alone. */
void qv_for_parts(qv_part part, void *user, int64_t parts, int64_t work);
#endif
