/* A private copy of one node with its tensors, constants and inputs, for faults to change before the kernel runs on it. */
#ifndef QV_SHADOW_H
#define QV_SHADOW_H
#include "fault.h"

enum { QV_SHADOW_TENSORS = 128, QV_SHADOW_WORDS = 64 };

typedef struct {
  qv_model model;
  qv_session session;
  qv_node node;
  qv_tensor tensors[QV_SHADOW_TENSORS];
  int32_t ends[QV_SHADOW_TENSORS], words[QV_SHADOW_WORDS]; /* inputs, then outputs */
  uint64_t seed;
} qv_shadow;

/* Copies; the caller changes it and runs it once, then closes it. NULL: no memory. */
qv_shadow *qv_shadow_open(const qv_session *s, const qv_node *n, uint64_t seed);
/* Runs the changed node and writes its outputs where the node's own are. Why not, where the op refuses the change. */
qv_why qv_shadow_run(qv_shadow *w, const qv_session *s, const qv_node *n);
void qv_shadow_close(qv_shadow *w);

/* Input i, or NULL. Its constant bytes (or a stream's) to change; its zero points and scales to change. */
qv_tensor *qv_shadow_in(qv_shadow *w, int i);
qv_tensor *qv_shadow_out(qv_shadow *w);
void *qv_shadow_bytes(const qv_tensor *t);
int32_t *qv_shadow_zero(const qv_tensor *t);
/* A constant of other type and shape [rows, columns] (rank 1 where rows is 0) in place of t. NULL: no memory. */
void *qv_shadow_replace(qv_tensor *t, int32_t dtype, int32_t rows, int32_t columns);

/* Where an op keeps its rq, lower activation limit, weights and bias; -1: it has none. */
typedef struct {
  const char *op;
  int rq, low, weights, bias, window;
} qv_roles;
const qv_roles *qv_roles_of(const qv_node *n); /* never NULL: all -1 for ops without any */
#endif
