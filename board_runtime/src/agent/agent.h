/* What the agent's files share: its state, and how an answer leaves. */
#ifndef QV_AGENT_H
#define QV_AGENT_H
#include "../loaded.h"
#include "board_lock.h"
#include "frames.h"
#include "messages.h"
#include "store.h"

enum { QV_EVENTS_MAX = 1 << 20, QV_LIST_MAX = 4096 };

typedef struct {
  int32_t tensor;
  uint32_t iteration;
  uint64_t digest, elapsed_ns;
} qv_event;

/* Bytes the agent holds for a tensor: to be injected, or a copy taken during a run for GET. */
typedef struct {
  int32_t tensor;
  size_t bytes;
  uint8_t *data;
} qv_held;

typedef struct {
  qv_held *items;
  uint32_t count;
} qv_held_list;

/* NULL: not in the list. */
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
  const char *lock_path; /* NULL: nobody else can use this board */
  qv_board_lock lock;
  int lock_state, lock_lost; /* lost: held until its file was deleted */
  long idle_s;               /* ends after so long without a request; 0 never */
  long node_limit_s;         /* ends where a node takes longer; 0 never */
  int broken;                /* the other end is gone */
  int loaded_any;
  uint8_t model_hash[32];
  qv_loaded loaded;
  /* of the run that is going on, or was the last */
  uint32_t run_sequence, iteration, event_count, event_room, events_sent;
  uint64_t flushed_ns;
  int running, ran, cancelled, digests, report_all, batched, last_unit_node;
  qv_status run_status;
  char run_error[256];
  uint8_t *reported; /* one byte a tensor: NODE events wanted, value copied when it would not last */
  qv_event *events;
  qv_held_list injected, copies;
} qv_agent;

void qv_agent_send(qv_agent *a, uint8_t type, uint32_t sequence, uint32_t length); /* payload is in a->out already */
void qv_agent_error(qv_agent *a, uint32_t sequence, qv_status status, const char *text);
/* Frames that came while a run is going on: PING, CANCEL and the run's own repetition are answered, the rest refused. */
void qv_agent_poll(qv_agent *a);

/* run_request.c */
void qv_agent_run(qv_agent *a, const qv_frame *f);                      /* RUN and UNIT */
void qv_agent_done(qv_agent *a);                                        /* DONE of the last run, again if need be */
uint32_t qv_agent_event(const qv_agent *a, uint32_t index, uint8_t *p); /* bytes written */
void qv_agent_forget(qv_agent *a);                                      /* the model and everything of its last run */

/* get_request.c */
void qv_agent_get(qv_agent *a, const qv_frame *f);
#endif
