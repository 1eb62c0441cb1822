/* The common part of scatter_elements and scatter_nd. The reduction combines an update with the element at its place: 0
   replaces the element, 1 adds, 2 multiplies, 3 takes the maximum, 4 the minimum (NUMERICS.md, scatter_nd). */
#ifndef QV_OPS_SCATTER_REDUCTION_H
#define QV_OPS_SCATTER_REDUCTION_H
#include "op.h"

enum { QV_SCATTER_NONE, QV_SCATTER_ADD, QV_SCATTER_MUL, QV_SCATTER_MAX, QV_SCATTER_MIN };

/* Checks x, indices, updates and the word `reduction`. */
qv_status qv_check_scatter(qv_model *m, const qv_node *n, int32_t reduction);
/* Combines `count` elements of `from` with those of `to`, and writes the results to `to`. */
void qv_scatter(void *to, const void *from, int32_t dtype, int64_t count, int32_t reduction);
#endif
