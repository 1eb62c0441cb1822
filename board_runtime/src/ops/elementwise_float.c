/* float32 functions of one or two tensors, computed in float64 and rounded once (NUMERICS.md). */
#include "op.h"
#include <math.h>

#include "../arithmetic/float32.h"

typedef struct {
  const float *a, *b;
  float *y;
  int function;
} walking;

static double two(int function, double a, double b) {
  switch (function) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return a / b;
    case 4: return a != a ? a : b != b ? b : a < b ? a : b;
    default: return a != a ? a : b != b ? b : a > b ? a : b;
  }
}

static void row(void *user, int64_t a, int64_t b, int64_t y, int64_t step_a, int64_t step_b, int64_t length) {
  const walking *w = user;
  for (int64_t i = 0; i < length; i++, a += step_a, b += step_b) w->y[y + i] = (float)two(w->function, (double)w->a[a], (double)w->b[b]);
}

static float power(float x, float p) {
  if (p == 2.0f) return x * x;
  if (p == 3.0f) {
    float square = x * x;
    return square * x;
  }
  if (p == 0.5f) return (float)sqrt((double)x);
  return (float)qv_exp64((double)p * qv_log64((double)x));
}

static double softplus(double x) {
  double tail = qv_log64(1.0 + qv_exp64(-fabs(x)));
  return x > 0 ? x + tail : tail;
}

static float hard_sigmoid(float x, float p, float q) {
  float scaled = p * x, v = scaled + q;
  v = v > 0.0f || v != v ? v : 0.0f;
  return v < 1.0f || v != v ? v : 1.0f;
}

static double hard_swish(double x) {
  double v = x / 6.0 + 0.5;
  v = v > 0.0 || v != v ? v : 0.0;
  v = v < 1.0 || v != v ? v : 1.0;
  return x * v;
}

static float one(int function, float f, float p, float q) {
  double x = (double)f, dp = (double)p, dq = (double)q;
  switch (function) {
    case 6: return power(f, p);
    case 16: return x < 0 ? 0.0f : f;
    case 17: return (float)(x < dp ? dp : x > dq ? dq : x);
    case 18: return (float)qv_sigmoid64(x);
    case 19: return (float)qv_tanh64(x);
    case 20: return (float)qv_exp64(x);
    case 21: return (float)sqrt(x);
    case 22: return (float)qv_erf64(x);
    case 23: return hard_sigmoid(f, p, q);
    case 24: return (float)hard_swish(x);
    case 25: return (float)(x < 0 ? dp * x : x);
    case 26: return -f;
    case 27: return fabsf(f);
    case 28: return (float)(1.0 / x);
    case 29: return (float)qv_log64(x);
    case 30: return (float)(x < 0 ? dp * (qv_exp64(x) - 1.0) : x);
    case 31: return (float)softplus(x);
    default: return (float)((0.5 * x) * (1.0 + qv_erf64(x * 0.7071067811865476)));
  }
}

static qv_status elementwise_float_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, n->n_inputs, 1, 3);
  if (status != QV_OK) return status;
  int function = qv_word(n, 0), two = function >= 0 && function <= 5;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!(two || function == 6 || (function >= 16 && function <= 32)) || n->n_inputs != 1 + two)
    return qv_fail(m, n, QV_E_FORMAT, "unknown function %d", function);
  if (!x || x->dtype != QV_F32 || y->dtype != QV_F32 || (two && (!qv_in(m, n, 1) || qv_in(m, n, 1)->dtype != QV_F32)))
    return qv_fail(m, n, QV_E_FORMAT, "wanted float32");
  if (two) return qv_check_broadcast(m, n, 0, 1);
  if (x->elements != y->elements) return qv_fail(m, n, QV_E_FORMAT, "input and output have different sizes");
  return QV_OK;
}

static qv_status elementwise_float_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  walking w = {qv_data(s, x), NULL, qv_data(s, y), qv_word(n, 0)};
  if (w.function <= 5) {
    w.b = qv_data(s, qv_in(s->model, n, 1));
    qv_for_rows(x, qv_in(s->model, n, 1), y, row, &w);
    return QV_OK;
  }
  float p = qv_word_f32(n, 1), q = qv_word_f32(n, 2);
  for (int64_t i = 0; i < y->elements; i++) w.y[i] = one(w.function, w.a[i], p, q);
  return QV_OK;
}

const qv_op qv_op_elementwise_float = {"elementwise_float", elementwise_float_check, NULL, elementwise_float_run};
