/* y = fl32(x/sqrt(mean(x*x)+eps)*gamma) over rows of word 0 elements; sequential float64 sums. */
#include "op.h"
#include <math.h>

#include "../arithmetic/float32.h"

static qv_status rms_norm_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 2, 1, 2);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *gamma = qv_in(m, n, 1), *y = qv_out(m, n, 0);
  int64_t depth = qv_word(n, 0);
  if (!x || x->dtype != QV_F32 || y->dtype != QV_F32 || x->elements != y->elements || depth < 1 || x->elements % depth)
    return qv_fail_operands(m, n, "float32 in and out, of one size, in rows of %ld", (long)depth);
  if (gamma && (gamma->dtype != QV_F32 || gamma->elements != depth))
    return qv_fail_operands(m, n, "gamma of %ld float32 values", (long)depth);
  return QV_OK;
}

static qv_status rms_norm_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *gamma = qv_in(s->model, n, 1);
  const float *g = gamma ? qv_data(s, gamma) : NULL, *from = qv_data(s, x);
  float *to = qv_data(s, qv_out(s->model, n, 0));
  int64_t depth = qv_word(n, 0);
  for (int64_t row = 0; row < x->elements; row += depth) {
    double squares = 0.0;
    for (int64_t i = 0; i < depth; i++) {
      double vv = qv_wide_product(from[row + i], from[row + i]);
      squares = squares + vv;
    }
    double root = sqrt(squares / (double)depth + (double)qv_word_f32(n, 1));
    for (int64_t i = 0; i < depth; i++) {
      double v = (double)from[row + i] / root;
      to[row + i] = (float)(g ? v * (double)g[i] : v);
    }
  }
  return QV_OK;
}

const qv_op qv_op_rms_norm = {"rms_norm", rms_norm_check, NULL, rms_norm_run};
