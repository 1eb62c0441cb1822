/* float32 functions of one or two tensors, computed in float64 and rounded once (NUMERICS.md). */
#include "op.h"
#include <math.h>

#include "../arithmetic/float32.h"
#include "float_functions.h"

typedef struct {
  const float *a, *b;
  float *y;
  int function;
} walking;

/* Returns a function of two operands. a and b are values of float32. */
static double two(int function, double a, double b) {
  switch (function) {
    case QV_FLOAT_ADD: return a + b;
    case QV_FLOAT_SUB: return a - b;
    case QV_FLOAT_MUL: return qv_wide_product((float)a, (float)b);
    case QV_FLOAT_DIV: return a / b;
    case QV_FLOAT_MIN: return a != a ? a : b != b ? b : a < b ? a : b;
    case QV_FLOAT_MAX: return a != a ? a : b != b ? b : a > b ? a : b;
    case QV_FLOAT_PRELU: return a < 0 ? qv_wide_product((float)b, (float)a) : a;
    default: return (double)NAN;
  }
}

static void row(void *user, int64_t a, int64_t b, int64_t y, int64_t step_a, int64_t step_b, int64_t length) {
  const walking *w = user;
  for (int64_t i = 0; i < length; i++, a += step_a, b += step_b) w->y[y + i] = (float)two(w->function, (double)w->a[a], (double)w->b[b]);
}

/* Returns x rounded to an integer: to the nearest, ties to even, if up is 0; down if it is -1; up if it is 1. A zero
   has the sign of x. */
static double whole(double x, double up) {
  if (x != x || fabs(x) >= 8388608.0) return x;
  double n = qv_round_f64(x);
  if (up * (x - n) > 0.0) n = n + up;
  return n == 0.0 ? x * 0.0 : n;
}

