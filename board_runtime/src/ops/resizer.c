/* y = a part (x, y, width, height) of the image, resized bilinearly with 11-bit weights from pixel centres; the part is
   an input of the node. */
#include "op.h"

enum { ONE = 2048 };

static qv_status resizer_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 2, 1, 0);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *part = qv_in(m, n, 1), *y = qv_out(m, n, 0);
  if (!x || !qv_is_8bit(x) || y->dtype != x->dtype || x->rank != 4 || y->rank != 4 || x->shape[0] != y->shape[0] ||
      x->shape[1] != y->shape[1])
    return qv_fail_operands(m, n, "(N, C, H, W) of 8 bits in, another height and width out");
  if (!part || part->dtype != QV_I32 || part->elements != 4) return qv_fail_operands(m, n, "int32 [4] for x, y, width, height");
  for (int k = 2; k < 4; k++)
    if (x->shape[k] < 1 || x->shape[k] > 1 << 15 || y->shape[k] < 1 || y->shape[k] > 1 << 15)
      return qv_fail(m, n, QV_E_FORMAT, "dim %d is %d in and %d out, wanted 1 to 32768", k, x->shape[k], y->shape[k]);
  return QV_OK;
}

/* Computes which of `from` pixels output number `at` of `to` reads: two neighbours, and the weight of the
   second one in 1/2048. */
static void sample(int32_t at, int32_t to, int32_t from, int32_t *first, int32_t *second, int32_t *weight) {
  int64_t place = ((2 * (int64_t)at + 1) * from * (ONE / 2)) / to - ONE / 2;
  if (place < 0) place = 0;
  *first = (int32_t)(place / ONE);
  *second = *first + 1 < from ? *first + 1 : from - 1;
  *weight = (int32_t)(place % ONE);
}

static qv_status resizer_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  const int32_t *part = qv_data(s, qv_in(s->model, n, 1));
  const int32_t rows = x->shape[2], columns = x->shape[3], high = y->shape[2], wide = y->shape[3];
  if (part[0] < 0 || part[1] < 0 || part[2] < 1 || part[3] < 1 || part[2] > columns - part[0] || part[3] > rows - part[1])
    return qv_fail(s->model, n, QV_E_INPUT, "input 1, the part at (%d, %d) of %d x %d, wanted 1 x 1 or more within %d x %d", part[0],
                   part[1], part[2], part[3], columns, rows);
  const void *from = qv_data(s, x);
  void *to = qv_data(s, y);
  for (int64_t plane = 0, at = 0; plane < (int64_t)x->shape[0] * x->shape[1]; plane++)
    for (int32_t i = 0; i < high; i++) {
      int32_t up, down, fy;
      sample(i, high, part[3], &up, &down, &fy);
      int64_t upper = (plane * rows + part[1] + up) * columns + part[0], lower = (plane * rows + part[1] + down) * columns + part[0];
      for (int32_t j = 0; j < wide; j++, at++) {
        int32_t left, right, fx;
        sample(j, wide, part[2], &left, &right, &fx);
        int32_t above = (ONE - fx) * qv_load(from, x->dtype, upper + left) + fx * qv_load(from, x->dtype, upper + right);
        int32_t below = (ONE - fx) * qv_load(from, x->dtype, lower + left) + fx * qv_load(from, x->dtype, lower + right);
        qv_store(to, y->dtype, at, (int32_t)(((int64_t)(ONE - fy) * above + (int64_t)fy * below + ONE * ONE / 2) >> 22));
      }
    }
  return QV_OK;
}

const qv_op qv_op_resizer = {"resizer", resizer_check, NULL, resizer_run};
