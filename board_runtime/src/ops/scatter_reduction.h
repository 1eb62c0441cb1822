/* How a scattered element meets the one that is there: 0 replaces it, 1 add, 2 mul, 3 max, 4 min (NUMERICS.md, scatter_nd). */
#ifndef QV_OPS_SCATTER_REDUCTION_H
#define QV_OPS_SCATTER_REDUCTION_H
#include "op.h"

enum { QV_SCATTER_NONE, QV_SCATTER_ADD, QV_SCATTER_MUL, QV_SCATTER_MAX, QV_SCATTER_MIN };

/* Types and words that scatter_elements and scatter_nd have in common: x, indices, updates; `reduction` is the word. */
qv_status qv_check_scatter(qv_model *m, const qv_node *n, int32_t reduction);
/* Puts `count` elements of `from` into `to`. */
void qv_scatter(void *to, const void *from, int32_t dtype, int64_t count, int32_t reduction);
#endif
