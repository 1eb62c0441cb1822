/* The op table of qvrt: every op of list.h. */
#include "list.h"

#define ENTRY(stem) &qv_op_##stem,
const qv_op *const qv_op_table[] = {QV_OPS(ENTRY) NULL};

qv_status qv_run_op(const qv_session *s, const qv_node *n) { return qv_run_kernel(s, n); }
