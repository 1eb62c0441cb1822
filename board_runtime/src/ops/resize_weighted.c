/* y = fl32(sum_a wy[a] * (sum_b wx[b] * X[row a, column b])) over the last two dims; the sums are in float64
   and start at 0. */
#include "../arithmetic/float32.h"
#include "op.h"
#include <math.h>

static qv_status resize_weighted_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 3, 1, 2);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *index = qv_in(m, n, 1), *weight = qv_in(m, n, 2), *y = qv_out(m, n, 0);
  if (!x || x->rank < 2 || x->rank != y->rank || x->dtype != QV_F32 || y->dtype != QV_F32)
    return qv_fail_operands(m, n, "float32 in and out, of one rank, 2 or more");
  for (int k = 0; k < x->rank - 2; k++)
    if (x->shape[k] != y->shape[k])
      return qv_fail(m, n, QV_E_FORMAT, "dim %d is %d in and %d out, wanted a change in the last two dims only", k, x->shape[k],
                     y->shape[k]);
  for (int i = 0; i < 2; i++)
    if (qv_word(n, i) < 1 || qv_word(n, i) > 65536) return qv_fail(m, n, QV_E_FORMAT, "word %d is %d, wanted 1 to 65536", i, qv_word(n, i));
  for (int i = 0; i < 2; i++)
    if (qv_word(n, i) > 4 * (int64_t)x->shape[x->rank - 2 + i] + 8)
      return qv_fail(m, n, QV_E_FORMAT, "word %d is %d, wanted at most 4 * %d + 8", i, qv_word(n, i), x->shape[x->rank - 2 + i]);
  int64_t of_rows = (int64_t)qv_word(n, 0) * y->shape[y->rank - 2], all = of_rows + (int64_t)qv_word(n, 1) * y->shape[y->rank - 1];
  if (!index || !weight || !index->constant || !weight->constant || index->dtype != QV_I32 || weight->dtype != QV_F32 ||
      index->elements != all || weight->elements != all)
    return qv_fail_operands(m, n, "constant tables of %ld int32 indices and float32 weights", (long)all);
  const int32_t *at = index->constant;
  const float *by = weight->constant;
  for (int64_t i = 0; i < all; i++) {
    int32_t size = x->shape[i < of_rows ? x->rank - 2 : x->rank - 1];
    if (at[i] < 0 || at[i] >= size) return qv_fail(m, n, QV_E_FORMAT, "index %ld is %d, wanted 0 to %d", (long)i, at[i], size - 1);
    if (!(fabs((double)by[i]) <= 1e30)) return qv_fail(m, n, QV_E_FORMAT, "weight %ld is not finite, or above 1e30", (long)i);
  }
  n->scratch_bytes = (int64_t)x->shape[x->rank - 2] * 8;
  return QV_OK;
}

static double line_at(const float *line, const int32_t *columns, const float *weights, int64_t taps) {
  double sum = 0.0;
  for (int64_t b = 0; b < taps; b++) sum = sum + qv_wide_product(weights[b], line[columns[b]]);
  return sum;
}

static qv_status resize_weighted_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int64_t taps_y = qv_word(n, 0), taps_x = qv_word(n, 1), rows = y->shape[y->rank - 2], columns = y->shape[y->rank - 1];
  int64_t width = x->shape[x->rank - 1], plane = width * x->shape[x->rank - 2];
  const int32_t *of_rows = qv_in(s->model, n, 1)->constant, *of_columns = of_rows + taps_y * rows;
  const float *wy = qv_in(s->model, n, 2)->constant, *wx = wy + taps_y * rows, *from = qv_data(s, x);
  float *to = qv_data(s, y);
  double *lines = qv_scratch(s, n); /* for one column of the output: the weighted sum of every row of x */
  for (int64_t p = 0; p < x->elements; p += plane, to += rows * columns)
    for (int64_t j = 0; j < columns; j++) {
      for (int64_t k = 0; k < plane / width; k++)
        lines[k] = line_at(from + p + k * width, of_columns + j * taps_x, wx + j * taps_x, taps_x);
      for (int64_t i = 0; i < rows; i++) {
        double sum = 0.0;
        for (int64_t a = 0; a < taps_y; a++) sum = sum + (double)wy[i * taps_y + a] * lines[of_rows[i * taps_y + a]];
        to[i * columns + j] = sum != sum ? NAN : (float)sum;
      }
    }
  return QV_OK;
}

const qv_op qv_op_resize_weighted = {"resize_weighted", resize_weighted_check, NULL, resize_weighted_run};
