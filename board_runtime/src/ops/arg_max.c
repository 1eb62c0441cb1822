/* y = index of the first (or last) maximum along axis. */
#include "arg_search.h"

static qv_status arg_max_run(const qv_session *s, const qv_node *n) {
  qv_arg(s, n, 0);
  return QV_OK;
}

const qv_op qv_op_arg_max = {"arg_max", qv_check_arg, NULL, arg_max_run};
