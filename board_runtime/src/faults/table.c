/* The op table of qvrt-faulty: every op runs as it should, then the fault QVRT_FAULT=KIND@NODE spoils that node's output. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../ops/list.h"

/* Spoils the bytes of a tensor; kinds that end or block the process never return. */
static void spoil(const char *kind, const qv_tensor *t, uint8_t *data) {
  size_t bytes = (size_t)t->dense_bytes, size = qv_dtype_size(t->dtype);
  if (strncmp(kind, "bitflip", 7) == 0) data[bytes / 2] ^= 1;
  else if (strncmp(kind, "off_by_one", 10) == 0) memmove(data + size, data, bytes - size);
  else if (strncmp(kind, "zero_tail", 9) == 0) memset(data + bytes / 2, 0, bytes - bytes / 2);
  else if (strncmp(kind, "plus_one", 8) == 0) for (size_t i = 0; i < bytes; i += size) data[i]++;
  else if (strncmp(kind, "nan", 3) == 0) for (size_t i = 0; i + 4 <= bytes && t->dtype == QV_F32; i += 4) memset(data + i, 0xff, 4);
  else if (strncmp(kind, "die", 3) == 0) raise(SIGKILL);
  else if (strncmp(kind, "hang", 4) == 0) for (;;) pause();
  else if (strncmp(kind, "garbage", 7) == 0 && write(STDOUT_FILENO, "kernel: oops\n", 13) == 13) _exit(0);
}

/* A fault that can never strike would make a test pass for nothing. */
static void refuse(const char *asked, const char *why) {
  fprintf(stderr, "QVRT_FAULT=%s: %s\n", asked, why);
  exit(4);
}

static void fault(const qv_session *s, const qv_node *n) {
  static int known;
  const char *asked = getenv("QVRT_FAULT"), *at = asked ? strchr(asked, '@') : NULL;
  if (!at) return;
  for (int i = 0; i < s->model->n_nodes && !known; i++) known = strcmp(at + 1, s->model->nodes[i].name) == 0;
  if (!known) refuse(asked, "the model has no such node");
  if (strcmp(at + 1, n->name) != 0) return;
  const qv_tensor *t = &s->model->tensors[n->outputs[0]];
  if (strncmp(asked, "nan", 3) == 0 && t->dtype != QV_F32) refuse(asked, "nan needs a float tensor");
  spoil(asked, t, qv_data(s, t));
}

#define WRAP(stem) \
  static qv_status faulty_##stem(const qv_session *s, const qv_node *n) { \
    qv_status status = qv_op_##stem.run(s, n); \
    if (status == QV_OK) fault(s, n); \
    return status; \
  } \
  static qv_op wrapped_##stem;
QV_OPS(WRAP)

#define ENTRY(stem) &wrapped_##stem,
const qv_op *const qv_op_table[] = {QV_OPS(ENTRY) NULL};

#define FILL(stem) wrapped_##stem = qv_op_##stem; wrapped_##stem.run = faulty_##stem;
__attribute__((constructor)) static void fill(void) { QV_OPS(FILL) }
