/* matmul and fully_connected in blocks: QV_COLUMNS columns of the second operand at a time as a panel. */
#include "blocks.h"

/* Room for the rows of the first operand, one of ones after them, and what goes with them. */
static int64_t left_bytes(int64_t rows, int64_t depth) {
  return qv_padded64(rows * 4) + QV_MOST_ROWS * QV_COLUMNS * 4 + qv_padded64((rows + 1) * qv_cells(depth) * QV_CELL);
}

static uint8_t *left_of(const qv_products *p, const qv_requantizer *r, int64_t rows, int64_t depth, void *memory, qv_left *l) {
  l->p = p;
  l->r = r;
  l->count = rows;
  l->depth = depth;
  l->step = qv_cells(depth) * QV_CELL;
  l->acc = memory;
  l->sums = l->acc + QV_MOST_ROWS * QV_COLUMNS;
  l->rows = (int8_t *)l->sums + qv_padded64(rows * 4);
  return (uint8_t *)memory + left_bytes(rows, depth);
}

/* Zero points of columns first .. first + count, as those of a panel. */
static void zeros_of(const qv_products *p, const qv_tensor *t, int64_t first, int64_t count, int32_t *zeros) {
  int32_t moved = qv_moved(qv_panel_flip(p, t->dtype), t->dtype);
  for (int64_t c = 0; c < count; c++) zeros[c] = qv_zero(t, first + c) + moved;
}

int64_t qv_matmul_blocks_scratch(const qv_model *m, const qv_node *n) {
  const qv_tensor *a = qv_in(m, n, 0);
  int64_t depth = a->shape[a->rank - 1];
  return qv_chosen_instructions().products ? left_bytes(a->shape[a->rank - 2], depth) + qv_panel_bytes(qv_cells(depth)) : 0;
}

static void lay_panel(const qv_products *p, const uint8_t *from, int64_t columns, int64_t depth, int64_t count, uint8_t flip, uint8_t *to) {
  for (int64_t k = 0; k < depth; k += QV_CELL, to += QV_COLUMNS * QV_CELL)
    p->interleave(from + k * columns, columns, (int)(depth - k < QV_CELL ? depth - k : QV_CELL), count, flip, to);
}

void qv_matmul_blocks_run(const qv_session *s, const qv_node *n, const qv_requantizer *r, int64_t at_a, int64_t at_b, int64_t at_y) {
  const qv_tensor *a = qv_in(s->model, n, 0), *b = qv_in(s->model, n, 1);
  int64_t columns = b->shape[b->rank - 1], size = r->real ? 4 : 1;
  qv_left l;
  uint8_t *panel = left_of(qv_blocks_of(s, n), r, a->shape[a->rank - 2], a->shape[a->rank - 1], qv_scratch(s, n), &l);
  uint8_t flip = qv_panel_flip(l.p, b->dtype), *to = (uint8_t *)qv_data(s, qv_out(s->model, n, 0)) + at_y * size;
  const uint8_t *from = (const uint8_t *)qv_data(s, b) + at_b;
  qv_take_rows(&l, (const uint8_t *)qv_data(s, a) + at_a, a->dtype, a->zero_point[0]);
  for (int64_t first = 0; first < columns; first += QV_COLUMNS) {
    int64_t count = columns - first < QV_COLUMNS ? columns - first : QV_COLUMNS;
    int32_t zeros[QV_COLUMNS];
    uint32_t start[QV_COLUMNS];
    zeros_of(l.p, b, first, count, zeros);
    lay_panel(l.p, from + first, columns, l.depth, count, flip, panel);
    qv_start_columns(&l, panel, zeros, NULL, count, start);
    qv_multiply_panel(&l, panel, start, zeros, first, count, to + first * size, columns * size);
  }
}

int qv_fully_connected_blocks_check(const qv_model *m, qv_node *n) {
  const qv_tensor *x = qv_in(m, n, 0), *k = qv_in(m, n, 1);
  if (!qv_chosen_instructions().products) return 0;
  int64_t panels = (k->shape[0] + QV_COLUMNS - 1) / QV_COLUMNS;
  n->prepared_bytes = QV_BLOCKS_HEAD + panels * qv_panel_bytes(qv_cells(k->shape[1]));
  n->scratch_bytes = left_bytes(x->shape[0], x->shape[1]);
  return 1;
}

/* `count` rows of weights as the columns of a panel. */
static void lay_weights(const uint8_t *from, int64_t depth, int64_t count, uint8_t flip, uint8_t *to) {
  memset(to, 0, (size_t)qv_panel_bytes(qv_cells(depth)));
  for (int64_t c = 0; c < count; c++, from += depth)
    for (int64_t k = 0; k < depth; k++) to[(k / QV_CELL * QV_COLUMNS + c) * QV_CELL + k % QV_CELL] = from[k] ^ flip;
}

void qv_fully_connected_blocks_prepare(const qv_session *s, const qv_node *n) {
  const qv_tensor *k = qv_in(s->model, n, 1);
  qv_keep_blocks(s, n);
  const qv_products *p = qv_blocks_of(s, n);
  int64_t outputs = k->shape[0], depth = k->shape[1], bytes = qv_panel_bytes(qv_cells(depth));
  uint8_t *to = (uint8_t *)qv_prepared(s, n) + QV_BLOCKS_HEAD;
  for (int64_t o = 0; o < outputs; o += QV_COLUMNS, to += bytes)
    lay_weights((const uint8_t *)k->constant + o * depth, depth, outputs - o < QV_COLUMNS ? outputs - o : QV_COLUMNS,
                qv_panel_flip(p, k->dtype), to);
}

void qv_fully_connected_blocks_run(const qv_session *s, const qv_node *n, const qv_requantizer *r) {
  const qv_tensor *x = qv_in(s->model, n, 0), *k = qv_in(s->model, n, 1), *bias = qv_whole_bias(s->model, n);
  const uint32_t *add = bias ? bias->constant : NULL;
  int64_t outputs = k->shape[0], size = r->real ? 4 : 1;
  qv_left l;
  left_of(qv_blocks_of(s, n), r, x->shape[0], x->shape[1], qv_scratch(s, n), &l);
  qv_take_rows(&l, qv_data(s, x), x->dtype, x->zero_point[0]);
  const uint8_t *panel = (const uint8_t *)qv_prepared(s, n) + QV_BLOCKS_HEAD;
  uint8_t *to = qv_data(s, qv_out(s->model, n, 0));
  for (int64_t o = 0; o < outputs; o += QV_COLUMNS, panel += qv_panel_bytes(l.step / QV_CELL)) {
    int64_t count = outputs - o < QV_COLUMNS ? outputs - o : QV_COLUMNS;
    int32_t zeros[QV_COLUMNS];
    uint32_t start[QV_COLUMNS];
    zeros_of(l.p, k, o, count, zeros);
    qv_start_columns(&l, panel, zeros, add ? add + o : NULL, count, start);
    qv_multiply_panel(&l, panel, start, zeros, o, count, to + o * size, outputs * size);
  }
}
