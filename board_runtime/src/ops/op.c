/* Functions shared by the files of the ops: checks of operands, indices, broadcasting, strided copies, NaN. */
#include "op.h"

qv_status qv_arity(qv_model *m, const qv_node *n, int inputs, int outputs, int words) {
  if (n->n_inputs != inputs || n->n_outputs != outputs || (words >= 0 && n->n_words != words))
    return qv_fail(m, n, QV_E_FORMAT, "%d inputs, %d outputs, %d words; wanted %d, %d, %d", n->n_inputs, n->n_outputs, n->n_words, inputs,
                   outputs, words);
  return QV_OK;
}

/* Returns the first scale, for messages; 0 if there is none. */
static double first_scale(const qv_tensor *t) { return t->n_scales ? (double)t->scale[0] : 0.0; }

qv_status qv_check_copy(qv_model *m, const qv_node *n) {
  const qv_tensor *x = qv_in(m, n, 0);
  if (!x) return qv_fail_operands(m, n, "a first input");
  for (int i = 0; i < n->n_outputs; i++)
    if (!qv_same_quantization(x, qv_out(m, n, i)))
      return qv_fail_operands(m, n, "output %d of input 0's dtype and at most one scale, its %g with zero point %d, not %g with %d", i,
                              first_scale(x), (int)qv_zero(x, 0), first_scale(qv_out(m, n, i)), (int)qv_zero(qv_out(m, n, i), 0));
  return QV_OK;
}

qv_status qv_check_broadcast(qv_model *m, const qv_node *n, int first, int last) {
  const qv_tensor *y = qv_out(m, n, 0);
  for (int i = first; i <= last; i++) {
    const qv_tensor *x = qv_in(m, n, i);
    if (!x) return qv_fail_operands(m, n, "inputs %d to %d", first, last);
    if (x->rank > y->rank) return qv_fail_operands(m, n, "an output of rank %d or more", x->rank);
  }
  for (int k = 0; k < y->rank; k++) {
    int32_t size = 1;
    for (int i = first; i <= last; i++) {
      const qv_tensor *x = qv_in(m, n, i);
      int at = x->rank - y->rank + k;
      if (at < 0 || x->shape[at] == 1) continue;
      if (size != 1 && size != x->shape[at])
        return qv_fail_operands(m, n, "shapes that broadcast, not %d and %d in dim %d", size, x->shape[at], k);
      size = x->shape[at];
    }
    if (size != y->shape[k]) return qv_fail(m, n, QV_E_FORMAT, "dim %d is %d, broadcasting gives %d", k, y->shape[k], size);
  }
  return QV_OK;
}

int qv_is_index(const qv_tensor *t) { return t && (t->dtype == QV_I64 || t->dtype == QV_I32); }

qv_status qv_index(const qv_session *s, const qv_node *n, int input, int64_t i, int64_t size, int64_t *at) {
  const qv_tensor *index = qv_in(s->model, n, input);
  int64_t v = qv_load64(qv_data(s, index), index->dtype, i);
  if (v < -size || v >= size)
    return qv_fail(s->model, n, QV_E_INPUT, "input %d: index %lld is %lld, wanted %lld to %lld", input, (long long)i, (long long)v,
                   (long long)-size, (long long)(size - 1));
  *at = v < 0 ? v + size : v;
  return QV_OK;
}

qv_status qv_check_divisors(qv_model *m, const qv_node *n) {
  const qv_tensor *b = qv_in(m, n, 1);
  for (int64_t i = 0; b->constant && i < b->elements; i++)
    if (qv_load64(b->constant, b->dtype, i) == 0) return qv_fail(m, n, QV_E_FORMAT, "divisor %ld is 0, wanted any other", (long)i);
  return QV_OK;
}

qv_status qv_divisors(const qv_session *s, const qv_node *n) {
  const qv_tensor *b = qv_in(s->model, n, 1);
  const void *values = qv_data(s, b);
  for (int64_t i = 0; !b->constant && i < b->elements; i++)
    if (qv_load64(values, b->dtype, i) == 0)
      return qv_fail(s->model, n, QV_E_INPUT, "input 1: divisor %lld is 0, wanted any other", (long long)i);
  return QV_OK;
}

void qv_broadcast_strides(const qv_tensor *t, const qv_tensor *out, int64_t stride[QV_MAX_RANK]) {
  int64_t step = 1;
  for (int k = out->rank - 1; k >= 0; k--) {
    int at = t->rank - out->rank + k;
    stride[k] = (at < 0 || t->shape[at] == 1) ? 0 : step;
    if (at >= 0) step *= t->shape[at];
  }
}

