/* y = clip(requantize(sum (a-za)(b-zb), S) + zy), with numpy's matmul broadcasting. */
#include "op.h"
#include "../arithmetic/dot.h"
#include "blocks.h"

enum { HEAD = 64 }; /* prepared memory: pointer to the kernels */

static qv_status matmul_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 3, 1, 2);
  if (status != QV_OK) return status;
  const qv_tensor *a = qv_in(m, n, 0), *b = qv_in(m, n, 1), *y = qv_out(m, n, 0);
  if (!a || !b || !qv_is_q(a) || !qv_is_q(b) || a->rank < 2 || b->rank < 2 || y->rank < 2 || a->n_scales != 1)
    return qv_fail_operands(m, n, "two quantized inputs of rank 2 or more, one scale for the first, and an output of rank 2 or more");
  int ra = a->rank, rb = b->rank, ry = y->rank;
  if (a->shape[ra - 1] != b->shape[rb - 2] || y->shape[ry - 2] != a->shape[ra - 2] || y->shape[ry - 1] != b->shape[rb - 1])
    return qv_fail_operands(m, n, "(..., M, K) and (..., K, N) in, (..., M, N) out");
  if (b->n_scales > 1 && b->channel_axis != rb - 1)
    return qv_fail(m, n, QV_E_FORMAT, "b is quantized along axis %d, wanted the last", b->channel_axis);
  if (ry != (ra > rb ? ra : rb)) return qv_fail_operands(m, n, "an output of rank %d", ra > rb ? ra : rb);
  for (int k = 0; k < ry - 2; k++) {
    int pa = ra - ry + k, pb = rb - ry + k;
    int32_t da = pa < 0 ? 1 : a->shape[pa], db = pb < 0 ? 1 : b->shape[pb];
    if ((da != 1 && db != 1 && da != db) || y->shape[k] != (da > db ? da : db))
      return qv_fail(m, n, QV_E_FORMAT, "dim %d is %d, wanted what %d and %d broadcast to", k, y->shape[k], da, db);
  }
  if (!qv_is_wide(a, b, y)) {
    int64_t pairs = qv_pairs(a->shape[ra - 1]);
    n->prepared_bytes = HEAD;
    n->scratch_bytes = (QV_ROWS + pairs) * QV_TILE * 4 + (a->shape[ra - 2] + QV_ROWS - 1) * pairs * 4;
    if (qv_matmul_blocks_scratch(m, n)) n->scratch_bytes = qv_matmul_blocks_scratch(m, n);
  }
  return qv_check_scaled(m, n, 2, y->shape[ry - 1], 0);
}

typedef struct {
  const qv_session *s;
  const qv_node *n;
  const qv_tensor *a, *b, *y;
  int64_t rows, depth, columns;
  qv_requantizer r;
  const qv_dots *dots;
} multiplying;

static qv_status matmul_prepare(const qv_session *s, const qv_node *n) {
  const qv_dots *dots = qv_chosen_instructions().dots;
  if (!n->prepared_bytes) return QV_OK;
  memcpy(qv_prepared(s, n), &dots, sizeof dots);
  qv_keep_blocks(s, n);
  return QV_OK;
}

/* Computes one matrix product of the batch with plain loops. at_a, at_b, at_y: element offsets of its
   operands and result. */
static void plain(const multiplying *w, int64_t at_a, int64_t at_b, int64_t at_y) {
  const void *pa = qv_data(w->s, w->a), *pb = qv_data(w->s, w->b);
  void *py = qv_data(w->s, w->y);
  for (int64_t i = 0; i < w->rows; i++)
    for (int64_t j = 0; j < w->columns; j++) {
      uint64_t acc = 0;
      int32_t zb = qv_zero(w->b, j), za = w->a->zero_point[0];
      for (int64_t k = 0; k < w->depth; k++)
        acc += (uint64_t)((int64_t)(qv_load(pa, w->a->dtype, at_a + i * w->depth + k) - za) *
                          (qv_load(pb, w->b->dtype, at_b + k * w->columns + j) - zb));
      int64_t sum = w->r.wide ? (int64_t)acc : (int32_t)(uint32_t)acc;
      qv_store(py, w->y->dtype, at_y + i * w->columns + j, qv_requantize(&w->r, sum, j));
    }
}

/* Packs columns first .. first + count - 1 of b as panels. */
static void gather_columns(const multiplying *w, const uint8_t *b, int64_t first, int64_t count, int16_t *panels) {
  int64_t pairs = qv_pairs(w->depth);
  for (int64_t p = 0; p < count; p += QV_PANEL) {
    int64_t some = count - p < QV_PANEL ? count - p : QV_PANEL;
    for (int64_t k = 0; k < w->depth; k++) {
      int16_t *to = panels + p * pairs * 2 + k / 2 * 2 * QV_PANEL + k % 2;
      const uint8_t *from = b + k * w->columns + first + p;
      if (w->b->n_scales == 1) w->dots->centre(from, w->b->dtype == QV_S8, w->b->zero_point[0], some, 2, to);
      else
        for (int64_t c = 0; c < some; c++) to[2 * c] = (int16_t)(qv_load(from, w->b->dtype, c) - w->b->zero_point[first + p + c]);
    }
  }
}

