/* Faults in the position of output elements: elements, rows, tiles, channels or axes in the wrong place, and wrong
   strides or layouts. The fault plus_one changes values. */
#include "output_faults.h"

enum { TILE = 8 };

qv_why qv_output_plus_one(const qv_output_fault *f) {
  for (size_t i = 0; i < (size_t)f->elements * f->size; i += f->size) f->data[i]++;
  return NULL;
}

qv_why qv_output_off_by_one(const qv_output_fault *f) {
  memmove(f->data + f->size, f->data, (size_t)(f->elements - 1) * f->size);
  return NULL;
}

qv_why qv_output_zero_tail(const qv_output_fault *f) {
  size_t bytes = (size_t)f->elements * f->size;
  memset(f->data + bytes / 2, 0, bytes - bytes / 2);
  return NULL;
}

/* Rows lie stride_of() elements apart in memory and are read as if they were dense, or the other way round. */
static int64_t stride_of(const qv_output_fault *f) {
  int64_t align = (int64_t)16 << f->seed % 3;
  return (f->columns / align + 1) * align;
}
static int64_t padded_read_dense(const qv_output_fault *f, int64_t i) {
  int64_t row = i / stride_of(f), column = i % stride_of(f);
  return column < f->columns ? row * f->columns + column : -1;
}
static int64_t dense_read_padded(const qv_output_fault *f, int64_t i) {
  int64_t at = i / f->columns * stride_of(f) + i % f->columns;
  return at < f->elements ? at : -1;
}
qv_why qv_output_stride_ignored(const qv_output_fault *f) {
  qv_permute(f, padded_read_dense);
  return NULL;
}
qv_why qv_output_stride_imagined(const qv_output_fault *f) {
  qv_permute(f, dense_read_padded);
  return NULL;
}

/* The last columns of each row, after the last whole vector of 4, are not written. */
static int64_t unwritten_tail(const qv_output_fault *f, int64_t i) {
  int64_t whole = f->columns % 4 ? f->columns - f->columns % 4 : f->columns - 4;
  return qv_column_of(f, i) < whole ? i : -1;
}
qv_why qv_output_align_garbage(const qv_output_fault *f) {
  qv_permute(f, unwritten_tail);
  return NULL;
}

static int64_t nhwc_as_nchw(const qv_output_fault *f, int64_t i) {
  int64_t area = f->area, batch = i / (area * f->channels), k = i % (area * f->channels);
  return (batch * f->channels + k % f->channels) * area + k / f->channels;
}
static int64_t nchw_as_nhwc(const qv_output_fault *f, int64_t i) {
  int64_t area = f->area, batch = i / (area * f->channels), k = i % (area * f->channels);
  return batch * area * f->channels + k % area * f->channels + k / area;
}
qv_why qv_output_layout_output(const qv_output_fault *f) {
  if (f->channels == 1 || f->area == 1) return "it needs channels and planes";
  qv_permute(f, f->seed & 1 ? nchw_as_nhwc : nhwc_as_nchw);
  return NULL;
}

static int64_t rows_are_columns(const qv_output_fault *f, int64_t i) {
  int64_t area = f->area, k = i % area;
  return i - k + k % f->rows * f->columns + k / f->rows;
}
qv_why qv_output_axes_swapped(const qv_output_fault *f) {
  if (f->rows == 1 || f->columns == 1) return "it needs rows and columns";
  qv_permute(f, rows_are_columns);
  return NULL;
}

/* Returns the index of the element at the position of element i in another channel. */
static int64_t of_channel(const qv_output_fault *f, int64_t i, int64_t channel) {
  return i + (channel - qv_plane_of(f, i) % f->channels) * f->area;
}
static int64_t swapped_channels(const qv_output_fault *f, int64_t i) {
  uint64_t dice = f->seed;
  int64_t c = qv_plane_of(f, i) % f->channels, a = qv_roll_below(&dice, f->channels),
          b = (a + 1 + qv_roll_below(&dice, f->channels - 1)) % f->channels;
  return of_channel(f, i, c == a ? b : c == b ? a : c);
}
static int64_t groups_interleaved(const qv_output_fault *f, int64_t i) {
  int64_t c = qv_plane_of(f, i) % f->channels, groups = f->channels % 2 ? f->channels : f->channels % 4 || f->seed % 2 == 0 ? 2 : 4;
  return of_channel(f, i, c % groups * (f->channels / groups) + c / groups);
}
static int64_t channels_backwards(const qv_output_fault *f, int64_t i) {
  return of_channel(f, i, f->channels - 1 - qv_plane_of(f, i) % f->channels);
}
static qv_why channels_moved(const qv_output_fault *f, int64_t least, int64_t (*from)(const qv_output_fault *, int64_t)) {
  if (f->channels < least) return "it has too few channels";
  qv_permute(f, from);
  return NULL;
}
qv_why qv_output_channel_swap(const qv_output_fault *f) { return channels_moved(f, 2, swapped_channels); }
qv_why qv_output_channel_reverse(const qv_output_fault *f) { return channels_moved(f, 2, channels_backwards); }
qv_why qv_output_group_order(const qv_output_fault *f) {
  return f->channels % 2 ? "it needs an even number of channels" : channels_moved(f, 4, groups_interleaved);
}

/* Returns whether element i is in the tile that the seed chooses in every plane; the first tile of a row is
   never chosen. */
static int in_tile(const qv_output_fault *f, int64_t i) {
  uint64_t dice = f->seed;
  int64_t row = qv_roll_below(&dice, (f->rows + TILE - 1) / TILE), column = 1 + qv_roll_below(&dice, (f->columns - 1) / TILE);
  return qv_row_of(f, i) / TILE == row && qv_column_of(f, i) / TILE == column;
}
static int64_t left_tile(const qv_output_fault *f, int64_t i) { return in_tile(f, i) ? i - TILE : i; }
qv_why qv_output_tile_repeated(const qv_output_fault *f) {
  if (f->columns <= TILE) return "it has one tile a row only";
  qv_permute(f, left_tile);
  return NULL;
}
qv_why qv_output_tile_dropped(const qv_output_fault *f) {
  if (f->columns <= TILE) return "it has one tile a row only";
  for (int64_t i = 0; i < f->elements; i++)
    if (in_tile(f, i)) memset(f->data + (size_t)i * f->size, 0, f->size);
  return NULL;
}

static int64_t struck_row(const qv_output_fault *f) {
  uint64_t dice = f->seed;
  return 1 + qv_roll_below(&dice, f->rows - 1);
}
static int64_t row_before(const qv_output_fault *f, int64_t i) { return qv_row_of(f, i) == struck_row(f) ? i - f->columns : i; }
static int64_t rows_after_move_up(const qv_output_fault *f, int64_t i) {
  int64_t row = qv_row_of(f, i);
  return row >= struck_row(f) && row + 1 < f->rows ? i + f->columns : i;
}
qv_why qv_output_row_repeated(const qv_output_fault *f) {
  if (f->rows < 2) return "it has one row only";
  qv_permute(f, row_before);
  return NULL;
}
qv_why qv_output_row_dropped(const qv_output_fault *f) {
  if (f->rows < 2) return "it has one row only";
  qv_permute(f, rows_after_move_up);
  return NULL;
}
