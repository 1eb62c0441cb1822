/* qvrt agent: answers PROTOCOL.md on stdin and stdout. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../commands/options.h"
#include "../loaded.h"
#include "../posix.h"
#include "frames.h"
#include "store.h"

enum { BUFFER = QV_MAX_PAYLOAD + 4096 };

typedef struct {
  qv_store store;
  uint8_t *in, *out;
  uint32_t used, consumed, sequence;
  int loaded_any, broken;
  uint8_t model_hash[32];
  qv_loaded loaded;
  int digests;
} agent;

/* A cursor over a payload; `bad` once anything lies outside. */
typedef struct {
  const uint8_t *p, *end;
  int bad;
} cursor;

static const uint8_t *take(cursor *c, size_t bytes) {
  if (c->bad || (size_t)(c->end - c->p) < bytes) {
    c->bad = 1;
    return NULL;
  }
  const uint8_t *p = c->p;
  c->p += bytes;
  return p;
}

static uint32_t take16(cursor *c) {
  const uint8_t *p = take(c, 2);
  return p ? (uint32_t)p[0] | (uint32_t)p[1] << 8 : 0;
}

static int take_text(cursor *c, char out[1024]) {
  uint32_t length = take16(c);
  const uint8_t *p = length < 1024 ? take(c, length) : NULL;
  if (!p) {
    c->bad = 1;
    return 0;
  }
  memcpy(out, p, length);
  out[length] = 0;
  return 1;
}

static void send_frame(agent *a, uint8_t type, uint32_t length) {
  uint32_t size = qv_frame_finish(a->out, type, a->sequence, length), done = 0;
  while (done < size && !a->broken) {
    ssize_t wrote = write(STDOUT_FILENO, a->out + done, size - done);
    if (wrote > 0) done += (uint32_t)wrote;
    else if (wrote < 0 && errno != EINTR) a->broken = 1;
  }
}

static uint32_t put_text(uint8_t *p, const char *text) {
  size_t length = strlen(text);
  if (length > 1000) length = 1000;
  p[0] = (uint8_t)length;
  p[1] = (uint8_t)(length >> 8);
  memcpy(p + 2, text, length);
  return (uint32_t)length + 2;
}

static void send_status(agent *a, uint8_t type, qv_status status, const char *text) {
  uint8_t *p = a->out + QV_FRAME_HEADER;
  qv_put32(p, (uint32_t)status);
  uint32_t length = 4 + put_text(p + 4, text[0] ? text : qv_status_phrase(status));
  if (type == QV_DONE) {
    qv_put64(p + length, (uint64_t)a->loaded.session.arena_bytes);
    length += 8;
  }
  send_frame(a, type, length);
}

static void hello(agent *a) {
  char json[300];
  snprintf(json, sizeof json, "{\"version\": \"0.1.0\", \"protocol\": 1, \"arch\": \"%.40s\", \"memory_bytes\": %lld}", qv_machine(), (long long)qv_memory_bytes());
  send_frame(a, QV_HELLO, put_text(a->out + QV_FRAME_HEADER, json));
}

static void have(agent *a, const qv_frame *f) {
  uint32_t count = f->length / 32;
  if (f->length % 32 || count > 4096) {
    send_status(a, QV_ERROR, QV_E_PROTOCOL, "HAVE: not a list of hashes");
    return;
  }
  for (uint32_t i = 0; i < count; i++) qv_put64(a->out + QV_FRAME_HEADER + 8 * i, qv_store_held(&a->store, f->payload + 32 * i));
  send_frame(a, QV_HAVE, count * 8);
}

static void put(agent *a, const qv_frame *f) {
  if (f->length < 48) {
    send_status(a, QV_ERROR, QV_E_PROTOCOL, "PUT: too short");
    return;
  }
  uint64_t total = qv_get64(f->payload + 32), offset = qv_get64(f->payload + 40);
  qv_status status = qv_store_put(&a->store, f->payload, total, offset, f->payload + 48, f->length - 48);
  if (status != QV_OK) {
    send_status(a, QV_ERROR, status, "");
    return;
  }
  qv_put64(a->out + QV_FRAME_HEADER, qv_store_held(&a->store, f->payload));
  send_frame(a, QV_PUT, 8);
}

