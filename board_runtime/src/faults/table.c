/* The op table of qvrt-faulty: every op runs correctly, except at the nodes that the environment variable
   QVRT_FAULT=KIND[:SEED]@NODE[|...] names. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../ops/list.h"
#include "parameter_faults.h"
#include "output_faults.h"

typedef struct {
  const char *name;
  qv_why (*damage)(const qv_output_fault *f); /* changes the output after the kernel; or NULL */
  qv_why (*change)(qv_shadow *w);             /* changes a copy of the node, which then runs; or NULL */
  int64_t fewest;                             /* least number of elements to change: fewer look like flipped bits */
} fault_kind;

enum { FEWEST = 16 };

#define OUTPUT_FAULT(kind) {#kind, qv_output_##kind, NULL, 0},
#define PARAMETER_FAULT(kind) {#kind, NULL, qv_parameter_##kind, 0},
#define WITHHELD_OUTPUT_FAULT(kind) {#kind, qv_output_##kind, NULL, FEWEST},
#define WITHHELD_PARAMETER_FAULT(kind) {#kind, NULL, qv_parameter_##kind, FEWEST},
static const fault_kind kinds[] = {QV_OUTPUT_FAULTS(OUTPUT_FAULT) QV_PARAMETER_FAULTS(PARAMETER_FAULT)
                                       QV_WITHHELD_OUTPUT_FAULTS(WITHHELD_OUTPUT_FAULT)
                                           QV_WITHHELD_PARAMETER_FAULTS(WITHHELD_PARAMETER_FAULT) QV_FLOAT_OUTPUT_FAULTS(OUTPUT_FAULT)
                                               QV_FLOAT_PARAMETER_FAULTS(PARAMETER_FAULT)};

/* One requested fault: the text KIND[:SEED]@NODE from `text` to `end`, with its "@" at `at`. */
typedef struct {
  const char *text, *at, *end;
  uint64_t seed;
} asked_fault;

/* Ends the process: with a fault that cannot be applied, a test would pass without having tested anything. */
static void refuse(const char *why) {
  fprintf(stderr, "QVRT_FAULT=%s: %s\n", getenv("QVRT_FAULT"), why);
  exit(4);
}

/* Reads one fault. Returns the text of the next one, or NULL after the last. */
static const char *read_fault(const char *text, asked_fault *a) {
  a->text = text;
  a->end = text + strcspn(text, "|");
  a->at = memchr(text, '@', (size_t)(a->end - text));
  if (!a->at) refuse("wanted KIND[:SEED]@NODE");
  const char *colon = memchr(text, ':', (size_t)(a->at - text));
  a->seed = colon ? strtoull(colon + 1, NULL, 10) : 0;
  return *a->end ? a->end + 1 : NULL;
}

static int names(const asked_fault *a, const char *node) {
  size_t length = (size_t)(a->end - a->at - 1);
  return strlen(node) == length && memcmp(a->at + 1, node, length) == 0;
}

static int is_kind(const asked_fault *a, const char *kind) {
  size_t length = strcspn(a->text, ":@");
  return strlen(kind) == length && memcmp(a->text, kind, length) == 0;
}

/* Applies the kinds that end or block the process; returns only for other kinds. */
static void end_process(const asked_fault *a) {
  if (is_kind(a, "die")) raise(SIGKILL);
  else if (is_kind(a, "hang"))
    for (;;) pause();
  else if (is_kind(a, "garbage") && write(STDOUT_FILENO, "kernel: oops\n", 13) == 13) _exit(0);
}

static void measure(qv_output_fault *f) {
  const qv_tensor *y = f->y;
  f->channels = y->rank > 1 ? y->shape[1] : 1;
  f->area = y->rank > 1 ? y->elements / y->shape[0] / y->shape[1] : 1;
  f->columns = f->area > 1 ? y->shape[y->rank - 1] : y->elements;
  f->rows = f->area > 1 ? f->area / f->columns : 1;
}

static qv_why damage(const fault_kind *kind, const qv_session *s, const qv_node *n, uint64_t seed, const uint8_t *before) {
  const qv_tensor *y = &s->model->tensors[n->outputs[0]];
  qv_output_fault f = {.s = s,
                       .n = n,
                       .y = y,
                       .data = qv_data(s, y),
                       .before = before,
                       .elements = y->elements,
                       .size = qv_dtype_size(y->dtype),
                       .seed = seed};
  measure(&f);
  return kind->damage(&f);
}

static qv_why change(const fault_kind *kind, const qv_session *s, const qv_node *n, uint64_t seed) {
  qv_shadow *w = qv_shadow_open(s, n, seed);
  if (!w) return "no memory";
  qv_why why = kind->change(w);
  if (!why) why = qv_shadow_run(w, s, n);
  qv_shadow_close(w);
  return why;
}

static int64_t changed(const qv_tensor *y, const uint8_t *now, const uint8_t *before) {
  size_t size = qv_dtype_size(y->dtype);
  int64_t count = 0;
  for (int64_t i = 0; i < y->elements; i++) count += memcmp(now + (size_t)i * size, before + (size_t)i * size, size) != 0;
  return count;
}

static qv_why apply(const fault_kind *kind, const qv_session *s, const qv_node *n, uint64_t seed) {
  const qv_tensor *y = &s->model->tensors[n->outputs[0]];
  uint8_t *before = malloc((size_t)y->dense_bytes);
  if (!before) return "no memory";
  memcpy(before, qv_data(s, y), (size_t)y->dense_bytes);
  qv_why why = kind->damage ? damage(kind, s, n, seed, before) : change(kind, s, n, seed);
  if (!why && changed(y, qv_data(s, y), before) < kind->fewest) why = "it changes too few elements there";
  free(before);
  return why;
}

static void strike(const asked_fault *a, const qv_session *s, const qv_node *n) {
  end_process(a);
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (!is_kind(a, kinds[i].name)) continue;
    qv_why why = apply(&kinds[i], s, n, a->seed);
    if (why) refuse(why);
    return;
  }
  refuse("no such kind");
}

static void fault(const qv_session *s, const qv_node *n) {
  asked_fault a;
  for (const char *text = getenv("QVRT_FAULT"); text;) {
    text = read_fault(text, &a);
    int known = 0;
    for (int i = 0; i < s->model->n_nodes && !known; i++) known = names(&a, s->model->nodes[i].name);
    if (!known) refuse("the model has no such node");
    if (names(&a, n->name)) strike(&a, s, n);
  }
}

qv_status qv_run_op(const qv_session *s, const qv_node *n) {
  qv_status status = qv_run_kernel(s, n);
  if (status == QV_OK) fault(s, n);
  return status;
}

#define ENTRY(stem) &qv_op_##stem,
const qv_op *const qv_op_table[] = {QV_OPS(ENTRY) NULL};
