/* y = fl32(x / |row|_p), where the norm is computed from a sequential float64 sum; 0 if the norm is 0. */
#include "op.h"
#include <math.h>

#include "../arithmetic/float32.h"

static qv_status lp_norm_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 4);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  int64_t outer = qv_word(n, 0), depth = qv_word(n, 1), inner = qv_word(n, 2);
  if (qv_word(n, 3) != 1 && qv_word(n, 3) != 2) return qv_fail(m, n, QV_E_FORMAT, "word 3 is %d, wanted 1 or 2", qv_word(n, 3));
  if (!x || x->dtype != QV_F32 || y->dtype != QV_F32 || outer < 1 || depth < 1 || inner < 1 || outer * depth > x->elements ||
      outer * depth * inner != x->elements || y->elements != x->elements)
    return qv_fail_operands(m, n, "%ld x %ld x %ld elements of float32 in and out, each 1 or more", (long)outer, (long)depth, (long)inner);
  return QV_OK;
}

static void row_of(const float *from, float *to, int64_t depth, int64_t inner, int squares) {
  double norm = 0.0;
  for (int64_t i = 0; i < depth; i++) {
    double v = (double)from[i * inner], term = squares ? qv_wide_product(from[i * inner], from[i * inner]) : fabs(v);
    norm = norm + term;
  }
  if (squares) norm = sqrt(norm);
  for (int64_t i = 0; i < depth; i++) to[i * inner] = norm == 0.0 ? 0.0f : (float)((double)from[i * inner] / norm);
}

static qv_status lp_norm_run(const qv_session *s, const qv_node *n) {
  const float *from = qv_data(s, qv_in(s->model, n, 0));
  float *to = qv_data(s, qv_out(s->model, n, 0));
  int64_t outer = qv_word(n, 0), depth = qv_word(n, 1), inner = qv_word(n, 2);
  for (int64_t row = 0; row < outer * inner; row++) {
    int64_t start = row / inner * depth * inner + row % inner;
    row_of(from + start, to + start, depth, inner, qv_word(n, 3) == 2);
  }
  return QV_OK;
}

const qv_op qv_op_lp_norm = {"lp_norm", lp_norm_check, NULL, lp_norm_run};
