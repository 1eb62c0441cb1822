/* Answers RUN and UNIT: loads the model with the given hash and its inputs from the store, runs it, and sends an event
   for each tensor. */
#include <stdarg.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "../posix.h"
#include "agent.h"
#include "wire.h"

static void clear(qv_held_list *l) {
  for (uint32_t i = 0; i < l->count; i++) free(l->items[i].data);
  free(l->items);
  memset(l, 0, sizeof *l);
}

enum { QV_KEPT = 512 };                    /* tensors that one run may keep */
enum { BATCH = 64, BATCH_NS = 200000000 }; /* number of events, and time in nanoseconds, after which a batch is sent */

static void forget_run(qv_agent *a) {
  clear(&a->injected);
  clear(&a->copies);
  free(a->events);
  free(a->reported);
  a->events = NULL;
  a->reported = NULL;
  a->event_count = a->event_room = 0;
}

void qv_agent_forget(qv_agent *a) {
  forget_run(a);
  a->ran = 0;
  if (a->loaded_any) qv_unload(&a->loaded);
  a->loaded_any = 0;
}

#define QV_TEXT_OF(value) #value
#define QV_TEXT(value) QV_TEXT_OF(value)

static qv_status failed(qv_agent *a, qv_status status, const char *format, ...) {
  va_list words;
  va_start(words, format);
  vsnprintf(a->run_error, sizeof a->run_error, format, words);
  va_end(words);
  return status;
}

/* Returns a text on which contents a store in memory keeps, "" for a store in a folder. */
static const char *of_the_last(const qv_agent *a) {
  return a->store.folder ? "" : ", which keeps the last " QV_TEXT(QV_STORE_LIMIT) " contents";
}

/* Loads the model with this hash, which is kept until another one is requested. */
static qv_status want_model(qv_agent *a, const uint8_t hash[32]) {
  if (a->loaded_any && memcmp(a->model_hash, hash, 32) == 0) return QV_OK;
  qv_agent_forget(a);
  uint8_t *data = NULL;
  size_t bytes = 0;
  int whole, mapped = 0;
  qv_status status = qv_store_map(&a->store, hash, &data, &bytes, &mapped);
  if (status == QV_E_MEMORY)
    return failed(a, status, "not enough memory on the board to hold the model, %llu bytes",
                  (unsigned long long)qv_store_held(&a->store, hash, &whole));
  if (status != QV_OK)
    return failed(a, status, "the model (%02x%02x%02x%02x...) is not in the board's store%s, or is damaged there", hash[0], hash[1],
                  hash[2], hash[3], of_the_last(a));
  status = qv_load_bytes(&a->loaded, data, bytes, mapped, a->memory_limit);
  if (status != QV_OK) {
    failed(a, status, "%s", a->loaded.model.error);
    qv_unload(&a->loaded);
    return status;
  }
  memcpy(a->model_hash, hash, 32);
  a->loaded_any = 1;
  return QV_OK;
}

static qv_status read_inputs(qv_agent *a, qv_cursor *c) {
  qv_model *m = &a->loaded.model;
  uint32_t count = qv_take16(c);
  if (c->bad || (int32_t)count != m->n_inputs) return failed(a, QV_E_INPUT, "RUN: %u inputs, wanted %d", (unsigned)count, m->n_inputs);
  for (uint32_t i = 0; i < count; i++) {
    const uint8_t *hash = qv_take(c, 32);
    uint8_t *data = NULL;
    size_t bytes = 0;
    qv_status status = hash ? qv_store_load(&a->store, hash, &data, &bytes) : QV_E_PROTOCOL;
    if (status == QV_OK) status = qv_set_input(&a->loaded.session, m->inputs[i], data, (int64_t)bytes);
    free(data);
    if (status == QV_E_NOT_FOUND)
      return failed(a, status, "input %.80s is not in the board's store%s", m->tensors[m->inputs[i]].name, of_the_last(a));
    if (status != QV_OK)
      return failed(a, status, "input %.80s: %lu bytes from the store, wanted %ld", m->tensors[m->inputs[i]].name, (unsigned long)bytes,
                    (long)m->tensors[m->inputs[i]].aligned_bytes);
  }
  return QV_OK;
}

/* Reads the list of injected tensors: for each, its name and the hash of its dense bytes. These are set before the
   nodes that read the tensor run (UNIT), or after the node that computes it (RUN). */
