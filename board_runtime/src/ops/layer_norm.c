/* y = fl32((x-mean)/sqrt(var+eps)*gamma + beta) over rows of word 0 elements; sequential float64 sums. */
#include "op.h"
#include "../arithmetic/instructions.h"
#include <math.h>

static qv_status layer_norm_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 3, 1, 2);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  int64_t depth = qv_word(n, 0);
  if (!x || x->dtype != QV_F32 || y->dtype != QV_F32 || x->elements != y->elements || depth < 1 || x->elements % depth)
    return qv_fail_operands(m, n, "float32 in and out, of one size, in rows of %ld", (long)depth);
  for (int i = 1; i < 3; i++)
    if (qv_in(m, n, i) && (qv_in(m, n, i)->dtype != QV_F32 || qv_in(m, n, i)->elements != depth))
      return qv_fail_operands(m, n, "gamma and beta of %ld float32 values", (long)depth);
  return QV_OK;
}

enum { TOGETHER = 4 }; /* rows computed at once: each sum keeps its order, but does not wait for the others */

/* Computes the mean and sqrt(var + epsilon) of each of `count` rows. */
static void rows_of(const float *x, int64_t depth, int64_t count, float epsilon, double *mean, double *root) {
  double sums[TOGETHER], more[TOGETHER];
  const float *line[TOGETHER];
  for (int r = 0; r < TOGETHER; r++) line[r] = x + (r < count ? r : 0) * depth;
  for (int r = 0; r < TOGETHER; r++) sums[r] = (double)line[r][0];
  for (int64_t i = 1; i < depth; i++)
    for (int r = 0; r < TOGETHER; r++) sums[r] += (double)line[r][i];
  for (int r = 0; r < TOGETHER; r++) mean[r] = sums[r] / (double)depth;
  for (int r = 0; r < TOGETHER; r++) more[r] = ((double)line[r][0] - mean[r]) * ((double)line[r][0] - mean[r]);
  for (int64_t i = 1; i < depth; i++)
    for (int r = 0; r < TOGETHER; r++) {
      double d = (double)line[r][i] - mean[r], dd = d * d;
      more[r] += dd;
    }
  for (int r = 0; r < TOGETHER; r++) root[r] = sqrt(more[r] / (double)depth + (double)epsilon);
}

static void fast(const qv_elementwise *kernels, const float *from, int64_t rows, int64_t depth, const float *g, const float *b,
                 float epsilon, float *to) {
  double mean[TOGETHER], root[TOGETHER];
  for (int64_t first = 0; first < rows; first += TOGETHER) {
    int64_t some = rows - first < TOGETHER ? rows - first : TOGETHER;
    rows_of(from + first * depth, depth, some, epsilon, mean, root);
    for (int64_t r = 0; r < some; r++)
      kernels->standardize(from + (first + r) * depth, mean[r], root[r], g, b, depth, to + (first + r) * depth);
  }
}

static qv_status layer_norm_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int64_t depth = qv_word(n, 0);
  const qv_tensor *gamma = qv_in(s->model, n, 1), *beta = qv_in(s->model, n, 2);
  const float *g = gamma ? qv_data(s, gamma) : NULL, *b = beta ? qv_data(s, beta) : NULL, *from = qv_data(s, x);
  float *to = qv_data(s, y);
  const qv_elementwise *kernels = s->plain_only ? NULL : qv_chosen_instructions().elementwise;
  if (kernels) {
    fast(kernels, from, x->elements / depth, depth, g, b, qv_word_f32(n, 1), to);
    return QV_OK;
  }
  for (int64_t row = 0; row < x->elements; row += depth) {
    double sum = (double)from[row], squares = 0.0;
    for (int64_t i = 1; i < depth; i++) sum += (double)from[row + i];
    double mean = sum / (double)depth;
    for (int64_t i = 0; i < depth; i++) {
      double d = (double)from[row + i] - mean, dd = d * d;
      squares = i ? squares + dd : dd;
    }
    double root = sqrt(squares / (double)depth + (double)qv_word_f32(n, 1));
    for (int64_t i = 0; i < depth; i++) {
      double v = ((double)from[row + i] - mean) / root;
      if (g) v = v * (double)g[i];
      if (b) v = v + (double)b[i];
      to[row + i] = (float)v;
    }
  }
  return QV_OK;
}

const qv_op qv_op_layer_norm = {"layer_norm", layer_norm_check, NULL, layer_norm_run};