/* Returns whether dims k - 1 and k can be walked as one dim, with the stride of dim k. */
static int continues(const int64_t *stride, const qv_tensor *out, int k) {
  return out->shape[k - 1] == 1 || stride[k - 1] == stride[k] * out->shape[k];
}

static void walk(const qv_tensor *a, const qv_tensor *b, const qv_tensor *out, qv_row row, void *user, int joined) {
  int64_t sa[QV_MAX_RANK] = {0}, sb[QV_MAX_RANK] = {0}, index[QV_MAX_RANK] = {0};
  qv_broadcast_strides(a, out, sa);
  qv_broadcast_strides(b, out, sb);
  int last = out->rank - 1;
  int64_t length = out->rank ? out->shape[last] : 1, at_a = 0, at_b = 0;
  int64_t step_a = out->rank ? sa[last] : 0, step_b = out->rank ? sb[last] : 0;
  for (; joined && last > 0 && out->shape[last] > 1 && continues(sa, out, last) && continues(sb, out, last); last--)
    length *= out->shape[last - 1];
  for (int64_t at = 0; at < out->elements; at += length) {
    row(user, at_a, at_b, at, step_a, step_b, length);
    for (int k = last - 1; k >= 0; k--) {
      at_a += sa[k];
      at_b += sb[k];
      if (++index[k] < out->shape[k]) break;
      at_a -= sa[k] * out->shape[k];
      at_b -= sb[k] * out->shape[k];
      index[k] = 0;
    }
  }
}

void qv_for_rows(const qv_tensor *a, const qv_tensor *b, const qv_tensor *out, qv_row row, void *user) { walk(a, b, out, row, user, 0); }
void qv_for_runs(const qv_tensor *a, const qv_tensor *b, const qv_tensor *out, qv_row row, void *user) { walk(a, b, out, row, user, 1); }

void qv_copy_strided(const qv_tensor *out, const int64_t stride[QV_MAX_RANK], int64_t start, const void *source, void *target) {
  int64_t index[QV_MAX_RANK] = {0}, at = start;
  size_t size = qv_dtype_size(out->dtype);
  const uint8_t *from = source;
  uint8_t *to = target;
  int last = out->rank - 1;
  int64_t length = out->rank ? out->shape[last] : 1, step = out->rank ? stride[last] : 0;
  for (int64_t done = 0; done < out->elements; done += length) {
    if (step == 1) {
      memcpy(to, from + (size_t)at * size, (size_t)length * size);
      to += (size_t)length * size;
    } else {
      for (int64_t i = 0; i < length; i++, to += size) memcpy(to, from + (size_t)(at + i * step) * size, size);
    }
    for (int k = last - 1; k >= 0; k--) {
      at += stride[k];
      if (++index[k] < out->shape[k]) break;
      at -= stride[k] * out->shape[k];
      index[k] = 0;
    }
  }
}

/* The ops that only move elements, in alphabetical order; the same list as MOVES in
   verifier/qverify/ops/__init__.py. */
static const char *const MOVES[] = {"cast",      "concat", "depth_to_space", "gather",         "gather_elements",
                                    "gather_nd", "pad",    "reshape",        "resize_nearest", "slice",
                                    "split",     "tile",   "transpose",      "unpack",         "where"};

static int moves(const qv_node *n) {
  for (size_t i = 0; i < sizeof MOVES / sizeof MOVES[0]; i++)
    if (strcmp(n->op_name, MOVES[i]) == 0) return 1;
  return 0;
}

static void settle_nans(uint8_t *to, int64_t elements) {
  for (int64_t i = 0; i < elements; i++) {
    uint32_t bits;
    memcpy(&bits, to + 4 * i, 4);
    bits = (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : bits;
    memcpy(to + 4 * i, &bits, 4);
  }
}

qv_status qv_run_kernel(const qv_session *s, const qv_node *n) {
  qv_status status = n->op->run(s, n);
  if (status != QV_OK || moves(n)) return status;
  for (int i = 0; i < n->n_outputs; i++)
    if (qv_out(s->model, n, i)->dtype == QV_F32) settle_nans(qv_data(s, qv_out(s->model, n, i)), qv_out(s->model, n, i)->elements);
  return status;
}
