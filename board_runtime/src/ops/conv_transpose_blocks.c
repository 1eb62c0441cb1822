/* Transposed convolution in blocks. The weights of each tap of an output channel are a row, and the pixels of the input
   are columns; each product is then added to the output pixel to which it belongs. */
#include "blocks.h"

typedef struct {
  qv_window w;
  int64_t per_in, per_out, group, taps, cells, step, pixels, tiles; /* step: bytes per row; pixels: of the input */
} blocks;

static blocks blocks_of(const qv_model *m, const qv_node *n) {
  blocks b;
  qv_window_of(m, n, 1, &b.w);
  b.group = qv_word(n, 10);
  b.per_in = b.w.channels / b.group;
  b.per_out = b.w.out_channels / b.group;
  b.taps = b.w.kernel_h * b.w.kernel_w;
  b.cells = qv_cells(b.per_in);
  b.step = b.cells * QV_CELL;
  b.pixels = b.w.in_h * b.w.in_w;
  b.tiles = (b.pixels + QV_COLUMNS - 1) / QV_COLUMNS;
  return b;
}

static int64_t sums_bytes(const blocks *b) { return qv_padded64((b->taps + 1) * b->w.out_channels * 4); }

int qv_conv_transpose_blocks_check(const qv_model *m, qv_node *n) {
  blocks b = blocks_of(m, n);
  if (!qv_chosen_instructions().products) return 0;
  /* Most products would then belong to no output pixel; the plain loops go over output pixels. */
  if (b.pixels > 4 * b.w.out_h * b.w.out_w + 4096) return 0;
  n->prepared_bytes = QV_BLOCKS_HEAD + sums_bytes(&b) + (b.w.out_channels * b.taps + 1) * b.step;
  n->scratch_bytes = (QV_MOST_ROWS + b.tiles) * QV_COLUMNS * 4 + qv_padded64(b.w.out_h * b.w.out_w * 4) + b.tiles * qv_panel_bytes(b.cells);
  return 1;
}

/* Returns the prepared memory after its head: the initial value of the sums of each output channel and tap, then the
   zero point of the weights of each output channel, then a row of ones, then the rows. */
static uint32_t *begins_of(const qv_session *s, const qv_node *n) {
  return (uint32_t *)(void *)((uint8_t *)qv_prepared(s, n) + QV_BLOCKS_HEAD);
}

static uint32_t lay_row(const blocks *b, const uint8_t *from, uint8_t flip, int8_t *to) {
  uint32_t sum = 0;
  for (int64_t c = 0; c < b->step; c++) {
    to[c] = (int8_t)(c >= b->per_in ? 0 : from[c * b->per_out * b->taps] ^ flip);
    sum += (uint32_t)(int32_t)to[c];
  }
  return sum;
}

void qv_conv_transpose_blocks_prepare(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *k = qv_in(s->model, n, 1);
  blocks b = blocks_of(s->model, n);
  qv_keep_blocks(s, n);
  uint32_t *begins = begins_of(s, n), *zeros = begins + b.w.out_channels * b.taps;
  int8_t *rows = (int8_t *)begins + sums_bytes(&b);
  uint8_t flip = qv_row_flip(k->dtype);
  uint32_t a = (uint32_t)(x->zero_point[0] + qv_moved(qv_panel_flip(qv_blocks_of(s, n), x->dtype), x->dtype));
  memset(rows, 1, (size_t)b.step);
  for (int64_t o = 0; o < b.w.out_channels; o++) {
    zeros[o] = (uint32_t)(qv_zero(k, o % b.per_out) + qv_moved(flip, k->dtype));
    const uint8_t *from = (const uint8_t *)k->constant + (o / b.per_out * b.per_in * b.per_out + o % b.per_out) * b.taps;
    for (int64_t t = 0; t < b.taps; t++)
      begins[o * b.taps + t] = a * ((uint32_t)b.per_in * zeros[o] - lay_row(&b, from + t, flip, rows + (o * b.taps + t + 1) * b.step));
  }
}

typedef struct {
  blocks b;
  const qv_products *p;
  const uint32_t *begins, *zeros;
  const int8_t *ones, *rows;
  uint32_t *acc, *of_columns, *plane; /* of_columns: sum of each column; plane: sums of one output channel */
  uint8_t *panels;
} convolving;

