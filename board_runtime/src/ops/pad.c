/* y = x with constant (0), reflected (1) or edge (2) borders. */
#include "op.h"

static qv_status pad_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, -1);
  if (status != QV_OK) return status;
  if ((status = qv_check_copy(m, n)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (x->rank != y->rank) return qv_fail_operands(m, n, "one rank in and out");
  if (n->n_words != 2 + x->rank) return qv_fail(m, n, QV_E_FORMAT, "%d words, wanted %d", n->n_words, 2 + x->rank);
  if (qv_word(n, 0) < 0 || qv_word(n, 0) > 2) return qv_fail(m, n, QV_E_FORMAT, "word 0 is %d, wanted 0 to 2", qv_word(n, 0));
  if (y->dtype == QV_BOOL && qv_word(n, 1) & ~1) return qv_fail(m, n, QV_E_FORMAT, "word 1 is %d, wanted 0 or 1 for a bool", qv_word(n, 1));
  for (int k = 0; k < y->rank; k++) {
    int64_t before = qv_word(n, 2 + k), after = (int64_t)y->shape[k] - x->shape[k] - before;
    if (before < 0 || after < 0)
      return qv_fail(m, n, QV_E_FORMAT, "dim %d: pads of %ld and %ld, wanted 0 or more", k, (long)before, (long)after);
    if (qv_word(n, 0) == 1 && (before >= x->shape[k] || after >= x->shape[k]))
      return qv_fail(m, n, QV_E_FORMAT, "dim %d: reflected pads of %ld and %ld, wanted less than %d", k, (long)before, (long)after,
                     x->shape[k]);
  }
  return QV_OK;
}

/* Writes the low bytes of a word to `out`, as an element of `size` bytes. */
static void element(int32_t word, size_t size, uint8_t out[8]) {
  int64_t wide = word;
  memcpy(out, &wide, 8);
  if (!qv_little_endian()) memmove(out, out + 8 - size, size);
}

static qv_status pad_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int64_t dense[QV_MAX_RANK] = {0}, index[QV_MAX_RANK] = {0};
  size_t size = qv_dtype_size(y->dtype);
  int32_t mode = qv_word(n, 0);
  uint8_t value[8];
  element(qv_word(n, 1), size, value);
  qv_broadcast_strides(x, x, dense);
  const uint8_t *from = qv_data(s, x);
  uint8_t *to = qv_data(s, y);
  for (int64_t done = 0; done < y->elements; done++, to += size) {
    int64_t at = 0;
    int outside = 0;
    for (int k = 0; k < y->rank; k++) {
      int64_t i = index[k] - qv_word(n, 2 + k), last = x->shape[k] - 1;
      if (i < 0 || i > last) {
        outside = 1;
        i = mode == 1 ? (i < 0 ? -i : 2 * last - i) : (i < 0 ? 0 : last);
      }
      at += dense[k] * i;
    }
    memcpy(to, outside && mode == 0 ? value : from + (size_t)at * size, size);
    for (int k = y->rank - 1; k >= 0; k--) {
      if (++index[k] < y->shape[k]) break;
      index[k] = 0;
    }
  }
  return QV_OK;
}

const qv_op qv_op_pad = {"pad", pad_check, NULL, pad_run};
