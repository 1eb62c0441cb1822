/* Unusual kinds of faults that move elements. They were written as withheld kinds; faulty_runtime.py lists those among
   them that proved equivalent to known mistakes as known. */
#include "output_faults.h"

enum { LINE = 64, TILE = 8 };

static int64_t backwards_in_line(const qv_output_fault *f, int64_t i) {
  int64_t first = i / LINE * LINE, last = first + LINE <= f->elements ? first + LINE - 1 : f->elements - 1;
  return first + last - i;
}
qv_why qv_output_line_reversed(const qv_output_fault *f) {
  if (f->elements <= LINE) return "all of it is one line, which is as its channels reversed";
  qv_permute(f, backwards_in_line);
  return NULL;
}

/* Two neighbouring tiles are exchanged, and the left one is negated. */
static int64_t partner(const qv_output_fault *f, int64_t i) {
  int64_t tile = qv_column_of(f, i) / TILE;
  if (tile % 2) return i - TILE;
  return qv_column_of(f, i) + TILE < f->columns ? i + TILE : i;
}
static int32_t exchanged(const qv_output_fault *f, int64_t i, int32_t v) {
  int64_t from = partner(f, i);
  if (from == i) return v;
  v = qv_load(f->before, f->y->dtype, from);
  return from > i ? 2 * qv_zero(f->y, 0) - v : v;
}
qv_why qv_output_tiles_negated(const qv_output_fault *f) {
  return f->columns <= TILE ? "it has one tile a row only" : qv_map(f, exchanged);
}

/* Each row is rotated by one to three columns more than the row above. */
static int64_t sheared(const qv_output_fault *f, int64_t i) {
  int64_t column = (qv_column_of(f, i) + qv_row_of(f, i) * (1 + (int64_t)(f->seed % 3))) % f->columns;
  return i - qv_column_of(f, i) + column;
}
qv_why qv_output_sheared(const qv_output_fault *f) {
  if (f->rows < 2 || f->columns < 2) return "it needs rows and columns";
  qv_permute(f, sheared);
  return NULL;
}

/* Every second row is written from right to left. */
static int64_t ploughed(const qv_output_fault *f, int64_t i) {
  return qv_row_of(f, i) % 2 ? i + f->columns - 1 - 2 * qv_column_of(f, i) : i;
}
qv_why qv_output_ploughed(const qv_output_fault *f) {
  if (f->rows < 2 || f->columns < 2) return "it needs rows and columns";
  qv_permute(f, ploughed);
  return NULL;
}

/* The elements with even indices come first, then those with odd indices. */
static int64_t dealt(const qv_output_fault *f, int64_t i) {
  int64_t half = (f->elements + 1) / 2;
  return i < half ? 2 * i : 2 * (i - half) + 1;
}
qv_why qv_output_dealt(const qv_output_fault *f) {
  qv_permute(f, dealt);
  return NULL;
}

/* The 16 elements of each group are permuted as by randomly connected lanes. */
static int64_t shuffled(const qv_output_fault *f, int64_t i) {
  uint64_t dice = f->seed;
  int64_t odd = 1 + 2 * qv_roll_below(&dice, 8), plus = qv_roll_below(&dice, 16), first = i / 16 * 16;
  return first + 16 <= f->elements ? first + ((i - first) * (odd == 1 ? 3 : odd) + plus) % 16 : i;
}
qv_why qv_output_lanes_shuffled(const qv_output_fault *f) {
  qv_permute(f, shuffled);
  return NULL;
}

/* Each tile is transposed: it is written column by column instead of row by row. */
static int64_t turned(const qv_output_fault *f, int64_t i) {
  int64_t row = qv_row_of(f, i), column = qv_column_of(f, i), to_row = row / TILE * TILE + column % TILE,
          to_column = column / TILE * TILE + row % TILE;
  return to_row < f->rows && to_column < f->columns ? i + (to_row - row) * f->columns + to_column - column : i;
}
qv_why qv_output_tiles_turned(const qv_output_fault *f) {
  if (f->rows < 2 || f->columns < 2) return "it needs rows and columns";
  qv_permute(f, turned);
  return NULL;
}
