/* What op files share: arity, copies and broadcasting. */
#ifndef QV_OP_H
#define QV_OP_H
#include "../elements.h"

/* Counts of operands and words; QV_E_FORMAT with the op's message otherwise. */
qv_status qv_arity(qv_model *m, const qv_node *n, int inputs, int outputs, int words);
/* A dense copy between tensors that carry equal quantization: dtype and parameters agree. */
qv_status qv_check_copy(qv_model *m, const qv_node *n);
/* numpy broadcasting of inputs `a` and `b` to output 0. */
qv_status qv_check_broadcast(qv_model *m, const qv_node *n, int a, int b);
/* Element strides of `t` for walking `out`'s index space (0 where it is broadcast). */
void qv_broadcast_strides(const qv_tensor *t, const qv_tensor *out, int64_t stride[QV_MAX_RANK]);
/* Calls row(user, a offset, b offset, out offset, a step, b step, length) for every innermost row of `out`. */
typedef void (*qv_row)(void *user, int64_t a, int64_t b, int64_t out, int64_t step_a, int64_t step_b, int64_t length);
void qv_for_rows(const qv_tensor *a, const qv_tensor *b, const qv_tensor *out, qv_row row, void *user);
/* The same with rows joined that go on where the one before ends. */
void qv_for_runs(const qv_tensor *a, const qv_tensor *b, const qv_tensor *out, qv_row row, void *user);
/* A walk in `out`'s order over a source with any strides (elements), from `start`: copies elements of `size` bytes. */
void qv_copy_strided(const qv_tensor *out, const int64_t stride[QV_MAX_RANK], int64_t start, const void *source, void *target);
/* Whether `t` is there and holds indices: int64 or int32. */
int qv_is_index(const qv_tensor *t);
/* Element i of the indices that `input` is, counted from the end where negative; QV_E_INPUT outside -size..size-1. */
qv_status qv_index(const qv_session *s, const qv_node *n, int input, int64_t i, int64_t size, int64_t *at);
/* Whether a constant second input of integers has no 0, at load; whether a computed one has none: QV_E_INPUT if it has. */
qv_status qv_check_divisors(qv_model *m, const qv_node *n);
qv_status qv_divisors(const qv_session *s, const qv_node *n);
#endif
