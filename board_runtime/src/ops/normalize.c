/* y = fl32(fl32(x - mean_c) * scale_c), c along axis 1. */
#include "op.h"

static const float LARGEST = 1152921504606846976.0f; /* 2^60: with such limits nothing overflows, and no NaN can result */

static qv_status normalize_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, -1);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || (!qv_is_8bit(x) && x->dtype != QV_S16) || y->dtype != QV_F32 || x->rank != 4 || !qv_same_shape(x, y))
    return qv_fail_operands(m, n, "(N, C, H, W) of 8 bits or int16 in, float32 of its shape out");
  if (n->n_words != 2 * x->shape[1])
    return qv_fail(m, n, QV_E_FORMAT, "%d words for %d channels, wanted %d", n->n_words, x->shape[1], 2 * x->shape[1]);
  for (int k = 0; k < n->n_words; k++)
    if (!(qv_word_f32(n, k) >= -LARGEST && qv_word_f32(n, k) <= LARGEST))
      return qv_fail(m, n, QV_E_FORMAT, "word %d: a mean or a scale is %g, wanted within 2^60", k, (double)qv_word_f32(n, k));
  return QV_OK;
}

static qv_status normalize_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  const void *from = qv_data(s, x);
  float *to = qv_data(s, y);
  int64_t plane = (int64_t)x->shape[2] * x->shape[3];
  int channels = x->shape[1];
  for (int64_t k = 0; k < x->shape[0] * (int64_t)channels; k++) {
    float mean = qv_word_f32(n, (int)(k % channels)), scale = qv_word_f32(n, channels + (int)(k % channels));
    for (int64_t i = k * plane; i < (k + 1) * plane; i++) {
      float centred = (float)qv_load(from, x->dtype, i) - mean;
      to[i] = centred * scale;
    }
  }
  return QV_OK;
}

const qv_op qv_op_normalize = {"normalize", normalize_check, NULL, normalize_run};
