/* Simple recurrent network over a whole sequence: h is a function of an exact sum (NUMERICS.md, rnn). */
#include "recurrent.h"

static const qv_recurrent_op OP = {2, 1, 1, 1, 1, 0};

static qv_status rnn_check(qv_model *m, qv_node *n) { return qv_recurrent_check(m, n, &OP); }

static void begin(qv_recurrent *q) {
  qv_recurrent_add_biases(q);
  qv_recurrent_begin(q);
}

static void cell(qv_recurrent *q) {
  qv_recurrent_product(q, q->h, q->batch, q->hidden, q->packed, q->hidden, q->now, q->hidden, q->gate, q->hidden);
  for (int64_t i = 0; i < q->batch * q->hidden; i++) q->next_h[i] = qv_recurrent_gate(q, 0, 1, q->gate[i]);
}

static qv_status rnn_run(const qv_session *s, const qv_node *n) { return qv_recurrent_run(s, n, &OP, begin, cell); }

const qv_op qv_op_rnn = {"rnn", rnn_check, NULL, rnn_run};
