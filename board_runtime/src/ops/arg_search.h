/* What arg_max and arg_min share. */
#ifndef QV_ARG_SEARCH_H
#define QV_ARG_SEARCH_H
#include "op.h"

/* Types, axis and output; for the check of an op. */
qv_status qv_check_arg(qv_model *m, qv_node *n);
/* y = index of the largest (or least) element along the axis: the first of equal ones, or the last where word 1 is set. NaN is neither
   more nor less than anything. */
void qv_arg(const qv_session *s, const qv_node *n, int least);
#endif
