/* y = index of the first (or last) minimum along axis. */
#include "arg_search.h"

static qv_status arg_min_run(const qv_session *s, const qv_node *n) {
  qv_arg(s, n, 1);
  return QV_OK;
}

const qv_op qv_op_arg_min = {"arg_min", qv_check_arg, NULL, arg_min_run};
