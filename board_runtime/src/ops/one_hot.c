/* y = values[1] where the position along axis is equal to the index, otherwise values[0]. */
#include "op.h"

static qv_status one_hot_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 2, 1, 1);
  if (status != QV_OK) return status;
  const qv_tensor *index = qv_in(m, n, 0), *values = qv_in(m, n, 1), *y = qv_out(m, n, 0);
  int32_t axis = qv_word(n, 0);
  if (!qv_is_index(index)) return qv_fail_operands(m, n, "indices of int64 or int32");
  if (!values || values->elements != 2 || !qv_same_quantization(values, y))
    return qv_fail_operands(m, n, "two values of the output's type");
  if (axis < 0 || axis > index->rank) return qv_fail(m, n, QV_E_FORMAT, "axis %d, wanted 0 to %d", axis, index->rank);
  if (y->rank != index->rank + 1) return qv_fail_operands(m, n, "an output of rank %d", index->rank + 1);
  for (int k = 0; k < index->rank; k++)
    if (index->shape[k] != y->shape[k < axis ? k : k + 1])
      return qv_fail_operands(m, n, "an output of the indices' shape with dim %d inserted", axis);
  return QV_OK;
}

static qv_status one_hot_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *index = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  int32_t axis = qv_word(n, 0);
  int64_t inner = 1, depth = y->shape[axis];
  for (int k = axis + 1; k < y->rank; k++) inner *= y->shape[k];
  size_t size = qv_dtype_size(y->dtype);
  const uint8_t *values = qv_data(s, qv_in(s->model, n, 1));
  const void *indices = qv_data(s, index);
  uint8_t *to = qv_data(s, y);
  for (int64_t i = 0; i < y->elements; i++, to += size) {
    int64_t outer = i / (inner * depth), at = i / inner % depth;
    int64_t v = qv_load64(indices, index->dtype, outer * inner + i % inner);
    memcpy(to, values + (v == at || (v < 0 && v + depth == at) ? size : 0), size);
  }
  return QV_OK;
}

const qv_op qv_op_one_hot = {"one_hot", one_hot_check, NULL, one_hot_run};
