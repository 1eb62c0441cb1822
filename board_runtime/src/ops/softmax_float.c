/* y = fl32(e_j / sum e), e_j = exp64(x_j - max), with a sequential float64 sum. */
#include "op.h"
#include "../arithmetic/float32.h"

static qv_status softmax_float_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 3);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || x->dtype != QV_F32 || y->dtype != QV_F32 || qv_word(n, 0) < 1 || qv_word(n, 1) < 1 || qv_word(n, 2) < 1 ||
      (int64_t)qv_word(n, 0) * qv_word(n, 1) > x->elements || (int64_t)qv_word(n, 0) * qv_word(n, 1) * qv_word(n, 2) != x->elements ||
      y->elements != x->elements)
    return qv_fail_operands(m, n, "%d x %d x %d elements of float32 in and out, each 1 or more", qv_word(n, 0), qv_word(n, 1),
                            qv_word(n, 2));
  return QV_OK;
}

static qv_status softmax_float_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int64_t outer = qv_word(n, 0), depth = qv_word(n, 1), inner = qv_word(n, 2);
  const float *from = qv_data(s, x);
  float *to = qv_data(s, y);
  for (int64_t row = 0; row < outer * inner; row++) {
    int64_t start = row / inner * depth * inner + row % inner;
    double largest = (double)from[start], sum = 0.0;
    for (int64_t i = 1; i < depth; i++)
      if ((double)from[start + i * inner] > largest || from[start + i * inner] != from[start + i * inner])
        largest = (double)from[start + i * inner];
    for (int64_t i = 0; i < depth; i++) sum += qv_exp64((double)from[start + i * inner] - largest);
    for (int64_t i = 0; i < depth; i++) to[start + i * inner] = (float)(qv_exp64((double)from[start + i * inner] - largest) / sum);
  }
  return QV_OK;
}

const qv_op qv_op_softmax_float = {"softmax_float", softmax_float_check, NULL, softmax_float_run};