static qv_status read_injected(qv_agent *a, qv_cursor *c) {
  char name[QV_TEXT];
  uint32_t count = qv_take16(c);
  if (c->bad || count > QV_LIST_MAX)
    return failed(a, QV_E_PROTOCOL, "%u injected tensors, wanted a whole list of at most %d", (unsigned)count, (int)QV_LIST_MAX);
  a->injected.items = calloc(count + 1, sizeof(qv_held));
  if (!a->injected.items) return QV_E_MEMORY;
  for (uint32_t i = 0; i < count; i++) {
    qv_take_text(c, name);
    const uint8_t *hash = qv_take(c, 32);
    if (!hash) return failed(a, QV_E_PROTOCOL, "injected tensor %u of %u is cut short", (unsigned)i + 1, (unsigned)count);
    int tensor = qv_find_tensor(&a->loaded.model, name);
    if (tensor < 0) return failed(a, QV_E_NOT_FOUND, "no such tensor to inject: %.80s", name);
    qv_held *item = &a->injected.items[a->injected.count];
    qv_status status = qv_store_load(&a->store, hash, &item->data, &item->bytes);
    if (status != QV_OK) return failed(a, status, "content not in the store, for injected tensor %.80s", name);
    item->tensor = tensor;
    a->injected.count++;
    const qv_tensor *t = &a->loaded.model.tensors[tensor];
    if (t->constant || (int64_t)item->bytes != t->dense_bytes)
      return failed(a, QV_E_INPUT, "%lu bytes injected as %.80s, wanted %ld and no constant", (unsigned long)item->bytes, name,
                    (long)t->dense_bytes);
  }
  return QV_OK;
}

static qv_status read_reported(qv_agent *a, qv_cursor *c) {
  char name[QV_TEXT];
  uint32_t count = qv_take16(c);
  a->reported = calloc((size_t)a->loaded.model.n_tensors + 1, 1);
  if (!a->reported) return QV_E_MEMORY;
  if (c->bad || count > QV_LIST_MAX)
    return failed(a, QV_E_PROTOCOL, "%u tensors listed, wanted a whole list of at most %d", (unsigned)count, (int)QV_LIST_MAX);
  a->copies.items = calloc(count + 1, sizeof(qv_held));
  if (!a->copies.items) return QV_E_MEMORY;
  for (uint32_t i = 0; i < count; i++) {
    qv_take_text(c, name);
    int tensor = c->bad ? -1 : qv_find_tensor(&a->loaded.model, name);
    if (tensor < 0) return failed(a, c->bad ? QV_E_PROTOCOL : QV_E_NOT_FOUND, "no such tensor: %.80s", name);
    a->reported[tensor] = 1;
  }
  return QV_OK;
}

static qv_status make_room(qv_agent *a, uint64_t events) {
  if (events > QV_EVENTS_MAX)
    return failed(a, QV_E_MEMORY, "%llu events, wanted at most %d; ask for fewer repetitions", (unsigned long long)events,
                  (int)QV_EVENTS_MAX);
  a->events = malloc((size_t)(events + 1) * sizeof(qv_event));
  a->event_room = (uint32_t)events;
  return a->events ? QV_OK : QV_E_MEMORY;
}

uint32_t qv_agent_event(const qv_agent *a, uint32_t index, uint8_t *p) {
  const qv_event *e = &a->events[index];
  qv_put32(p, index);
  qv_put32(p + 4, e->iteration);
  qv_put64(p + 8, e->digest);
  qv_put64(p + 16, e->elapsed_ns);
  return 24 + qv_put_text(p + 24, a->loaded.model.tensors[e->tensor].name);
}

/* Sends NODES with the events since the last NODES, 16 bytes each. */
static void flush_events(qv_agent *a) {
  uint8_t *p = a->out + QV_FRAME_HEADER;
  uint32_t length = 8;
  if (a->events_sent >= a->event_count) return;
  qv_put32(p, a->events_sent);
  qv_put32(p + 4, a->events[a->events_sent].iteration);
  for (; a->events_sent < a->event_count; a->events_sent++, length += 16) {
    const qv_event *e = &a->events[a->events_sent];
    uint64_t us = e->elapsed_ns / 1000;
    qv_put32(p + length, (uint32_t)e->tensor);
    qv_put64(p + length + 4, e->digest);
    qv_put32(p + length + 12, us < UINT32_MAX ? (uint32_t)us : UINT32_MAX);
  }
  a->flushed_ns = qv_now_ns();
  qv_agent_send(a, QV_NODES, a->run_sequence, length);
}

/* Copies a tensor that RUN lists, if its memory may be used for another tensor before GET. */
static void copy_value(qv_agent *a, int tensor) {
  const qv_tensor *t = &a->loaded.model.tensors[tensor];
  if (a->loaded.session.keep_all || !a->reported[tensor] || a->iteration || a->running != 1) return;
  uint8_t *data = malloc((size_t)t->dense_bytes + 1);
  if (!data) return;
  qv_read_tensor(&a->loaded.session, tensor, 0, data);
  qv_held item = {tensor, (size_t)t->dense_bytes, data};
  a->copies.items[a->copies.count++] = item;
}

