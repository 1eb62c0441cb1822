/* Arithmetic on integers, comparisons of integers and floats, and logic (NUMERICS.md, elementwise_integer). */
#include "op.h"
#include "integer_functions.h"

typedef struct {
  const void *a, *b;
  void *y;
  int32_t function, dtype; /* dtype: type of the inputs */
} walking;

static int64_t two(int32_t function, int64_t a, int64_t b) {
  switch (function) {
    case QV_INTEGER_ADD: return qv_wrapped((uint64_t)a + (uint64_t)b);
    case QV_INTEGER_SUB: return qv_wrapped((uint64_t)a - (uint64_t)b);
    case QV_INTEGER_MUL: return qv_wrapped((uint64_t)a * (uint64_t)b);
    case QV_INTEGER_DIV: return b == -1 ? qv_wrapped(0 - (uint64_t)a) : a / b; /* INT64_MIN / -1 traps */
    case QV_INTEGER_MIN: return a < b ? a : b;
    case QV_INTEGER_MAX: return a > b ? a : b;
    case QV_INTEGER_BITWISE_AND: return qv_wrapped((uint64_t)a & (uint64_t)b);
    case QV_INTEGER_BITWISE_OR: return qv_wrapped((uint64_t)a | (uint64_t)b);
    case QV_INTEGER_BITWISE_XOR: return qv_wrapped((uint64_t)a ^ (uint64_t)b);
    case QV_INTEGER_EQUAL: return a == b;
    case QV_INTEGER_LESS: return a < b;
    case QV_INTEGER_LESS_OR_EQUAL: return a <= b;
    case QV_INTEGER_GREATER: return a > b;
    case QV_INTEGER_GREATER_OR_EQUAL: return a >= b;
    case QV_INTEGER_AND: return a && b;
    case QV_INTEGER_OR: return a || b;
    case QV_INTEGER_XOR: return !a != !b;
    default: return 0;
  }
}

static int compare_floats(int32_t function, float a, float b) {
  switch (function) {
    case QV_INTEGER_EQUAL: return a == b;
    case QV_INTEGER_LESS: return a < b;
    case QV_INTEGER_LESS_OR_EQUAL: return a <= b;
    case QV_INTEGER_GREATER: return a > b;
    case QV_INTEGER_GREATER_OR_EQUAL: return a >= b;
    default: return 0;
  }
}

static int64_t one(int32_t function, int64_t a) {
  switch (function) {
    case QV_INTEGER_NEG: return qv_wrapped(0 - (uint64_t)a);
    case QV_INTEGER_ABS: return a < 0 ? qv_wrapped(0 - (uint64_t)a) : a;
    case QV_INTEGER_SIGN: return a > 0 ? 1 : a < 0 ? -1 : 0;
    case QV_INTEGER_BITWISE_NOT: return qv_wrapped(~(uint64_t)a);
    case QV_INTEGER_NOT: return !a;
    default: return 0;
  }
}

static int classify(int32_t function, float a) {
  return function == QV_INTEGER_IS_NAN ? a != a : a - a != a - a && a == a; /* an infinity minus itself is NaN */
}

static int compares(int32_t function) { return function >= QV_INTEGER_EQUAL && function <= QV_INTEGER_GREATER_OR_EQUAL; }
static int is_logic(int32_t function) { return function >= QV_INTEGER_AND && function <= QV_INTEGER_NOT; }
static int classifies(int32_t function) { return function == QV_INTEGER_IS_NAN || function == QV_INTEGER_IS_INF; }

static void row(void *user, int64_t a, int64_t b, int64_t y, int64_t step_a, int64_t step_b, int64_t length) {
  const walking *w = user;
  int32_t made = compares(w->function) ? QV_BOOL : w->dtype;
  if (w->dtype == QV_F32)
    for (int64_t i = 0; i < length; i++, a += step_a, b += step_b)
      ((uint8_t *)w->y)[y + i] = (uint8_t)compare_floats(w->function, ((const float *)w->a)[a], ((const float *)w->b)[b]);
  else
    for (int64_t i = 0; i < length; i++, a += step_a, b += step_b)
      qv_store64(w->y, made, y + i, two(w->function, qv_load64(w->a, w->dtype, a), qv_load64(w->b, w->dtype, b)));
}

/* Returns the number of operands of a function; 0 if there is no function of this number. */
static int operands_of(int32_t function) {
  switch (function) {
#define OPERANDS(name, number, operands) \
  case number: return operands;
    QV_INTEGER_FUNCTIONS(OPERANDS)
    default: return 0;
  }
}

