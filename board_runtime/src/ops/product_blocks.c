/* matmul and fully_connected in blocks: QV_COLUMNS columns of the second operand at a time are packed as a panel. */
#include "blocks.h"

enum { ACC_BYTES = QV_MOST_ROWS * QV_COLUMNS * 4 }; /* bytes of the sums of each thread */

static int64_t panels_of(int64_t columns) { return (columns + QV_COLUMNS - 1) / QV_COLUMNS; }
static int64_t workers_of(int64_t rows, int64_t depth, int64_t columns) { return qv_workers(panels_of(columns), rows * depth * columns); }

/* Returns the bytes for the rows of the first operand, a row of ones after them, the sums of the rows, and the sums of
   each thread. */
static int64_t left_bytes(int64_t rows, int64_t depth, int64_t workers) {
  return qv_padded64(rows * 4) + workers * ACC_BYTES + qv_padded64((rows + 1) * qv_cells(depth) * QV_CELL);
}

static uint8_t *left_of(const qv_products *p, const qv_requantizer *r, int64_t rows, int64_t depth, int64_t workers, void *memory,
                        qv_left *l) {
  l->p = p;
  l->r = r;
  l->count = rows;
  l->depth = depth;
  l->step = qv_cells(depth) * QV_CELL;
  l->acc = memory;
  l->sums = l->acc + workers * (ACC_BYTES / 4);
  l->rows = (int8_t *)l->sums + qv_padded64(rows * 4);
  return (uint8_t *)memory + left_bytes(rows, depth, workers);
}

/* Writes the zero points of columns first .. first + count - 1, moved like the bytes of a panel. */
static void zeros_of(const qv_products *p, const qv_tensor *t, int64_t first, int64_t count, int32_t *zeros) {
  int32_t moved = qv_moved(qv_panel_flip(p, t->dtype), t->dtype);
  for (int64_t c = 0; c < count; c++) zeros[c] = qv_zero(t, first + c) + moved;
}

static qv_left of_worker(const qv_left *l, int worker) {
  qv_left own = *l;
  own.acc += worker * (ACC_BYTES / 4);
  return own;
}

typedef struct {
  qv_left l;
  const qv_tensor *b;
  const uint8_t *from; /* the elements of b, or its prepared panels one after the other */
  const uint32_t *add; /* the bias, or NULL */
  uint8_t *panels, *to;
  int64_t columns, size;
} multiplying;

/* Multiplies all rows with one panel. */
static void multiply(const multiplying *m, const qv_left *l, const uint8_t *panel, int64_t first, int64_t count) {
  int32_t zeros[QV_COLUMNS];
  uint32_t start[QV_COLUMNS];
  zeros_of(l->p, m->b, first, count, zeros);
  qv_start_columns(l, panel, zeros, m->add ? m->add + first : NULL, count, start);
  qv_multiply_panel(l, panel, start, zeros, first, count, m->to + first * m->size, m->columns * m->size);
}

static int64_t width_of(const multiplying *m, int64_t first) { return m->columns - first < QV_COLUMNS ? m->columns - first : QV_COLUMNS; }

static void multiply_columns(void *user, int64_t part, int worker) {
  const multiplying *m = user;
  qv_left l = of_worker(&m->l, worker);
  int64_t first = part * QV_COLUMNS, count = width_of(m, first);
  uint8_t *panel = m->panels + worker * qv_panel_bytes(l.step / QV_CELL), *to = panel, flip = qv_panel_flip(l.p, m->b->dtype);
  for (int64_t k = 0; k < l.depth; k += QV_CELL, to += QV_COLUMNS * QV_CELL)
    l.p->interleave(m->from + k * m->columns + first, m->columns, (int)(l.depth - k < QV_CELL ? l.depth - k : QV_CELL), count, flip, to);
  multiply(m, &l, panel, first, count);
}

static void multiply_prepared(void *user, int64_t part, int worker) {
  const multiplying *m = user;
  qv_left l = of_worker(&m->l, worker);
  multiply(m, &l, m->from + part * qv_panel_bytes(l.step / QV_CELL), part * QV_COLUMNS, width_of(m, part * QV_COLUMNS));
}

int64_t qv_matmul_blocks_scratch(const qv_model *m, const qv_node *n) {
  const qv_tensor *a = qv_in(m, n, 0);
  const qv_tensor *b = qv_in(m, n, 1);
  int64_t rows = a->shape[a->rank - 2], depth = a->shape[a->rank - 1], workers = workers_of(rows, depth, b->shape[b->rank - 1]);
  if (!qv_chosen_instructions().products) return 0;
  return left_bytes(rows, depth, workers) + workers * qv_panel_bytes(qv_cells(depth));
}

void qv_matmul_blocks_run(const qv_session *s, const qv_node *n, const qv_requantizer *r, int64_t at_a, int64_t at_b, int64_t at_y) {
  const qv_tensor *a = qv_in(s->model, n, 0), *b = qv_in(s->model, n, 1);
  multiplying m = {.b = b, .from = (const uint8_t *)qv_data(s, b) + at_b, .columns = b->shape[b->rank - 1], .size = r->real ? 4 : 1};
  int64_t rows = a->shape[a->rank - 2], depth = a->shape[a->rank - 1];
  m.panels = left_of(qv_blocks_of(s, n), r, rows, depth, workers_of(rows, depth, m.columns), qv_scratch(s, n), &m.l);
  m.to = (uint8_t *)qv_data(s, qv_out(s->model, n, 0)) + at_y * m.size;
  qv_take_rows(&m.l, (const uint8_t *)qv_data(s, a) + at_a, a->dtype, a->zero_point[0]);
  qv_for_parts(multiply_columns, &m, panels_of(m.columns), m.l.count * m.l.depth * m.columns);
}

int qv_fully_connected_blocks_check(const qv_model *m, qv_node *n) {
  const qv_tensor *x = qv_in(m, n, 0), *k = qv_in(m, n, 1);
  if (!qv_chosen_instructions().products) return 0;
  n->prepared_bytes = QV_BLOCKS_HEAD + panels_of(k->shape[0]) * qv_panel_bytes(qv_cells(k->shape[1]));
  n->scratch_bytes = left_bytes(x->shape[0], x->shape[1], workers_of(x->shape[0], x->shape[1], k->shape[0]));
  return 1;
}

/* Packs `count` rows of weights as the columns of a panel. */
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
  multiplying m = {.b = k, .from = (const uint8_t *)qv_prepared(s, n) + QV_BLOCKS_HEAD, .columns = k->shape[0], .size = r->real ? 4 : 1};
  m.add = bias ? bias->constant : NULL;
  m.to = qv_data(s, qv_out(s->model, n, 0));
  int64_t workers = workers_of(x->shape[0], x->shape[1], m.columns);
  left_of(qv_blocks_of(s, n), r, x->shape[0], x->shape[1], workers, qv_scratch(s, n), &m.l);
  qv_take_rows(&m.l, qv_data(s, x), x->dtype, x->zero_point[0]);
  qv_for_parts(multiply_prepared, &m, panels_of(m.columns), m.l.count * m.l.depth * m.columns);
}
