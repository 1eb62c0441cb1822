/* conv, conv_transpose, matmul and fully_connected in blocks, with the qv_products of the chosen instruction set. */
#ifndef QV_BLOCKS_H
#define QV_BLOCKS_H
#include "../arithmetic/instructions.h"
#include "../threads.h"
#include "window.h"

/* Each op has three functions. NAME_check returns whether the node can run in blocks, and if so sets its
   scratch_bytes and prepared_bytes; NAME_prepare is called once after load; NAME_run runs the node. The prepared
   memory contains at byte QV_BLOCKS_AT a pointer to the qv_products, which qv_blocks_of returns: NULL if the node
   does not run in blocks. */
enum { QV_BLOCKS_AT = 16, QV_BLOCKS_HEAD = 64 };
static inline const qv_products *qv_blocks_of(const qv_session *s, const qv_node *n) {
  const qv_products *p;
  memcpy(&p, (const uint8_t *)qv_prepared(s, n) + QV_BLOCKS_AT, sizeof p);
  return p;
}
static inline void qv_keep_blocks(const qv_session *s, const qv_node *n) {
  const qv_products *p = qv_chosen_instructions().products;
  memcpy((uint8_t *)qv_prepared(s, n) + QV_BLOCKS_AT, &p, sizeof p);
}

int qv_conv_blocks_check(const qv_model *m, qv_node *n);
void qv_conv_blocks_prepare(const qv_session *s, const qv_node *n);
void qv_conv_blocks_run(const qv_session *s, const qv_node *n, const qv_requantizer *r);

int qv_conv_transpose_blocks_check(const qv_model *m, qv_node *n);
void qv_conv_transpose_blocks_prepare(const qv_session *s, const qv_node *n);
void qv_conv_transpose_blocks_run(const qv_session *s, const qv_node *n, const qv_requantizer *r);

int qv_fully_connected_blocks_check(const qv_model *m, qv_node *n);
void qv_fully_connected_blocks_prepare(const qv_session *s, const qv_node *n);
void qv_fully_connected_blocks_run(const qv_session *s, const qv_node *n, const qv_requantizer *r);

int64_t qv_matmul_blocks_scratch(const qv_model *m, const qv_node *n); /* returns 0 if the node cannot run in blocks */
/* Computes one matrix product of the batch, whose operands and result begin at elements at_a, at_b and at_y. */
void qv_matmul_blocks_run(const qv_session *s, const qv_node *n, const qv_requantizer *r, int64_t at_a, int64_t at_b, int64_t at_y);
#endif
