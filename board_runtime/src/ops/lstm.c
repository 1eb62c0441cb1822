/* Long short-term memory over a whole sequence: gates i, o, f and c from exact sums, states in float32
   (NUMERICS.md, lstm). */
#include "recurrent.h"

static const qv_recurrent_op OP = {3, 3, 4, 2, 4, 0};

static qv_status lstm_check(qv_model *m, qv_node *n) { return qv_recurrent_check(m, n, &OP); }

static void begin(qv_recurrent *q) {
  qv_recurrent_add_biases(q);
  qv_recurrent_begin(q);
}

static void cell(qv_recurrent *q) {
  int64_t wide = 4 * q->hidden;
  qv_recurrent_product(q, q->h, q->batch, q->hidden, q->packed, wide, q->now, wide, q->gate, wide);
  qv_recurrent_lstm(q);
}

static qv_status lstm_run(const qv_session *s, const qv_node *n) { return qv_recurrent_run(s, n, &OP, begin, cell); }

const qv_op qv_op_lstm = {"lstm", lstm_check, NULL, lstm_run};
