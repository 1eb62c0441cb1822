/* y_c = clip((sum_k m[c][k]*d_k + 2^(shift-1)) >> shift, 0, 255), d_k = x_k - offset_k, d_0 at least `floor`. */
#include "op.h"

enum { SHIFT, FLOOR, OFFSET, MATRIX = OFFSET + 3, WORDS = MATRIX + 9, LARGEST = 1 << 24 };

static qv_status yuv_to_rgb_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, WORDS);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || !qv_is_8bit(x) || y->dtype != QV_U8 || x->rank != 4 || x->shape[1] != 3 || !qv_same_shape(x, y))
    return qv_fail_operands(m, n, "(N, 3, H, W) of 8 bits in, uint8 of its shape out");
  if (qv_word(n, SHIFT) < 1 || qv_word(n, SHIFT) > 24) return qv_fail(m, n, QV_E_FORMAT, "shift %d, wanted 1 to 24", qv_word(n, SHIFT));
  for (int k = FLOOR; k < WORDS; k++)
    if (qv_word(n, k) < -LARGEST || qv_word(n, k) > LARGEST)
      return qv_fail(m, n, QV_E_FORMAT, "word %d is %d, wanted within 2^24", k, qv_word(n, k));
  return QV_OK;
}

static qv_status yuv_to_rgb_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  const void *from = qv_data(s, x);
  uint8_t *to = qv_data(s, y);
  int64_t plane = (int64_t)x->shape[2] * x->shape[3];
  int shift = qv_word(n, SHIFT);
  for (int64_t batch = 0; batch < x->shape[0]; batch++)
    for (int64_t i = 0; i < plane; i++) {
      int64_t first = batch * 3 * plane + i, d[3];
      for (int k = 0; k < 3; k++) d[k] = (int64_t)qv_load(from, x->dtype, first + k * plane) - qv_word(n, OFFSET + k);
      if (d[0] < qv_word(n, FLOOR)) d[0] = qv_word(n, FLOOR);
      for (int c = 0; c < 3; c++) {
        const int32_t *row = n->words + MATRIX + 3 * c;
        int64_t v = (row[0] * d[0] + row[1] * d[1] + row[2] * d[2] + ((int64_t)1 << (shift - 1))) >> shift;
        to[first + c * plane] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
      }
    }
  return QV_OK;
}

const qv_op qv_op_yuv_to_rgb = {"yuv_to_rgb", yuv_to_rgb_check, NULL, yuv_to_rgb_run};
