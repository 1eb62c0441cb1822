/* Functions shared by the files of the ops: checks of operands, indices, broadcasting, strided copies. */
#ifndef QV_OP_H
#define QV_OP_H
#include "../elements.h"

/* Checks the numbers of inputs, outputs and words (words: -1 for any number). Returns QV_E_FORMAT if they differ. */
qv_status qv_arity(qv_model *m, const qv_node *n, int inputs, int outputs, int words);
/* Checks that all outputs have the dtype and the quantization of input 0, so that elements can be copied. */
qv_status qv_check_copy(qv_model *m, const qv_node *n);
/* Checks that inputs `first` to `last` broadcast (as in numpy) to the shape of output 0. */
qv_status qv_check_broadcast(qv_model *m, const qv_node *n, int first, int last);
/* Computes the strides of `t`, in elements, along the dims of `out`; 0 where `t` is broadcast. */
void qv_broadcast_strides(const qv_tensor *t, const qv_tensor *out, int64_t stride[QV_MAX_RANK]);
/* qv_for_rows calls row(user, a offset, b offset, out offset, a step, b step, length) for every innermost row of `out`;
   offsets, steps and length are in elements. */
typedef void (*qv_row)(void *user, int64_t a, int64_t b, int64_t out, int64_t step_a, int64_t step_b, int64_t length);
void qv_for_rows(const qv_tensor *a, const qv_tensor *b, const qv_tensor *out, qv_row row, void *user);
/* As qv_for_rows, but consecutive rows are joined if each begins where the one before ends, in all three tensors. */
void qv_for_runs(const qv_tensor *a, const qv_tensor *b, const qv_tensor *out, qv_row row, void *user);
/* Copies elements of `source` to `target` in the order of `out`'s elements. The source is read from element `start` on,
   with any strides in elements along the dims of `out`. */
void qv_copy_strided(const qv_tensor *out, const int64_t stride[QV_MAX_RANK], int64_t start, const void *source, void *target);
/* Returns whether `t` is not NULL and has a type of indices, int64 or int32. */
int qv_is_index(const qv_tensor *t);
/* Sets *at to element i of the indices in input number `input`; a negative index counts from the end. Returns
   QV_E_INPUT if it is not in -size .. size - 1. */
qv_status qv_index(const qv_session *s, const qv_node *n, int input, int64_t i, int64_t size, int64_t *at);
/* Check that the second input, the divisors, contains no 0: qv_check_divisors at load if it is a constant
   (QV_E_FORMAT), qv_divisors in each run if it is computed (QV_E_INPUT). */
qv_status qv_check_divisors(qv_model *m, const qv_node *n);
qv_status qv_divisors(const qv_session *s, const qv_node *n);
#endif
