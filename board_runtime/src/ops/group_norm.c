/* y = fl32((x-mean)/sqrt(var+eps)*gamma + beta) over groups of channels; sequential float64 sums. */
#include "op.h"
#include <math.h>

static qv_status group_norm_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 3, 1, 2);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || x->dtype != QV_F32 || y->dtype != QV_F32 || x->rank < 2 || !qv_same_shape(x, y))
    return qv_fail_operands(m, n, "float32 in and out, of one shape and rank 2 or more");
  if (qv_word(n, 0) < 1 || x->shape[1] % qv_word(n, 0))
    return qv_fail(m, n, QV_E_FORMAT, "%d groups of %d channels", qv_word(n, 0), x->shape[1]);
  for (int i = 1; i < 3; i++)
    if (qv_in(m, n, i) && (qv_in(m, n, i)->dtype != QV_F32 || qv_in(m, n, i)->elements != x->shape[1]))
      return qv_fail_operands(m, n, "gamma and beta of %d float32 values", x->shape[1]);
  return QV_OK;
}

static qv_status group_norm_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *gamma = qv_in(s->model, n, 1), *beta = qv_in(s->model, n, 2);
  const float *g = gamma ? qv_data(s, gamma) : NULL, *b = beta ? qv_data(s, beta) : NULL, *from = qv_data(s, x);
  float *to = qv_data(s, qv_out(s->model, n, 0));
  int64_t channels = x->shape[1], plane = x->elements / ((int64_t)x->shape[0] * channels), size = channels / qv_word(n, 0) * plane;
  for (int64_t group = 0; group < x->elements; group += size) {
    double sum = (double)from[group], squares = 0.0;
    for (int64_t i = 1; i < size; i++) sum += (double)from[group + i];
    double mean = sum / (double)size;
    for (int64_t i = 0; i < size; i++) {
      double d = (double)from[group + i] - mean, dd = d * d;
      squares = i ? squares + dd : dd;
    }
    double root = sqrt(squares / (double)size + (double)qv_word_f32(n, 1));
    for (int64_t start = group; start < group + size; start += plane) {
      int64_t c = start / plane % channels;
      for (int64_t i = start; i < start + plane; i++) {
        double v = ((double)from[i] - mean) / root;
        if (g) v = v * (double)g[c];
        if (b) v = v + (double)b[c];
        to[i] = (float)v;
      }
    }
  }
  return QV_OK;
}

const qv_op qv_op_group_norm = {"group_norm", group_norm_check, NULL, group_norm_run};
