/* y = sum, mean, max or min of any number of tensors, computed in float64 in their order and rounded once, with numpy's
   broadcasting. */
#include "op.h"

enum { SUM, MEAN, MAX, MIN, FUNCTIONS };

/* Returns whether `x` is float32 and broadcasts to `y`. */
static int broadcasts(const qv_tensor *x, const qv_tensor *y) {
  if (!x || x->dtype != QV_F32 || x->rank > y->rank) return 0;
  for (int k = 0; k < x->rank; k++)
    if (x->shape[k] != 1 && x->shape[k] != y->shape[y->rank - x->rank + k]) return 0;
  return 1;
}

/* Returns whether an input has the size of dim `k` of y. */
static int has_dim(const qv_model *m, const qv_node *n, int k) {
  const qv_tensor *y = qv_out(m, n, 0);
  for (int i = 0; i < n->n_inputs; i++) {
    int at = k - (y->rank - qv_in(m, n, i)->rank);
    if ((at < 0 ? 1 : qv_in(m, n, i)->shape[at]) == y->shape[k]) return 1;
  }
  return 0;
}

static qv_status variadic_float_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, n->n_inputs, 1, 1);
  if (status != QV_OK) return status;
  const qv_tensor *y = qv_out(m, n, 0);
  if (n->n_inputs < 1 || y->dtype != QV_F32) return qv_fail_operands(m, n, "one or more inputs and a float32 output");
  if (qv_word(n, 0) < 0 || qv_word(n, 0) >= FUNCTIONS)
    return qv_fail(m, n, QV_E_FORMAT, "function %d, wanted 0 to %d", qv_word(n, 0), FUNCTIONS - 1);
  for (int i = 0; i < n->n_inputs; i++)
    if (!broadcasts(qv_in(m, n, i), y)) return qv_fail_operands(m, n, "input %d of float32, broadcast to the output", i);
  for (int k = 0; k < y->rank; k++)
    if (!has_dim(m, n, k)) return qv_fail_operands(m, n, "an input with %d in dim %d", y->shape[k], k);
  return QV_OK;
}

static double combined(int function, double a, double b) {
  if (function == SUM || function == MEAN) return a + b;
  if (b != b) return a != a ? a : b;
  return (function == MAX ? b > a : b < a) ? b : a;
}

enum { CHUNK = 256 }; /* elements whose float64 results are computed at once */

/* Combines `count` elements of input `i` with `total`; they correspond to the output's elements from `index` on along
   its last dim. */
static void take(const qv_session *s, const qv_node *n, int i, const int64_t index[QV_MAX_RANK], int count, double total[CHUNK]) {
  const qv_tensor *x = qv_in(s->model, n, i), *y = qv_out(s->model, n, 0);
  const float *from = qv_data(s, x);
  int64_t stride[QV_MAX_RANK] = {0}, at = 0, step = 0;
  qv_broadcast_strides(x, y, stride);
  for (int k = 0; k < y->rank; k++) at += (step = stride[k]) * index[k];
  for (int j = 0; j < count; j++, at += step) total[j] = i == 0 ? (double)from[at] : combined(qv_word(n, 0), total[j], (double)from[at]);
}

static qv_status variadic_float_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *y = qv_out(s->model, n, 0);
  int64_t index[QV_MAX_RANK] = {0}, length = y->rank ? y->shape[y->rank - 1] : 1;
  double total[CHUNK], divisor = qv_word(n, 0) == MEAN ? (double)n->n_inputs : 1.0;
  float *to = qv_data(s, y);
  for (int64_t at = 0; at < y->elements;) {
    int64_t left = length - (y->rank ? index[y->rank - 1] : 0);
    int count = left < CHUNK ? (int)left : CHUNK;
    for (int i = 0; i < n->n_inputs; i++) take(s, n, i, index, count, total);
    for (int j = 0; j < count; j++) to[at + j] = (float)(total[j] / divisor);
    at += count;
    if (y->rank) index[y->rank - 1] += count;
    for (int k = y->rank - 1; k > 0 && index[k] == y->shape[k]; k--) {
      index[k] = 0;
      index[k - 1]++;
    }
  }
  return QV_OK;
}

const qv_op qv_op_variadic_float = {"variadic_float", variadic_float_check, NULL, variadic_float_run};
