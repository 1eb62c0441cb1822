/* The common part of arg_max and arg_min. */
#ifndef QV_ARG_SEARCH_H
#define QV_ARG_SEARCH_H
#include "op.h"

/* Checks types, axis and output shape. */
qv_status qv_check_arg(qv_model *m, qv_node *n);
/* y = index of the largest (if `least` is 1: smallest) element along the axis; of equal elements the first, or the last
   if word 1 is 1. A comparison with NaN is false. */
void qv_arg(const qv_session *s, const qv_node *n, int least);
#endif
