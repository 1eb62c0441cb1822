/* y = clip(requantize(sum (a-za)(b-zb), S) + zy), numpy's matmul broadcasting. */
#include "op.h"
#include "../arithmetic/requantize.h"

static qv_status matmul_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 3, 1, 2);
  if (status != QV_OK) return status;
  const qv_tensor *a = qv_in(m, n, 0), *b = qv_in(m, n, 1), *y = qv_out(m, n, 0);
  if (!a || !b || !qv_is_q(a) || !qv_is_q(b) || a->rank < 2 || b->rank < 2 || y->rank < 2 || a->n_scales != 1) return qv_fail(m, n, QV_E_FORMAT, "bad operands");
  int ra = a->rank, rb = b->rank, ry = y->rank;
  if (a->shape[ra - 1] != b->shape[rb - 2] || y->shape[ry - 2] != a->shape[ra - 2] || y->shape[ry - 1] != b->shape[rb - 1]) return qv_fail(m, n, QV_E_FORMAT, "inner dims do not fit");
  if (b->n_scales > 1 && b->channel_axis != rb - 1) return qv_fail(m, n, QV_E_FORMAT, "b is quantized along axis %d, wanted the last", b->channel_axis);
  if (ry != (ra > rb ? ra : rb)) return qv_fail(m, n, QV_E_FORMAT, "bad output rank");
  for (int k = 0; k < ry - 2; k++) {
    int pa = ra - ry + k, pb = rb - ry + k;
    int32_t da = pa < 0 ? 1 : a->shape[pa], db = pb < 0 ? 1 : b->shape[pb];
    if ((da != 1 && db != 1 && da != db) || y->shape[k] != (da > db ? da : db)) return qv_fail(m, n, QV_E_FORMAT, "outer dims do not broadcast");
  }
  if ((status = qv_check_rq(m, n, 2, y->shape[ry - 1], 0)) != QV_OK) return status;
  return QV_OK;
}

static qv_status matmul_run(const qv_session *s, const qv_node *n) {
  const qv_model *m = s->model;
  const qv_tensor *a = qv_in(m, n, 0), *b = qv_in(m, n, 1), *y = qv_out(m, n, 0);
  int64_t rows = a->shape[a->rank - 2], depth = a->shape[a->rank - 1], columns = b->shape[b->rank - 1];
  int wide = qv_is_wide(a, b, y);
  qv_requantizer r;
  qv_requantizer_of(s, n, 2, 0, wide, &r);
  const void *pa = qv_data(s, a), *pb = qv_data(s, b);
  void *py = qv_data(s, y);
  int64_t index[QV_MAX_RANK] = {0}, batches = y->elements / (rows * columns);
  for (int64_t batch = 0; batch < batches; batch++) {
    int64_t at_a = 0, at_b = 0, step_a = rows * depth, step_b = depth * columns;
    for (int k = y->rank - 3; k >= 0; k--) {
      int ka = a->rank - y->rank + k, kb = b->rank - y->rank + k;
      if (ka >= 0) { at_a += a->shape[ka] == 1 ? 0 : index[k] * step_a; step_a *= a->shape[ka]; }
      if (kb >= 0) { at_b += b->shape[kb] == 1 ? 0 : index[k] * step_b; step_b *= b->shape[kb]; }
    }
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < columns; j++) {
        int64_t acc = 0;
        int32_t zb = qv_zero(b, j), za = a->zero_point[0];
        for (int64_t k = 0; k < depth; k++)
          acc += (int64_t)(qv_load(pa, a->dtype, at_a + i * depth + k) - za) * (qv_load(pb, b->dtype, at_b + k * columns + j) - zb);
        if (!wide) acc = (int32_t)(uint32_t)acc;
        qv_store(py, y->dtype, (batch * rows + i) * columns + j, qv_requantize(&r, acc, j));
      }
    for (int k = y->rank - 3; k >= 0; k--) {
      if (++index[k] < y->shape[k]) break;
      index[k] = 0;
    }
  }
  return QV_OK;
}

const qv_op qv_op_matmul = {"matmul", matmul_check, NULL, matmul_run};
