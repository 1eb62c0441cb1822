/* A fault: what damages a node's output after its kernel ran, or changes a private copy of the node before. */
#ifndef QV_FAULT_H
#define QV_FAULT_H
#include "../ops/op.h"

/* Why a fault cannot strike at a node; NULL: it struck. */
typedef const char *qv_why;

/* The output a fault damages: planes of `area` = rows x columns elements, `channels` of them a batch. A tensor whose planes
   are single elements is one row of them all, though each is still a channel. */
typedef struct {
  const qv_session *s;
  const qv_node *n;
  const qv_tensor *y;
  uint8_t *data;         /* the output, dense */
  const uint8_t *before; /* what the kernel wrote */
  int64_t elements, channels, area, rows, columns;
  size_t size;   /* bytes of an element */
  uint64_t seed; /* the fault's :ARG, 0 without one */
} qv_output_fault;

/* splitmix64: the next number of a sequence. */
uint64_t qv_roll(uint64_t *state);
int64_t qv_roll_below(uint64_t *state, int64_t bound);
/* data[i] = before[from(i)]; a negative index reads as noise. */
void qv_permute(const qv_output_fault *f, int64_t (*from)(const qv_output_fault *f, int64_t i));
/* data[i] = value(i, before[i]), kept in the type's range. Only quantized tensors have steps to count in. */
qv_why qv_map(const qv_output_fault *f, int32_t (*value)(const qv_output_fault *f, int64_t i, int32_t v));
/* Position of element i. */
int64_t qv_plane_of(const qv_output_fault *f, int64_t i);
int64_t qv_row_of(const qv_output_fault *f, int64_t i);
int64_t qv_column_of(const qv_output_fault *f, int64_t i);

#endif
