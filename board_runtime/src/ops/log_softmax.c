/* y = fl32((x_j - max) - log64(sum exp64(x_i - max))), with a sequential float64 sum. */
#include "op.h"
#include "../arithmetic/float32.h"

static qv_status log_softmax_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 3);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  int64_t outer = qv_word(n, 0), depth = qv_word(n, 1), inner = qv_word(n, 2);
  if (!x || x->dtype != QV_F32 || y->dtype != QV_F32 || outer < 1 || depth < 1 || inner < 1 || outer * depth > x->elements ||
      outer * depth * inner != x->elements || y->elements != x->elements)
    return qv_fail_operands(m, n, "%ld x %ld x %ld elements of float32 in and out, each 1 or more", (long)outer, (long)depth, (long)inner);
  return QV_OK;
}

static void row_of(const float *from, float *to, int64_t depth, int64_t inner) {
  double largest = (double)from[0], sum = 0.0;
  for (int64_t i = 1; i < depth; i++) {
    double v = (double)from[i * inner];
    if (v > largest || v != v) largest = v;
  }
  for (int64_t i = 0; i < depth; i++) sum += qv_exp64((double)from[i * inner] - largest);
  double log = qv_log64(sum);
  for (int64_t i = 0; i < depth; i++) to[i * inner] = (float)(((double)from[i * inner] - largest) - log);
}

static qv_status log_softmax_run(const qv_session *s, const qv_node *n) {
  const float *from = qv_data(s, qv_in(s->model, n, 0));
  float *to = qv_data(s, qv_out(s->model, n, 0));
  int64_t outer = qv_word(n, 0), depth = qv_word(n, 1), inner = qv_word(n, 2);
  for (int64_t row = 0; row < outer * inner; row++) {
    int64_t start = row / inner * depth * inner + row % inner;
    row_of(from + start, to + start, depth, inner);
  }
  return QV_OK;
}

const qv_op qv_op_log_softmax = {"log_softmax", log_softmax_check, NULL, log_softmax_run};