static int is_integer(int32_t dtype) { return dtype == QV_I32 || dtype == QV_I64 || dtype == QV_U8 || dtype == QV_S8; }

/* Returns NULL if the types x and y fit the function, otherwise a description of those that do. */
static const char *types_wrong(int32_t function, int32_t x, int32_t y) {
  if (classifies(function)) return x == QV_F32 && y == QV_BOOL ? NULL : "float32 in, bool out";
  if (is_logic(function)) return x == QV_BOOL && y == QV_BOOL ? NULL : "bool in and out";
  if (!compares(function)) return is_integer(x) && y == x ? NULL : "int32, int64, uint8 or int8 in, the same out";
  int ordered = x == QV_F32 || is_integer(x);
  return (ordered || (x == QV_BOOL && function == QV_INTEGER_EQUAL)) && y == QV_BOOL ? NULL : "float32 or integers in, bool out";
}

static qv_status elementwise_integer_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, n->n_inputs, 1, 1);
  if (status != QV_OK) return status;
  int32_t function = qv_word(n, 0);
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (n->n_inputs != operands_of(function))
    return qv_fail(m, n, QV_E_FORMAT, "function %d with %d inputs, wanted %d (0: unknown)", function, n->n_inputs, operands_of(function));
  const char *wrong = x ? types_wrong(function, x->dtype, y->dtype) : "a first input";
  if (wrong) return qv_fail_operands(m, n, "%s", wrong);
  for (int i = 1; i < n->n_inputs; i++) {
    const qv_tensor *b = qv_in(m, n, i);
    if (function == QV_INTEGER_CLIP ? b && (b->dtype != x->dtype || b->elements != 1) : !b || b->dtype != x->dtype)
      return qv_fail_operands(m, n, function == QV_INTEGER_CLIP ? "limits of one element of the first input's type" : "inputs of one type");
  }
  if (function == QV_INTEGER_DIV && (status = qv_check_divisors(m, n)) != QV_OK) return status;
  if (operands_of(function) == 2) return qv_check_broadcast(m, n, 0, 1);
  return qv_same_shape(x, y) ? QV_OK : qv_fail_operands(m, n, "an output of the first input's shape");
}

static int64_t clamped(int64_t v, int64_t least, int64_t most) {
  v = v < least ? least : v;
  return v > most ? most : v;
}

static void clip(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *low = qv_in(s->model, n, 1), *high = qv_in(s->model, n, 2);
  int64_t least = low ? qv_load64(qv_data(s, low), low->dtype, 0) : INT64_MIN;
  int64_t most = high ? qv_load64(qv_data(s, high), high->dtype, 0) : INT64_MAX;
  const void *from = qv_data(s, x);
  void *to = qv_data(s, qv_out(s->model, n, 0));
  uint8_t table[256]; /* the result for each 8-bit value */
  for (int v = 0; v < 256; v++) {
    uint8_t stored = (uint8_t)v;
    qv_store64(table, x->dtype == QV_S8 ? QV_S8 : QV_U8, v, clamped(qv_load(&stored, x->dtype == QV_S8 ? QV_S8 : QV_U8, 0), least, most));
  }
  if (qv_is_8bit(x))
    for (int64_t i = 0; i < x->elements; i++) ((uint8_t *)to)[i] = table[((const uint8_t *)from)[i]];
  else
    for (int64_t i = 0; i < x->elements; i++) qv_store64(to, x->dtype, i, clamped(qv_load64(from, x->dtype, i), least, most));
}

static qv_status elementwise_integer_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  walking w = {qv_data(s, x), NULL, qv_data(s, y), qv_word(n, 0), x->dtype};
  if (w.function == QV_INTEGER_DIV) {
    qv_status status = qv_divisors(s, n);
    if (status != QV_OK) return status;
  }
  if (operands_of(w.function) == 2) {
    w.b = qv_data(s, qv_in(s->model, n, 1));
    qv_for_rows(x, qv_in(s->model, n, 1), y, row, &w);
  } else if (w.function == QV_INTEGER_CLIP) {
    clip(s, n);
  } else {
    for (int64_t i = 0; i < y->elements; i++)
      qv_store64(w.y, y->dtype, i,
                 classifies(w.function) ? classify(w.function, ((const float *)w.a)[i]) : one(w.function, qv_load64(w.a, w.dtype, i)));
  }
  return QV_OK;
}

const qv_op qv_op_elementwise_integer = {"elementwise_integer", elementwise_integer_check, NULL, elementwise_integer_run};
