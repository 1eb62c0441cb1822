/* The op table of qvrt: every op of list.h. */
#include "list.h"

#define ENTRY(stem) &qv_op_##stem,
const qv_op *const qv_op_table[] = {QV_OPS(ENTRY) NULL};
