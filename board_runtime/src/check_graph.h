/* The wiring of a loaded model, before anything is planned. */
#ifndef QV_CHECK_GRAPH_H
#define QV_CHECK_GRAPH_H
#include "qvrt.h"

/* QV_E_FORMAT with a line in m->error. Uses arena_offset, first_use and last_use as marks. */
qv_status qv_check_graph(qv_model *m);
#endif