static void finish(const multiplying *w, int64_t first, int64_t count, const uint32_t *acc, uint8_t *to) {
  if (w->r.channels == 1) w->dots->finish(&w->r, 0, 0, acc, count, to);
  else if (w->r.real)
    for (int64_t j = 0; j < count; j++) qv_store(to, QV_F32, j, qv_requantize(&w->r, (int32_t)acc[j], first + j));
  else
    for (int64_t j = 0; j < count; j++) to[j] = (uint8_t)qv_requantize(&w->r, (int32_t)acc[j], first + j);
}

static void fast(const multiplying *w, int64_t at_a, int64_t at_b, int64_t at_y) {
  if (qv_blocks_of(w->s, w->n)) {
    qv_matmul_blocks_run(w->s, w->n, &w->r, at_a, at_b, at_y);
    return;
  }
  int64_t pairs = qv_pairs(w->depth), row = pairs * 2, size = (int64_t)qv_dtype_size(w->y->dtype);
  uint32_t *acc = qv_scratch(w->s, w->n);
  int16_t *panels = (int16_t *)(void *)(acc + QV_ROWS * QV_TILE), *centred = panels + qv_tile_elements(pairs);
  const uint8_t *a = (const uint8_t *)qv_data(w->s, w->a) + at_a, *b = (const uint8_t *)qv_data(w->s, w->b) + at_b;
  uint8_t *to = (uint8_t *)qv_data(w->s, w->y) + at_y * size;
  memset(panels, 0, (size_t)(qv_tile_elements(pairs) + (w->rows + QV_ROWS - 1) * row) * 2);
  for (int64_t i = 0; i < w->rows; i++)
    w->dots->centre(a + i * w->depth, w->a->dtype == QV_S8, w->a->zero_point[0], w->depth, 1, centred + i * row);
  for (int64_t first = 0; first < w->columns; first += QV_TILE) {
    int64_t count = w->columns - first < QV_TILE ? w->columns - first : QV_TILE;
    gather_columns(w, b, first, count, panels);
    for (int64_t i = 0; i < w->rows; i += QV_ROWS) {
      for (int64_t p = 0; p < count; p += QV_PANEL) w->dots->panel(centred + i * row, row, panels + p * row, pairs, acc + p);
      for (int64_t t = 0; t < QV_ROWS && i + t < w->rows; t++)
        finish(w, first, count, acc + t * QV_TILE, to + ((i + t) * w->columns + first) * size);
    }
  }
}

static qv_status matmul_run(const qv_session *s, const qv_node *n) {
  multiplying w = {.s = s, .n = n, .a = qv_in(s->model, n, 0), .b = qv_in(s->model, n, 1), .y = qv_out(s->model, n, 0)};
  const qv_tensor *a = w.a, *b = w.b, *y = w.y;
  w.rows = a->shape[a->rank - 2];
  w.depth = a->shape[a->rank - 1];
  w.columns = b->shape[b->rank - 1];
  qv_requantizer_of(s, n, 2, 0, qv_is_wide(a, b, y), &w.r);
  if (n->prepared_bytes) memcpy(&w.dots, qv_prepared(s, n), sizeof w.dots);
  int64_t index[QV_MAX_RANK] = {0}, batches = y->elements / (w.rows * w.columns);
  for (int64_t batch = 0; batch < batches; batch++) {
    int64_t at_a = 0, at_b = 0, step_a = w.rows * w.depth, step_b = w.depth * w.columns;
    for (int k = y->rank - 3; k >= 0; k--) {
      int ka = a->rank - y->rank + k, kb = b->rank - y->rank + k;
      if (ka >= 0) {
        at_a += a->shape[ka] == 1 ? 0 : index[k] * step_a;
        step_a *= a->shape[ka];
      }
      if (kb >= 0) {
        at_b += b->shape[kb] == 1 ? 0 : index[k] * step_b;
        step_b *= b->shape[kb];
      }
    }
    if (w.dots && !s->plain_only) fast(&w, at_a, at_b, batch * w.rows * w.columns);
    else plain(&w, at_a, at_b, batch * w.rows * w.columns);
    for (int k = y->rank - 3; k >= 0; k--) {
      if (++index[k] < y->shape[k]) break;
      index[k] = 0;
    }
  }
  return QV_OK;
}

const qv_op qv_op_matmul = {"matmul", matmul_check, matmul_prepare, matmul_run};