static int on_node(void *user, const qv_session *s, int index, uint64_t elapsed_ns) {
  qv_agent *a = user;
  const qv_node *n = &s->model->nodes[index];
  qv_wire_alive();
  qv_agent_poll(a);
  for (int i = 0; i < n->n_outputs; i++) {
    int tensor = n->outputs[i];
    const qv_tensor *t = &s->model->tensors[tensor];
    const qv_held *given = a->running == 1 ? qv_find_held(&a->injected, tensor) : NULL;
    if (given) qv_set_dense(&a->loaded.session, tensor, given->data, (int64_t)given->bytes);
    if (!(a->report_all && !(t->flags & QV_INTERIOR)) && !a->reported[tensor]) continue;
    copy_value(a, tensor);
    if (a->event_count >= a->event_room) continue;
    qv_event event = {tensor, a->iteration, a->digests ? qv_tensor_digest(s, tensor) : 0, elapsed_ns};
    a->events[a->event_count] = event;
    uint32_t length = qv_agent_event(a, a->event_count++, a->out + QV_FRAME_HEADER);
    if (!a->batched) qv_agent_send(a, QV_NODE, a->run_sequence, length);
    else if (a->event_count - a->events_sent >= BATCH || qv_now_ns() - a->flushed_ns > BATCH_NS) flush_events(a);
  }
  return a->cancelled || a->broken;
}

/* Reads the list of the tensors that the store keeps after the run. */
static qv_status read_kept(qv_agent *a, qv_cursor *c, int kept[QV_KEPT], uint32_t *count) {
  char name[QV_TEXT];
  *count = qv_take16(c);
  if (c->bad || *count > QV_KEPT)
    return failed(a, QV_E_PROTOCOL, "%u tensors to keep, wanted a whole list of at most %d", (unsigned)*count, (int)QV_KEPT);
  for (uint32_t i = 0; i < *count; i++) {
    qv_take_text(c, name);
    kept[i] = c->bad ? -1 : qv_find_tensor(&a->loaded.model, name);
    if (kept[i] < 0 || !(a->loaded.model.tensors[kept[i]].flags & QV_OUTPUT))
      return failed(a, QV_E_NOT_FOUND, "no such final output to keep: %.80s", name);
  }
  return QV_OK;
}

/* Puts the dense bytes of a final output into the store, so that a host that asks for their hash need not send them. Where
   there is no room, nothing is kept. */
static void keep(qv_agent *a, int tensor) {
  const qv_tensor *t = &a->loaded.model.tensors[tensor];
  uint8_t *data = qv_data(&a->loaded.session, t), hash[32];
  const size_t bytes = (size_t)t->dense_bytes;
  if (!data || bytes > UINT32_MAX) return;
  qv_sha256 sum;
  qv_border_order(data, t->dtype, bytes);
  qv_sha256_init(&sum);
  qv_sha256_add(&sum, data, bytes);
  qv_sha256_end(&sum, hash);
  (void)qv_store_put(&a->store, hash, bytes, 0, data, (uint32_t)bytes);
  qv_border_order(data, t->dtype, bytes);
}

static qv_status run_whole(qv_agent *a, qv_cursor *c) {
  static int kept_tensors[QV_KEPT];
  uint32_t kept_count = 0;
  const uint8_t *flags = qv_take(c, 1);
  uint32_t repeat = qv_take32(c);
  if (c->bad) return failed(a, QV_E_PROTOCOL, "RUN is cut short before its flags and repetitions end");
  a->digests = flags[0] & 1;
  a->report_all = (flags[0] & 2) != 0;
  a->batched = (flags[0] & 4) != 0;
  a->events_sent = 0;
  a->flushed_ns = qv_now_ns();
  /* The inputs are set again before each repetition, because their memory may be used for other tensors during a run.
     */
  const qv_cursor inputs = *c;
  qv_status status = read_inputs(a, c);
  if (status == QV_OK) status = read_reported(a, c);
  if (status == QV_OK) status = read_injected(a, c);
  if (status == QV_OK && flags[0] & 8) status = read_kept(a, c, kept_tensors, &kept_count);
  if (status != QV_OK) return status;
  if (repeat < 1) repeat = 1;
  const size_t kept = (size_t)(inputs.end - inputs.p);
  uint8_t *again = malloc(kept + 1);
  if (!again) return QV_E_MEMORY;
  memcpy(again, inputs.p, kept);
  status = make_room(a, (uint64_t)repeat * (uint64_t)a->loaded.model.n_tensors > QV_EVENTS_MAX && repeat == 1
                            ? QV_EVENTS_MAX
                            : (uint64_t)repeat * (uint64_t)a->loaded.model.n_tensors);
  qv_run_hooks hooks = {on_node, a, qv_now_ns};
  for (a->iteration = 0; a->iteration < repeat && status == QV_OK; a->iteration++) {
    qv_cursor once = {again, again + kept, 0};
    if (a->iteration) status = read_inputs(a, &once);
    if (status == QV_OK) status = qv_run(&a->loaded.session, &hooks);
    if (a->batched) flush_events(a); /* a batch has the events of one iteration only */
  }
  free(again);
  for (uint32_t i = 0; i < kept_count && status == QV_OK; i++) keep(a, kept_tensors[i]);
  return status;
}