/* The model of a hash, loaded once and kept until another is asked for. */
static qv_status want_model(agent *a, const uint8_t *hash) {
  if (a->loaded_any && memcmp(a->model_hash, hash, 32) == 0) return QV_OK;
  if (a->loaded_any) qv_unload(&a->loaded);
  a->loaded_any = 0;
  char path[1024];
  qv_store_path(&a->store, hash, 0, path);
  qv_status status = qv_load_path(&a->loaded, path, 1);
  if (status != QV_OK) {
    char line[256];
    memcpy(line, a->loaded.model.error, sizeof line);
    qv_unload(&a->loaded);
    memcpy(a->loaded.model.error, line, sizeof line);
    return status;
  }
  memcpy(a->model_hash, hash, 32);
  a->loaded_any = 1;
  return QV_OK;
}

static qv_status set_from_store(agent *a, int tensor, const uint8_t *hash, int dense) {
  char path[1024];
  uint8_t *data = NULL;
  size_t bytes = 0;
  qv_store_path(&a->store, hash, 0, path);
  qv_status status = qv_read_file(path, &data, &bytes);
  if (status == QV_OK) status = dense ? qv_set_dense(&a->loaded.session, tensor, data, (int64_t)bytes) : qv_set_input(&a->loaded.session, tensor, data, (int64_t)bytes);
  free(data);
  return status;
}

static int on_node(void *user, const qv_session *s, int index, uint64_t elapsed_ns) {
  agent *a = user;
  const qv_node *n = &s->model->nodes[index];
  for (int i = 0; i < n->n_outputs; i++) {
    const qv_tensor *t = &s->model->tensors[n->outputs[i]];
    if (t->flags & QV_INTERIOR) continue;
    uint8_t *p = a->out + QV_FRAME_HEADER;
    uint32_t length = put_text(p, t->name);
    qv_put64(p + length, a->digests ? qv_xxh64(qv_data(s, t), (size_t)t->dense_bytes, 0) : 0);
    qv_put64(p + length + 8, elapsed_ns);
    send_frame(a, QV_NODE, length + 16);
  }
  return a->broken;
}

static void run(agent *a, const qv_frame *f) {
  cursor c = {f->payload, f->payload + f->length, 0};
  const uint8_t *hash = take(&c, 32), *flags = take(&c, 1);
  uint32_t count = take16(&c);
  qv_status status = c.bad ? QV_E_PROTOCOL : want_model(a, hash);
  if (status == QV_OK && (int32_t)count != a->loaded.model.n_inputs) status = QV_E_INPUT;
  for (uint32_t i = 0; i < count && status == QV_OK; i++) {
    const uint8_t *input = take(&c, 32);
    status = input ? set_from_store(a, a->loaded.model.inputs[i], input, 0) : QV_E_PROTOCOL;
  }
  if (status == QV_OK) {
    a->digests = flags[0] & 1;
    qv_run_hooks hooks = {on_node, a, qv_now_ns};
    status = qv_run(&a->loaded.session, &hooks);
  }
  send_status(a, QV_DONE, status, status == QV_OK ? "" : a->loaded.model.error);
}

