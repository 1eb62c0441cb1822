/* Functions of the blocked products that are the same for every instruction set. */
#include "products.h"

void qv_take_rows(qv_left *l, const uint8_t *from, int32_t dtype, int32_t zero) {
  uint8_t flip = qv_row_flip(dtype);
  l->zero = zero + qv_moved(flip, dtype);
  for (int64_t i = 0; i < l->count; i++, from += l->depth) {
    int8_t *row = l->rows + i * l->step;
    l->sums[i] = l->p->take(from, l->depth, flip, row);
    for (int64_t k = l->depth; k < l->step; k++) row[k] = 0;
  }
  memset(l->rows + l->count * l->step, 1, (size_t)l->step);
}

void qv_start_columns(const qv_left *l, const uint8_t *panel, const int32_t *zeros, const uint32_t *add, int64_t columns, uint32_t *start) {
  uint32_t b = (uint32_t)l->zero, depth = (uint32_t)l->depth;
  if (b) l->p->multiply(l->rows + l->count * l->step, l->step, 1, panel, l->step / QV_CELL, columns, NULL, start);
  else memset(start, 0, (size_t)columns * 4);
  for (int64_t c = 0; c < columns; c++) start[c] = b * (depth * (uint32_t)zeros[c] - start[c]) + (add ? add[c] : 0);
}

static int all_are_one(const int32_t *zeros, int64_t columns) {
  for (int64_t c = 1; c < columns; c++)
    if (zeros[c] != zeros[0]) return 0;
  return 1;
}

void qv_multiply_panel(const qv_left *l, const uint8_t *panel, const uint32_t *start, const int32_t *zeros, int64_t first, int64_t columns,
                       uint8_t *to, int64_t step) {
  int alike = all_are_one(zeros, columns);
  for (int64_t i = 0; i < l->count; i += l->p->rows) {
    int64_t some = l->count - i < l->p->rows ? l->count - i : l->p->rows;
    l->p->multiply(l->rows + i * l->step, l->step, some, panel, l->step / QV_CELL, columns, start, l->acc);
    for (int64_t t = 0; t < some; t++, to += step) {
      uint32_t *acc = l->acc + t * QV_COLUMNS, sum = l->sums[i + t];
      for (int64_t c = 0; !alike && c < columns; c++) acc[c] -= sum * (uint32_t)zeros[c];
      l->p->finish(l->r, first, 1, alike ? 0 - sum * (uint32_t)zeros[0] : 0, acc, columns, to);
    }
  }
}
