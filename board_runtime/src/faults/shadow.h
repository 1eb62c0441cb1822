/* A private copy of one node with its tensors, constants and inputs, which a fault changes before the
   kernel runs on it. */
#ifndef QV_SHADOW_H
#define QV_SHADOW_H
#include "fault.h"

enum { QV_SHADOW_TENSORS = 128, QV_SHADOW_WORDS = 64 };

typedef struct {
  qv_model model;
  qv_session session;
  qv_node node;
  qv_tensor tensors[QV_SHADOW_TENSORS];
  int32_t ends[QV_SHADOW_TENSORS], words[QV_SHADOW_WORDS]; /* ends: tensor indices of the inputs, then of the outputs */
  uint64_t seed;
} qv_shadow;

/* Copies a node. The caller changes the copy, runs it once and closes it. Returns NULL if there is not
   enough memory. */
qv_shadow *qv_shadow_open(const qv_session *s, const qv_node *n, uint64_t seed);
/* Runs the changed node and copies its outputs to those of the original node. Returns the reason if the op
   refuses the change. */
qv_why qv_shadow_run(qv_shadow *w, const qv_session *s, const qv_node *n);
void qv_shadow_close(qv_shadow *w);

/* qv_shadow_in returns input i, or NULL if there is none; qv_shadow_out the first output. qv_shadow_bytes returns the
   bytes of a tensor and qv_shadow_zero its zero points, to be changed. */
qv_tensor *qv_shadow_in(qv_shadow *w, int i);
qv_tensor *qv_shadow_out(qv_shadow *w);
void *qv_shadow_bytes(const qv_tensor *t);
int32_t *qv_shadow_zero(const qv_tensor *t);
/* Turns t into a constant of zeros of another type and of shape [rows, columns] (or [columns], if rows is 0). Returns
   its bytes, to be filled, or NULL if there is not enough memory. */
void *qv_shadow_replace(qv_tensor *t, int32_t dtype, int32_t rows, int32_t columns);

/* The input numbers of an op's rq, weights and bias, and the word numbers of its lower activation limit and its
   window; -1: none. */
typedef struct {
  const char *op;
  int rq, low, weights, bias, window;
} qv_roles;
const qv_roles *qv_roles_of(const qv_node *n); /* never NULL; every number is -1 for other ops */
#endif
