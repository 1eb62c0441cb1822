/* A pool of threads that share the parts of one loop at a time. */
#define _POSIX_C_SOURCE 200809L
#include "threads.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

enum { WORTH_IT = 1 << 18 }; /* multiplications from which on it pays to wake a thread */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER, ended = PTHREAD_COND_INITIALIZER;
static int threads = 1, settled; /* settled: 1 once a model has memory for this number of threads */
static struct {
  qv_part part;
  void *user;
  int64_t next, parts;
  int workers;     /* threads that take part; the others wake and do nothing */
  int busy;        /* threads that have not finished this loop */
  uint64_t number; /* number of this loop, counted from 1 */
} loop;

/* Runs parts until none is left. The caller holds the lock, which is released while a part runs. */
static void take_parts(int worker) {
  while (loop.next < loop.parts) {
    int64_t part = loop.next++;
    pthread_mutex_unlock(&lock);
    loop.part(loop.user, part, worker);
    pthread_mutex_lock(&lock);
  }
}

static void *work_on(void *number) {
  int worker = (int)(intptr_t)number;
  uint64_t done = 0;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (loop.number == done) pthread_cond_wait(&begun, &lock);
    done = loop.number;
    if (worker < loop.workers) take_parts(worker);
    if (--loop.busy == 0) pthread_cond_signal(&ended);
  }
  return NULL;
}

int qv_start_threads(int wanted) {
  sigset_t all, former;
  if (settled || sigfillset(&all) != 0 || pthread_sigmask(SIG_SETMASK, &all, &former) != 0) return threads;
  pthread_mutex_lock(&lock);
  while (threads < wanted && threads < QV_MOST_THREADS) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work_on, (void *)(intptr_t)threads) != 0) break;
    pthread_detach(thread);
    threads++;
  }
  pthread_mutex_unlock(&lock);
  pthread_sigmask(SIG_SETMASK, &former, NULL);
  return threads;
}

int qv_threads(void) { return threads; }

int qv_workers(int64_t parts, int64_t work) {
  settled = 1;
  if (parts < 2 || work < WORTH_IT) return 1;
  return parts < threads ? (int)parts : threads;
}

void qv_for_parts(qv_part part, void *user, int64_t parts, int64_t work) {
  int workers = qv_workers(parts, work);
  if (workers == 1) {
    for (int64_t i = 0; i < parts; i++) part(user, i, 0);
    return;
  }
  pthread_mutex_lock(&lock);
  loop.part = part;
  loop.user = user;
  loop.next = 0;
  loop.parts = parts;
  loop.workers = workers;
  loop.busy = threads - 1;
  loop.number++;
  pthread_cond_broadcast(&begun);
  take_parts(0);
  while (loop.busy) pthread_cond_wait(&ended, &lock);
  pthread_mutex_unlock(&lock);
}
