/* y, indices = the largest or smallest elements along axis in order, and their indices; equal elements keep
   their order. */
#include "op.h"

static qv_status top_k_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 2, 2);
  if (status != QV_OK) return status;
  if (!qv_in(m, n, 0)) return qv_fail_operands(m, n, "a first input");
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0), *index = qv_out(m, n, 1);
  if (!qv_same_quantization(x, y) || x->dtype == QV_F64 || index->dtype != QV_I64 || !qv_same_shape(y, index) || x->rank != y->rank)
    return qv_fail_operands(m, n, "values of the input's type, their indices of int64, of one shape");
  int32_t axis = qv_word(n, 0);
  if (axis < 0 || axis >= x->rank) return qv_fail(m, n, QV_E_FORMAT, "axis %d, wanted 0 to %d", axis, x->rank - 1);
  for (int k = 0; k < x->rank; k++)
    if (k == axis ? y->shape[k] > x->shape[k] : y->shape[k] != x->shape[k])
      return qv_fail(m, n, QV_E_FORMAT, "dim %d is %d, the input's is %d", k, y->shape[k], x->shape[k]);
  return QV_OK;
}

/* One line along axis, and the indices of its best elements so far: a heap with the worst of these on top. */
typedef struct {
  const void *from;
  int64_t first, inner, *index; /* inner: step between consecutive elements of from and index */
  int32_t dtype;
  int largest;
} line;

/* Returns whether the value of element a comes before that of b; 0 if they are equal. NaN comes after every number. */
static int better(const line *l, int64_t a, int64_t b) {
  a = l->first + a * l->inner, b = l->first + b * l->inner;
  if (l->dtype == QV_F32) {
    float p = ((const float *)l->from)[a], q = ((const float *)l->from)[b];
    if (p != p) return 0;
    return q != q || (l->largest ? p > q : p < q);
  }
  int64_t p = qv_load64(l->from, l->dtype, a), q = qv_load64(l->from, l->dtype, b);
  return l->largest ? p > q : p < q;
}

static int before(const line *l, int64_t a, int64_t b) { return better(l, a, b) || (a < b && !better(l, b, a)); }

/* Writes `value` to the heap of `count` indices, at position `at` or, while it comes before a child there,
   further down. */
static void sink(const line *l, int64_t count, int64_t at, int64_t value) {
  for (int64_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && before(l, l->index[child * l->inner], l->index[(child + 1) * l->inner])) child++;
    if (!before(l, value, l->index[child * l->inner])) break;
    l->index[at * l->inner] = l->index[child * l->inner];
  }
  l->index[at * l->inner] = value;
}

static void choose(const line *l, int64_t size, int64_t kept) {
  for (int64_t i = 0; i < kept; i++) l->index[i * l->inner] = i;
  for (int64_t at = kept / 2 - 1; at >= 0; at--) sink(l, kept, at, l->index[at * l->inner]);
  for (int64_t i = kept; kept > 0 && i < size; i++)
    if (better(l, i, l->index[0])) sink(l, kept, 0, i);
  for (int64_t last = kept - 1; last > 0; last--) {
    int64_t value = l->index[last * l->inner];
    l->index[last * l->inner] = l->index[0];
    sink(l, last, 0, value);
  }
}

static qv_status top_k_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int64_t inner = 1, size = x->shape[qv_word(n, 0)], kept = y->shape[qv_word(n, 0)];
  for (int k = qv_word(n, 0) + 1; k < x->rank; k++) inner *= x->shape[k];
  size_t bytes = qv_dtype_size(x->dtype);
  const uint8_t *from = qv_data(s, x);
  uint8_t *to = qv_data(s, y);
  int64_t *index = qv_data(s, qv_out(s->model, n, 1));
  for (int64_t of = 0; of < x->elements / size; of++) {
    int64_t first = of / inner * size * inner + of % inner, start = of / inner * kept * inner + of % inner;
    line l = {from, first, inner, index + start, x->dtype, qv_word(n, 1)};
    choose(&l, size, kept);
    for (int64_t k = 0; k < kept; k++)
      memcpy(to + (size_t)(start + k * inner) * bytes, from + (size_t)(first + l.index[k * inner] * inner) * bytes, bytes);
  }
  return QV_OK;
}

const qv_op qv_op_top_k = {"top_k", top_k_check, NULL, top_k_run};
