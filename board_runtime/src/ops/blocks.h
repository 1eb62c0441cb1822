/* conv, matmul and fully_connected in blocks, by the products of the chosen instruction set. */
#ifndef QV_BLOCKS_H
#define QV_BLOCKS_H
#include "../arithmetic/instructions.h"
#include "../threads.h"
#include "window.h"

/* Each op has three functions: whether it runs in blocks, with the node's scratch_bytes and prepared_bytes set if so; once after load;
   a run. Prepared memory begins with the qv_products that check chose, at its byte QV_BLOCKS_AT; NULL: not in blocks. */
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

int64_t qv_matmul_blocks_scratch(const qv_model *m, const qv_node *n); /* 0: not in blocks */
/* One matrix product, from elements at_a, at_b to element at_y. */
void qv_matmul_blocks_run(const qv_session *s, const qv_node *n, const qv_requantizer *r, int64_t at_a, int64_t at_b, int64_t at_y);
#endif