static void fill_panels(const convolving *c, const uint8_t *from, uint8_t flip) {
  const blocks *b = &c->b;
  for (int64_t tile = 0; tile < b->tiles; tile++) {
    int64_t first = tile * QV_COLUMNS, count = b->pixels - first < QV_COLUMNS ? b->pixels - first : QV_COLUMNS;
    uint8_t *panel = c->panels + tile * qv_panel_bytes(b->cells);
    for (int64_t q = 0; q < b->cells; q++)
      c->p->interleave(from + q * QV_CELL * b->pixels + first, b->pixels,
                       (int)(b->per_in - q * QV_CELL < QV_CELL ? b->per_in - q * QV_CELL : QV_CELL), count, flip,
                       panel + q * QV_CELL * QV_COLUMNS);
    c->p->multiply(c->ones, b->step, 1, panel, b->cells, count, NULL, c->of_columns + first);
  }
}

/* Adds the products of one tap for `count` input pixels from `first` on to the output pixels of the plane to which
   they belong. */
static void land(const convolving *c, int64_t tap, int64_t first, int64_t count, uint32_t begin, uint32_t zero, const uint32_t *acc) {
  const qv_window *w = &c->b.w;
  int64_t down = tap / w->kernel_w * w->dilation_h - w->top, right = tap % w->kernel_w * w->dilation_w - w->left;
  int64_t i = first / w->in_w, j = first % w->in_w;
  for (int64_t t = 0; t < count; t++, j++) {
    if (j == w->in_w) {
      j = 0;
      i++;
    }
    int64_t row = i * w->stride_h + down, column = j * w->stride_w + right;
    if (row < 0 || row >= w->out_h || column < 0 || column >= w->out_w) continue;
    c->plane[row * w->out_w + column] += acc[t] + begin - zero * c->of_columns[first + t];
  }
}

static void sum_channel(const convolving *c, int64_t o) {
  const blocks *b = &c->b;
  memset(c->plane, 0, (size_t)(b->w.out_h * b->w.out_w) * 4);
  for (int64_t tile = 0; tile < b->tiles; tile++) {
    int64_t first = tile * QV_COLUMNS, count = b->pixels - first < QV_COLUMNS ? b->pixels - first : QV_COLUMNS;
    for (int64_t t = 0; t < b->taps; t += c->p->rows) {
      int64_t at = o * b->taps + t, some = b->taps - t < c->p->rows ? b->taps - t : c->p->rows;
      c->p->multiply(c->rows + at * b->step, b->step, some, c->panels + tile * qv_panel_bytes(b->cells), b->cells, count, NULL, c->acc);
      for (int64_t r = 0; r < some; r++) land(c, t + r, first, count, c->begins[at + r], c->zeros[o], c->acc + r * QV_COLUMNS);
    }
  }
}

void qv_conv_transpose_blocks_run(const qv_session *s, const qv_node *n, const qv_requantizer *r) {
  const qv_tensor *x = qv_in(s->model, n, 0), *bias = qv_whole_bias(s->model, n);
  convolving c = {.b = blocks_of(s->model, n), .p = qv_blocks_of(s, n), .begins = begins_of(s, n), .acc = qv_scratch(s, n)};
  const blocks *b = &c.b;
  c.zeros = c.begins + b->w.out_channels * b->taps;
  c.ones = (const int8_t *)c.begins + sums_bytes(b);
  c.rows = c.ones + b->step;
  c.of_columns = c.acc + QV_MOST_ROWS * QV_COLUMNS;
  c.plane = c.of_columns + b->tiles * QV_COLUMNS;
  c.panels = (uint8_t *)c.plane + qv_padded64(b->w.out_h * b->w.out_w * 4);
  int64_t pixels = b->w.out_h * b->w.out_w;
  uint8_t *to = qv_data(s, qv_out(s->model, n, 0));
  for (int64_t batch = 0; batch < b->w.batch; batch++)
    for (int64_t o = 0; o < b->w.out_channels; o++, to += pixels * (r->real ? 4 : 1)) {
      if (o % b->per_out == 0)
        fill_panels(&c, (const uint8_t *)qv_data(s, x) + (batch * b->w.channels + o / b->per_out * b->per_in) * b->pixels,
                    qv_panel_flip(c.p, x->dtype));
      sum_channel(&c, o);
      c.p->finish(r, o, 0, bias ? (uint32_t)((const int32_t *)bias->constant)[o] : 0, c.plane, pixels, to);
    }
}
