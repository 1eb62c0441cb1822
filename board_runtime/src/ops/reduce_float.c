/* y = a sum, product, norm or extremum over the axes of the mask, in float64 in row-major order, rounded once. */
#include "op.h"
#include <math.h>

#include "../arithmetic/float32.h"

enum { SUM, MAX, MIN, PROD, L1, L2, SUM_SQUARE, LOG_SUM, LOG_SUM_EXP, FUNCTIONS };

static qv_status reduce_float_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 2);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || x->dtype != QV_F32 || y->dtype != QV_F32) return qv_fail_operands(m, n, "float32 in and out");
  if (qv_word(n, 0) < 0 || qv_word(n, 0) >= FUNCTIONS)
    return qv_fail(m, n, QV_E_FORMAT, "function %d, wanted 0 to %d", qv_word(n, 0), FUNCTIONS - 1);
  if ((uint32_t)qv_word(n, 1) >= 1u << x->rank) return qv_fail(m, n, QV_E_FORMAT, "axes 0x%x of rank %d", (unsigned)qv_word(n, 1), x->rank);
  int64_t kept = 1;
  for (int k = 0; k < x->rank; k++)
    if (!(qv_word(n, 1) >> k & 1)) kept *= x->shape[k];
  if (kept != y->elements) return qv_fail_operands(m, n, "%ld elements out over axes 0x%x", (long)kept, (unsigned)qv_word(n, 1));
  return QV_OK;
}

/* An iterator over the offsets of a tensor's elements along some of its axes, in row-major order. */
typedef struct {
  const qv_tensor *x;
  int64_t stride[QV_MAX_RANK], index[QV_MAX_RANK], at;
  uint32_t axes;
} walk;

static void walk_from(walk *w, const qv_tensor *x, uint32_t axes, int64_t start) {
  memset(w, 0, sizeof *w);
  w->x = x;
  w->axes = axes;
  w->at = start;
  qv_broadcast_strides(x, x, w->stride);
}

static void walk_on(walk *w) {
  for (int k = w->x->rank - 1; k >= 0; k--) {
    if (!(w->axes >> k & 1)) continue;
    w->at += w->stride[k];
    if (++w->index[k] < w->x->shape[k]) return;
    w->at -= w->stride[k] * w->x->shape[k];
    w->index[k] = 0;
  }
}

static double largest_of(const float *from, walk w, int64_t count, double sign) {
  double best = (double)from[w.at];
  for (int64_t i = 0; i < count; i++, walk_on(&w)) {
    double v = (double)from[w.at];
    if (sign * v > sign * best || v != v) best = v;
  }
  return best + 0.0;
}

/* Returns the sum or product. base: subtracted from each element before the exponential of LOG_SUM_EXP. */
static double sum_of(int function, const float *from, walk w, int64_t count, double base) {
  double total = 0.0;
  for (int64_t i = 0; i < count; i++, walk_on(&w)) {
    double v = (double)from[w.at];
    if (function == L1) v = fabs(v);
    else if (function == L2 || function == SUM_SQUARE) v = qv_wide_product(from[w.at], from[w.at]);
    else if (function == LOG_SUM_EXP) v = qv_exp64(v - base);
    total = i == 0 ? v : function == PROD ? total * v : total + v;
  }
  return total;
}

static double reduce(int function, const float *from, const walk *w, int64_t count) {
  if (function == MAX || function == MIN) return largest_of(from, *w, count, function == MAX ? 1.0 : -1.0);
  double base = function == LOG_SUM_EXP ? largest_of(from, *w, count, 1.0) : 0.0;
  if (!(fabs(base) <= 3.4028234663852886e38)) base = 0.0;
  double total = sum_of(function, from, *w, count, base);
  if (function == L2) return sqrt(total);
  if (function == LOG_SUM) return qv_log64(total);
  return function == LOG_SUM_EXP ? base + qv_log64(total) : total;
}

static qv_status reduce_float_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  uint32_t axes = (uint32_t)qv_word(n, 1);
  const float *from = qv_data(s, x);
  float *to = qv_data(s, y);
  walk out, in;
  walk_from(&out, x, ~axes, 0);
  for (int64_t at = 0; at < y->elements; at++, walk_on(&out)) {
    walk_from(&in, x, axes, out.at);
    to[at] = (float)reduce(qv_word(n, 0), from, &in, x->elements / y->elements);
  }
  return QV_OK;
}

const qv_op qv_op_reduce_float = {"reduce_float", reduce_float_check, NULL, reduce_float_run};
