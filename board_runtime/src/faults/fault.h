/* Types and helper functions of faults. A fault changes a node's output after its kernel ran, or changes a private copy
   of the node, which then runs in its place. */
#ifndef QV_FAULT_H
#define QV_FAULT_H
#include "../ops/op.h"

/* The reason why a fault cannot be applied to a node; NULL if it was applied. */
typedef const char *qv_why;

/* The output that a fault changes, as planes of `area` = rows x columns elements, with `channels` planes for each item
   of the batch. If the planes are single elements, rows is 1 and columns is the number of all elements; each element is
   still a channel. */
typedef struct {
  const qv_session *s;
  const qv_node *n;
  const qv_tensor *y;
  uint8_t *data;         /* the dense output, to be changed */
  const uint8_t *before; /* a copy of what the kernel wrote */
  int64_t elements, channels, area, rows, columns;
  size_t size;   /* bytes per element */
  uint64_t seed; /* the fault's :SEED, or 0 */
} qv_output_fault;

/* Returns the next number of a pseudo-random sequence (splitmix64), or one from 0 to bound - 1. */
uint64_t qv_roll(uint64_t *state);
int64_t qv_roll_below(uint64_t *state, int64_t bound);
/* Sets data[i] = before[from(i)], or pseudo-random bytes if from(i) is negative. */
void qv_permute(const qv_output_fault *f, int64_t (*from)(const qv_output_fault *f, int64_t i));
/* Sets data[i] = value(i, before[i]), limited to the type's range. Refused for tensors that are not quantized. */
qv_why qv_map(const qv_output_fault *f, int32_t (*value)(const qv_output_fault *f, int64_t i, int32_t v));
/* Return the position of element i. */
int64_t qv_plane_of(const qv_output_fault *f, int64_t i);
int64_t qv_row_of(const qv_output_fault *f, int64_t i);
int64_t qv_column_of(const qv_output_fault *f, int64_t i);

#endif
