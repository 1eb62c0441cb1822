/* y[i] = x[i mod the dims of x]; x gets leading dims of 1 if its rank is less than that of y. */
#include "op.h"

static qv_status tile_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 0);
  if (status != QV_OK) return status;
  if ((status = qv_check_copy(m, n)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (y->rank < x->rank) return qv_fail_operands(m, n, "an output of rank %d or more", x->rank);
  for (int k = 0; k < x->rank; k++)
    if (y->shape[y->rank - x->rank + k] % x->shape[k] != 0)
      return qv_fail_operands(m, n, "an output whose dims are multiples of the input's last ones");
  return QV_OK;
}

/* Fills the block of y at `to`, which has y's dims from `dim` on, from the block of x at `from`. Returns its
   size in bytes. */
static size_t fill(const qv_tensor *x, const qv_tensor *y, int dim, const uint8_t *from, uint8_t *to) {
  size_t size = qv_dtype_size(y->dtype), done = 0;
  if (dim == y->rank) {
    memcpy(to, from, size);
    return size;
  }
  int own = dim - (y->rank - x->rank);
  int32_t count = own < 0 ? 1 : x->shape[own];
  size_t step = size;
  for (int k = own < 0 ? 0 : own + 1; k < x->rank; k++) step *= (size_t)x->shape[k];
  if (dim == y->rank - 1 && own >= 0) {
    memcpy(to, from, (size_t)count * size);
    done = (size_t)count * size;
  } else {
    for (int32_t i = 0; i < count; i++) done += fill(x, y, dim + 1, from + (size_t)i * step, to + done);
  }
  size_t once = done;
  for (int32_t i = count; i < y->shape[dim]; i += count, done += once) memcpy(to + done, to, once);
  return done;
}

static qv_status tile_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  (void)fill(x, y, 0, qv_data(s, x), qv_data(s, y));
  return QV_OK;
}

const qv_op qv_op_tile = {"tile", tile_check, NULL, tile_run};
