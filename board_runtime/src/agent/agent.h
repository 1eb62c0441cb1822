/* State and answer functions shared by the agent's files. */
#ifndef QV_AGENT_H
#define QV_AGENT_H
#include "../loaded.h"
#include "board_lock.h"
#include "frames.h"
#include "messages.h"
#include "store.h"

#ifndef QV_LIST_LIMIT
#define QV_LIST_LIMIT 4096
#endif
enum { QV_EVENTS_MAX = 1 << 20, QV_LIST_MAX = QV_LIST_LIMIT };

typedef struct {
  int32_t tensor;
  uint32_t iteration;
  uint64_t digest, elapsed_ns;
} qv_event;

/* Bytes that the agent keeps for a tensor: to be injected, or copied during a run for a later GET. */
typedef struct {
  int32_t tensor;
  size_t bytes;
  uint8_t *data;
} qv_held;

typedef struct {
  qv_held *items;
  uint32_t count;
} qv_held_list;

/* Returns the bytes kept for a tensor, or NULL if it is not in the list. */
static inline const qv_held *qv_find_held(const qv_held_list *l, int tensor) {
  for (uint32_t i = 0; i < l->count; i++)
    if (l->items[i].tensor == tensor) return &l->items[i];
  return NULL;
}

typedef struct {
  qv_store store;
  qv_frame_reader in;
  uint8_t *out;
  int64_t memory_limit;
  const char *lock_path; /* NULL: the board needs no lock */
  qv_board_lock lock;
  int lock_state, lock_lost; /* lock_lost: 1 if its file was deleted while the lock was held */
  long idle_s;               /* seconds without a request after which the agent ends; 0: never */
  long node_limit_s;         /* longest time of one node in seconds, after which the agent ends; 0: no limit */
  int broken;                /* 1 if the connection is closed */
  int loaded_any;
  uint8_t model_hash[32];
  qv_loaded loaded;
  /* state of the current run, or of the last one */
  uint32_t run_sequence, iteration, event_count, event_room, events_sent;
  uint64_t flushed_ns;
  int running, ran, cancelled, digests, report_all, batched, last_unit_node;
  qv_status run_status;
  char run_error[256];
  uint8_t *reported; /* a byte for each tensor: 1 if RUN lists it; its value is then copied unless it remains until GET */
  qv_event *events;
  qv_held_list injected, copies;
} qv_agent;

/* answers.c */
void qv_agent_send(qv_agent *a, uint8_t type, uint32_t sequence, uint32_t length); /* the payload is already in a->out */
void qv_agent_error(qv_agent *a, uint32_t sequence, qv_status status, const char *text);
/* Handles the frames that have arrived during a run: answers PING and CANCEL, ignores a repetition of the run's own
   request and refuses all others. */
void qv_agent_poll(qv_agent *a);

/* Answers PING and CANCEL with their first 64 bytes. */
void qv_agent_ping(qv_agent *a, const qv_frame *f);
/* Reads once from the connection. Returns the bytes read; 0 if none arrived within wait_ms milliseconds, -1 if it is
   closed. */
int64_t qv_agent_listen(qv_agent *a, int wait_ms);

/* run_request.c */
void qv_agent_run(qv_agent *a, const qv_frame *f);                      /* handles RUN and UNIT */
void qv_agent_done(qv_agent *a);                                        /* sends DONE of the last run */
uint32_t qv_agent_event(const qv_agent *a, uint32_t index, uint8_t *p); /* returns the bytes written */
void qv_agent_forget(qv_agent *a);                                      /* frees the model and its last run */

/* get_request.c */
void qv_agent_get(qv_agent *a, const qv_frame *f);

/* serve.c: answers frames until the agent must end. idle_ms: milliseconds without a byte after which it ends; -1: never. */
void qv_agent_serve(qv_agent *a, int idle_ms);
#endif
