/* Moves channels to blocks of block x block pixels; mode 0 is DCR, 1 is CRD. */
#include "op.h"

static qv_status depth_to_space_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, 2);
  if (status != QV_OK) return status;
  if ((status = qv_check_copy(m, n)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  int64_t block = qv_word(n, 0);
  if (x->rank != 4 || y->rank != 4 || block < 1 || block > 4096 || (qv_word(n, 1) & ~1) || x->shape[0] != y->shape[0] ||
      x->shape[1] != y->shape[1] * block * block || y->shape[2] != x->shape[2] * block || y->shape[3] != x->shape[3] * block)
    return qv_fail_operands(m, n, "(N, C * b * b, H, W) in, (N, C, H * b, W * b) out, block b = %ld of 1 to 4096, mode %d of 0 or 1",
                            (long)block, qv_word(n, 1));
  return QV_OK;
}

static qv_status depth_to_space_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int64_t block = qv_word(n, 0), channels = y->shape[1], height = x->shape[2], width = x->shape[3];
  int crd = qv_word(n, 1);
  size_t size = qv_dtype_size(y->dtype);
  const uint8_t *from = qv_data(s, x);
  uint8_t *to = qv_data(s, y);
  for (int64_t b = 0; b < x->shape[0]; b++)
    for (int64_t c = 0; c < channels; c++)
      for (int64_t i = 0; i < height * block; i++)
        for (int64_t j = 0; j < width * block; j++, to += size) {
          int64_t k = i % block * block + j % block, channel = crd ? c * block * block + k : k * channels + c;
          memcpy(to, from + (size_t)(((b * x->shape[1] + channel) * height + i / block) * width + j / block) * size, size);
        }
  return QV_OK;
}

const qv_op qv_op_depth_to_space = {"depth_to_space", depth_to_space_check, NULL, depth_to_space_run};
