/* Checks how the nodes and tensors of a loaded model are connected, before memory is planned. */
#ifndef QV_CHECK_GRAPH_H
#define QV_CHECK_GRAPH_H
#include "qvrt.h"

/* Returns QV_E_FORMAT, with a message in m->error, if a check fails. Uses arena_offset, first_use and last_use as
   marks. */
qv_status qv_check_graph(qv_model *m);
#endif