static void unit(agent *a, const qv_frame *f) {
  cursor c = {f->payload, f->payload + f->length, 0};
  const uint8_t *hash = take(&c, 32);
  uint32_t nodes = take16(&c);
  const uint8_t *names = c.p;
  char name[1024];
  qv_status status = c.bad ? QV_E_PROTOCOL : want_model(a, hash);
  for (uint32_t i = 0; i < nodes; i++) take_text(&c, name);
  uint32_t inputs = take16(&c);
  for (uint32_t i = 0; i < inputs && status == QV_OK && !c.bad; i++) {
    take_text(&c, name);
    const uint8_t *content = take(&c, 32);
    int tensor = c.bad ? -1 : qv_find_tensor(&a->loaded.model, name);
    status = tensor < 0 || !content ? QV_E_NOT_FOUND : set_from_store(a, tensor, content, 1);
  }
  if (c.bad) status = QV_E_PROTOCOL;
  a->digests = 1;
  qv_run_hooks hooks = {on_node, a, qv_now_ns};
  c.p = names;
  for (uint32_t i = 0; i < nodes && status == QV_OK; i++) {
    take_text(&c, name);
    int index = qv_find_node(&a->loaded.model, name);
    status = index < 0 ? QV_E_NOT_FOUND : qv_run_node(&a->loaded.session, index, &hooks);
  }
  send_status(a, QV_DONE, status, "");
}

static void get(agent *a, const qv_frame *f) {
  cursor c = {f->payload, f->payload + f->length, 0};
  char name[1024];
  take_text(&c, name);
  const uint8_t *p = take(&c, 12);
  int tensor = c.bad || !a->loaded_any ? -1 : qv_find_tensor(&a->loaded.model, name);
  if (tensor < 0) {
    send_status(a, QV_ERROR, QV_E_NOT_FOUND, "GET: no such tensor in the model that ran last");
    return;
  }
  const qv_tensor *t = &a->loaded.model.tensors[tensor];
  uint64_t offset = qv_get64(p), length = qv_get32(p + 8), size = (uint64_t)t->dense_bytes;
  if (offset > size || length > 1000000) {
    send_status(a, QV_ERROR, QV_E_PROTOCOL, "GET: range outside the tensor");
    return;
  }
  if (length > size - offset) length = size - offset;
  qv_put64(a->out + QV_FRAME_HEADER, size);
  memcpy(a->out + QV_FRAME_HEADER + 8, (const uint8_t *)qv_data(&a->loaded.session, t) + offset, (size_t)length);
  send_frame(a, QV_DATA, (uint32_t)length + 8);
}

/* 0 to end. */
static int answer(agent *a, const qv_frame *f) {
  a->sequence = f->sequence;
  switch (f->type) {
    case QV_HELLO: hello(a); break;
    case QV_HAVE: have(a, f); break;
    case QV_PUT: put(a, f); break;
    case QV_RUN: run(a, f); break;
    case QV_UNIT: unit(a, f); break;
    case QV_GET: get(a, f); break;
    case QV_PING: send_frame(a, QV_PING, 0); break;
    case QV_BYE: send_frame(a, QV_BYE, 0); return 0;
    default: send_status(a, QV_ERROR, QV_E_PROTOCOL, "unknown message"); break;
  }
  return !a->broken;
}

int qv_agent_main(int argc, char **argv) {
  static agent a;
  a.store.folder = qv_option(argc, argv, "store", NULL);
  if (!a.store.folder || strlen(a.store.folder) > 700) {
    fprintf(stderr, "qvrt agent: no store given. Next: --store=DIR (an existing directory)\n");
    return 2;
  }
  a.in = qv_aligned_alloc(BUFFER);
  a.out = qv_aligned_alloc(BUFFER);
  if (!a.in || !a.out) return 3;
  for (int going = 1; going;) {
    qv_frame f;
    int found = qv_frame_take(a.in, &a.used, &a.consumed, &f);
    if (found == 1) {
      going = answer(&a, &f);
      continue;
    }
    if (found < 0) {
      a.sequence = f.sequence;
      send_status(&a, QV_ERROR, QV_E_CRC, "a frame was damaged; send it again");
      continue;
    }
    ssize_t got = read(STDIN_FILENO, a.in + a.used, BUFFER - a.used);
    if (got > 0) a.used += (uint32_t)got;
    else if (got == 0 || errno != EINTR) going = 0;
  }
  if (a.loaded_any) qv_unload(&a.loaded);
  free(a.in);
  free(a.out);
  return 0;
}