/* Sets the injected inputs of a node right before it runs, because their memory may contain other tensors until then.
   */
static void inject_for(qv_agent *a, const qv_node *n) {
  for (int i = 0; i < n->n_inputs; i++) {
    const qv_held *given = n->inputs[i] >= 0 ? qv_find_held(&a->injected, n->inputs[i]) : NULL;
    if (given) qv_set_dense(&a->loaded.session, given->tensor, given->data, (int64_t)given->bytes);
  }
}

static qv_status run_unit(qv_agent *a, qv_cursor *c) {
  static int indices[QV_LIST_MAX];
  char name[QV_TEXT];
  uint32_t count = qv_take16(c);
  if (c->bad || count > QV_LIST_MAX)
    return failed(a, QV_E_PROTOCOL, "%u nodes listed, wanted a whole list of at most %d", (unsigned)count, (int)QV_LIST_MAX);
  for (uint32_t i = 0; i < count; i++) {
    qv_take_text(c, name);
    indices[i] = c->bad ? -1 : qv_find_node(&a->loaded.model, name);
    if (indices[i] < 0) return failed(a, QV_E_NOT_FOUND, "no such node: %.80s", name);
  }
  qv_status status = read_injected(a, c);
  a->reported = calloc((size_t)a->loaded.model.n_tensors + 1, 1);
  if (status == QV_OK && !a->reported) status = QV_E_MEMORY;
  if (status == QV_OK) status = make_room(a, (uint64_t)count * 64);
  a->digests = a->report_all = 1;
  a->iteration = 0;
  a->batched = 0;
  qv_run_hooks hooks = {on_node, a, qv_now_ns};
  for (uint32_t i = 0; i < count && status == QV_OK; i++) {
    inject_for(a, &a->loaded.model.nodes[indices[i]]);
    a->last_unit_node = indices[i];
    status = qv_run_node(&a->loaded.session, indices[i], &hooks);
  }
  return status;
}

void qv_agent_done(qv_agent *a) {
  uint8_t *p = a->out + QV_FRAME_HEADER;
  qv_put32(p, (uint32_t)a->run_status);
  uint32_t length = 4 + qv_put_text(p + 4, a->run_error);
  qv_put64(p + length, a->loaded_any ? (uint64_t)a->loaded.session.arena_bytes : 0);
  qv_put32(p + length + 8, a->event_count);
  p[length + 12] = a->loaded_any && a->loaded.session.keep_all;
  qv_agent_send(a, QV_DONE, a->run_sequence, length + 13);
}

void qv_agent_run(qv_agent *a, const qv_frame *f) {
  if (a->ran && a->run_sequence == f->sequence) {
    qv_agent_done(a);
    return;
  }
  qv_cursor c = qv_payload(f);
  const uint8_t *hash = qv_take(&c, 32);
  forget_run(a);
  a->cancelled = 0;
  a->last_unit_node = -1;
  a->run_error[0] = 0;
  if (a->loaded_any) a->loaded.model.error[0] = 0;
  a->run_sequence = f->sequence;
  a->running = f->type == QV_UNIT ? 2 : 1;
  if (a->running == 1) a->store.needed.count = 0; /* the connection now needs only the contents that this run uses */
  qv_wire_watch(1, a->node_limit_s);
  qv_status status = hash ? want_model(a, hash)
                          : failed(a, QV_E_PROTOCOL, "RUN of %u bytes, wanted the hash of a model, 32, and more", (unsigned)f->length);
  if (status == QV_OK) status = a->running == 2 ? run_unit(a, &c) : run_whole(a, &c);
  if (status != QV_OK && !a->run_error[0]) {
    const char *error = a->loaded_any && status != QV_E_CANCELLED ? a->loaded.model.error : "";
    failed(a, status, "%s", error[0] ? error : qv_status_phrase(status));
  }
  a->run_status = status;
  a->running = 0;
  qv_wire_watch(0, 0);
  a->ran = 1;
  clear(&a->injected);
  if (hash) qv_need(&a->store.needed, hash);
  if (f->type == QV_RUN) a->store.needed.of_run = a->store.needed.count;
  else a->store.needed.count = a->store.needed.of_run;
  qv_agent_done(a);
}