static float power(float x, float p) {
  if (p == 2.0f) return x * x;
  if (p == 3.0f) {
    float square = x * x;
    return square * x;
  }
  if (p == 0.5f) return (float)sqrt((double)x);
  if (p == 0.0f) return 1.0f;
  double dp = (double)p, size = (double)x;
  int integral = dp == whole(dp, 0.0), odd = integral && fabs(dp) < 16777216.0 && (int32_t)dp % 2 != 0;
  double made = qv_exp64(dp * qv_log64(integral ? fabs(size) : size));
  return (float)(odd && size < 0 ? -made : made);
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

static double mish(double x) {
  if (x > 20.0 || x != x) return x;
  double e = qv_exp64(x), n = e * (e + 2.0);
  return x * (n / (n + 2.0));
}

/* x is a value of float32. */
static double gelu_tanh(double x) {
  double inner = 0.7978845608028654 * (x + 0.044715 * (qv_wide_product((float)x, (float)x) * x));
  return (0.5 * x) * (1.0 + qv_tanh64(inner));
}

/* Returns x rounded to the upper 16 bits (nearest, ties to even). */
static float bfloat16(float x) {
  if (x != x) return x;
  uint32_t bits;
  memcpy(&bits, &x, 4);
  bits = (bits + 0x7FFFu + (bits >> 16 & 1u)) & 0xFFFF0000u;
  memcpy(&x, &bits, 4);
  return x;
}

static float one(int function, float f, float p, float q) {
  double x = (double)f, dp = (double)p, dq = (double)q;
  switch (function) {
    case QV_FLOAT_POW: return power(f, p);
    case QV_FLOAT_RELU: return x < 0 ? 0.0f : f;
    case QV_FLOAT_CLIP: return (float)(x < dp ? dp : x > dq ? dq : x);
    case QV_FLOAT_SIGMOID: return (float)qv_sigmoid64(x);
    case QV_FLOAT_TANH: return (float)qv_tanh64(x);
    case QV_FLOAT_EXP: return (float)qv_exp64(x);
    case QV_FLOAT_SQRT: return (float)sqrt(x);
    case QV_FLOAT_ERF: return (float)qv_erf64(x);
    case QV_FLOAT_HARD_SIGMOID: return hard_sigmoid(f, p, q);
    case QV_FLOAT_HARD_SWISH: return (float)hard_swish(x);
    case QV_FLOAT_LEAKY_RELU: return (float)(x < 0 ? qv_wide_product(p, f) : x);
    case QV_FLOAT_NEG: return -f;
    case QV_FLOAT_ABS: return fabsf(f);
    case QV_FLOAT_RECIPROCAL: return (float)(1.0 / x);
    case QV_FLOAT_LOG: return (float)qv_log64(x);
    case QV_FLOAT_ELU: return (float)(x < 0 ? dp * (qv_exp64(x) - 1.0) : x);
    case QV_FLOAT_SOFTPLUS: return (float)softplus(x);
    case QV_FLOAT_GELU: return (float)((0.5 * x) * (1.0 + qv_erf64(x * 0.7071067811865476)));
    case QV_FLOAT_SELU: return (float)(x > 0 ? qv_wide_product(q, f) : dq * (dp * (qv_exp64(x) - 1.0)));
    case QV_FLOAT_CELU: return (float)(x > 0 ? x : dp * (qv_exp64(x / dp) - 1.0));
    case QV_FLOAT_THRESHOLDED_RELU: return x <= dp ? 0.0f : f;
    case QV_FLOAT_SHRINK: return (float)(x < -dp ? x + dq : x > dp ? x - dq : x != x ? x : 0.0);
    case QV_FLOAT_MISH: return (float)mish(x);
    case QV_FLOAT_SOFTSIGN: return (float)(x / (1.0 + fabs(x)));
    case QV_FLOAT_SWISH: return (float)(x * qv_sigmoid64(qv_wide_product(p, f)));
    case QV_FLOAT_GELU_TANH: return (float)gelu_tanh(x);
    case QV_FLOAT_FLOOR: return (float)whole(x, -1.0);
    case QV_FLOAT_CEIL: return (float)whole(x, 1.0);
    case QV_FLOAT_ROUND: return (float)whole(x, 0.0);
    case QV_FLOAT_SIGN: return x > 0 ? 1.0f : x < 0 ? -1.0f : x != x ? f : 0.0f;
    case QV_FLOAT_SINH: return (float)qv_sinh64(x);
    case QV_FLOAT_COSH: return (float)(0.5 * (qv_exp64(x) + qv_exp64(-x)));
    case QV_FLOAT_ASINH: return (float)qv_asinh64(x);
    case QV_FLOAT_ACOSH: return (float)qv_log64(x + sqrt((x - 1.0) * (x + 1.0)));
    case QV_FLOAT_ATANH: return (float)qv_atanh64(x);
    case QV_FLOAT_ASIN: return (float)qv_atan64(x / sqrt((1.0 - x) * (1.0 + x)));
    case QV_FLOAT_ACOS: return (float)(1.5707963267948966 - qv_atan64(x / sqrt((1.0 - x) * (1.0 + x))));
    case QV_FLOAT_ATAN: return (float)qv_atan64(x);
    case QV_FLOAT_SIN: return (float)qv_sin64(x, 0);
    case QV_FLOAT_COS: return (float)qv_sin64(x, 1);
    case QV_FLOAT_TAN: return (float)(qv_sin64(x, 0) / qv_sin64(x, 1));
    case QV_FLOAT_BFLOAT16: return bfloat16(f);
    default: return NAN;
  }
}

/* Returns the number of operands of a function, 1 or 2; 0 if there is no function of this number. */
static int operands_of(int function) {
  switch (function) {
#define OPERANDS(name, number, operands) \
  case number: return operands;
    QV_FLOAT_FUNCTIONS(OPERANDS)
    default: return 0;
  }
}

static qv_status elementwise_float_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, n->n_inputs, 1, 3);
  if (status != QV_OK) return status;
  int function = qv_word(n, 0), two = operands_of(function) == 2;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (n->n_inputs != operands_of(function))
    return qv_fail(m, n, QV_E_FORMAT, "function %d with %d inputs, wanted %d (0: unknown)", function, n->n_inputs, operands_of(function));
  if (!x || x->dtype != QV_F32 || y->dtype != QV_F32 || (two && (!qv_in(m, n, 1) || qv_in(m, n, 1)->dtype != QV_F32)))
    return qv_fail_operands(m, n, "float32 in and out");
  if (two) return qv_check_broadcast(m, n, 0, 1);
  if (x->elements != y->elements) return qv_fail_operands(m, n, "as many elements out as in");
  return QV_OK;
}

static qv_status elementwise_float_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  walking w = {qv_data(s, x), NULL, qv_data(s, y), qv_word(n, 0)};
  if (operands_of(w.function) == 2) {
    w.b = qv_data(s, qv_in(s->model, n, 1));
    qv_for_rows(x, qv_in(s->model, n, 1), y, row, &w);
    return QV_OK;
  }
  float p = qv_word_f32(n, 1), q = qv_word_f32(n, 2);
  for (int64_t i = 0; i < y->elements; i++) w.y[i] = one(w.function, w.a[i], p, q);
  return QV_OK;
}

const qv_op qv_op_elementwise_float = {"elementwise_float", elementwise_float_check, NULL, elementwise_float_run};
