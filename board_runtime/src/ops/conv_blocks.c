/* Convolution in blocks. The input is stored as cells of four channels; QV_COLUMNS pixels at a time are packed as a
   panel, and the weights of each output channel are a row. */
#include "blocks.h"

/* Sizes of a convolution in blocks. The input is stored as padded planes of cells; within a row of a plane, the columns
   j with the same phase j % stride_w lie side by side. */
typedef struct {
  qv_window w;
  int64_t per_in, per_out, group, taps;
  int64_t cells, step;         /* cells: number of cells for the channels of a group; step: bytes per row of weights */
  int64_t plane_h, line, wide; /* plane_h: rows of a plane; line: columns of one phase; wide: columns of a row (stride_w phases) */
} blocks;

static void flatten(qv_window *w) {
  if (w->kernel_h * w->kernel_w != 1 || w->stride_h != 1 || w->stride_w != 1 || w->top || w->left || w->out_h != w->in_h ||
      w->out_w != w->in_w || (int64_t)w->in_h * w->in_w > INT32_MAX)
    return;
  w->in_w = w->out_w = w->in_h * w->in_w;
  w->in_h = w->out_h = 1;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static blocks blocks_of(const qv_model *m, const qv_node *n) {
  blocks b;
  qv_window_of(m, n, 1, &b.w);
  flatten(&b.w);
  const qv_window *w = &b.w;
  b.group = qv_word(n, 10);
  b.per_in = w->channels / b.group;
  b.per_out = w->out_channels / b.group;
  b.taps = (int64_t)w->kernel_h * w->kernel_w;
  b.cells = qv_cells(b.per_in);
  b.step = b.cells * b.taps * QV_CELL;
  b.plane_h = larger((int64_t)(w->out_h - 1) * w->stride_h + (int64_t)(w->kernel_h - 1) * w->dilation_h + 1, (int64_t)w->in_h + w->top);
  int64_t reach =
      larger((int64_t)(w->out_w - 1) * w->stride_w + (int64_t)(w->kernel_w - 1) * w->dilation_w + 1, (int64_t)w->in_w + w->left);
  b.line = (reach + w->stride_w - 1) / w->stride_w;
  b.wide = b.line * w->stride_w;
  return b;
}

enum { SLACK = 64 }; /* bytes that a copy in whole vectors may write after the end */
static int64_t panel_bytes(const blocks *b) { return b->step * QV_COLUMNS + SLACK; }
/* Returns the scratch bytes of one thread: the sums of a tile, the sums of a panel's columns, the panel. */
static int64_t worker_bytes(const blocks *b) { return (QV_MOST_ROWS + 1) * QV_COLUMNS * 4 + qv_padded64(panel_bytes(b)); }

static int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t tiles_of(const blocks *b) { return divided_up((int64_t)b->w.out_h * b->w.out_w, QV_COLUMNS); }
/* Returns the number of output channels in a part. If there are few tiles of pixels, the output channels of a group are
   divided among the threads, too. */
static int64_t chunk_of(const blocks *b, const qv_products *p) {
  if (tiles_of(b) >= 2 * qv_threads()) return b->per_out;
  return divided_up(divided_up(b->per_out, qv_threads()), p->rows) * p->rows;
}
/* Returns the number of parts of one group of one image. */
static int64_t parts_of(const blocks *b, const qv_products *p) { return tiles_of(b) * divided_up(b->per_out, chunk_of(b, p)); }
static int64_t work_of(const blocks *b) { return (int64_t)b->w.out_h * b->w.out_w * b->per_out * b->step; }
/* Returns how many threads at most fill cells or multiply parts. */
static int64_t workers_of(const blocks *b, const qv_products *p) {
  return larger(qv_workers(b->cells, work_of(b)), qv_workers(parts_of(b, p), work_of(b)));
}

static int64_t sums_bytes(const blocks *b) { return qv_padded64((int64_t)b->w.out_channels * 8); }

int qv_conv_blocks_check(const qv_model *m, qv_node *n) {
  const qv_tensor *x = qv_in(m, n, 0), *k = qv_in(m, n, 1);
  if (!qv_chosen_instructions().products || k->shape[1] == 1 || x->zero_point[0] < qv_qmin(x->dtype) ||
      x->zero_point[0] > qv_qmax(x->dtype))
    return 0;
  blocks b = blocks_of(m, n);
  int64_t most = ((int64_t)1 << 20) + 8 * x->elements; /* a limit for planes that are nearly all padding */
  if (b.wide > most || b.plane_h > most / b.wide / b.cells / QV_CELL) return 0;
  n->prepared_bytes = QV_BLOCKS_HEAD + sums_bytes(&b) + (b.w.out_channels + 1) * b.step;
  n->scratch_bytes = workers_of(&b, qv_chosen_instructions().products) * worker_bytes(&b) + b.cells * b.plane_h * b.wide * QV_CELL + SLACK;
  return 1;
}

/* Returns the prepared memory after its head: the initial value of the sums of each output channel, then the zero
   points of the weights, then a row of ones, then the weights. */
static uint32_t *begins_of(const qv_session *s, const qv_node *n) {
  return (uint32_t *)(void *)((uint8_t *)qv_prepared(s, n) + QV_BLOCKS_HEAD);
}

static uint32_t lay_row(const blocks *b, const uint8_t *from, uint8_t flip, int8_t *to) {
  uint32_t sum = 0;
  for (int64_t q = 0; q < b->cells * QV_CELL; q++)
    for (int64_t t = 0; t < b->taps; t++) {
      int8_t v = (int8_t)(q >= b->per_in ? 0 : from ? from[q * b->taps + t] ^ flip : 1);
      to[(q / QV_CELL * b->taps + t) * QV_CELL + q % QV_CELL] = v;
      sum += (uint32_t)(int32_t)v;
    }
  return sum;
}

void qv_conv_blocks_prepare(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *k = qv_in(s->model, n, 1), *bias = qv_whole_bias(s->model, n);
  blocks b = blocks_of(s->model, n);
  qv_keep_blocks(s, n);
  const qv_products *p = qv_blocks_of(s, n);
  uint32_t *begins = begins_of(s, n), *zeros = begins + b.w.out_channels;
  int8_t *rows = (int8_t *)begins + sums_bytes(&b);
  uint8_t flip = qv_row_flip(k->dtype);
  uint32_t a = (uint32_t)(x->zero_point[0] + qv_moved(qv_panel_flip(p, x->dtype), x->dtype));
  uint32_t depth = lay_row(&b, NULL, 0, rows);
  for (int64_t o = 0; o < b.w.out_channels; o++) {
    uint32_t sum = lay_row(&b, (const uint8_t *)k->constant + o * b.per_in * b.taps, flip, rows + (o + 1) * b.step);
    zeros[o] = (uint32_t)(qv_zero(k, o) + qv_moved(flip, k->dtype));
    begins[o] = (bias ? (uint32_t)((const int32_t *)bias->constant)[o] : 0) + a * (depth * zeros[o] - sum);
  }
}

typedef struct {
  blocks b;
  const qv_products *p;
  const qv_requantizer *r;
  const uint32_t *begins, *zeros;
  const int8_t *ones, *weights;
  int any_zero;               /* 1 if the zero point of any weights is not 0 */
  uint32_t *acc, *of_columns; /* of_columns: sums of a panel's columns */
  uint8_t *panel, *planes, flip, pad;
  const uint8_t *from; /* from, to: the channels of the group in one image of x, and that image of y */
  uint8_t *to;
  int64_t g, chunk; /* g: index of the group; chunk: output channels in a part */
} convolving;

/* Returns a copy of c with the scratch memory of one thread. */
static convolving of_worker(const convolving *c, int worker) {
  convolving own = *c;
  own.acc += worker * worker_bytes(&c->b) / 4;
  own.of_columns = own.acc + QV_MOST_ROWS * QV_COLUMNS;
  own.panel = (uint8_t *)(own.of_columns + QV_COLUMNS);
  return own;
}

/* Copies `count` cells, from column `first` on, to their places in a row, in which the columns of a phase lie
   side by side. */
static void spread(const convolving *c, const uint8_t *cells, int64_t first, int64_t count, uint8_t *row) {
  int64_t stride = c->b.w.stride_w, at = first + c->b.w.left;
  for (int64_t j = 0; j < count; j++, at++) memcpy(row + (at % stride * c->b.line + at / stride) * QV_CELL, cells + j * QV_CELL, QV_CELL);
}

/* Fills one row of a plane of cells. The memory of the panel is used as a buffer. */
static void fill_row(const convolving *c, const uint8_t *from, int64_t plane, int lines, uint8_t *row) {
  const qv_window *w = &c->b.w;
  if (w->stride_w == 1) {
    c->p->interleave(from, plane, lines, w->in_w, c->flip, row + (int64_t)w->left * QV_CELL);
    return;
  }
  for (int64_t j = 0; j < w->in_w; j += QV_COLUMNS) {
    int64_t some = w->in_w - j < QV_COLUMNS ? w->in_w - j : QV_COLUMNS;
    c->p->interleave(from + j, plane, lines, some, c->flip, c->panel);
    spread(c, c->panel, j, some, row);
  }
}

/* Fills the padded plane of cell number q. */
static void fill_cell(void *user, int64_t q, int worker) {
  convolving c = of_worker(user, worker);
  const blocks *b = &c.b;
  const qv_window *w = &b->w;
  int64_t plane = (int64_t)w->in_h * w->in_w, bytes = b->plane_h * b->wide * QV_CELL;
  int lines = (int)(b->per_in - q * QV_CELL < QV_CELL ? b->per_in - q * QV_CELL : QV_CELL);
  if (b->plane_h != w->in_h || b->wide != w->in_w) memset(c.planes + q * bytes, c.pad, (size_t)bytes);
  for (int64_t i = 0; i < w->in_h; i++)
    fill_row(&c, c.from + q * QV_CELL * plane + i * w->in_w, plane, lines, c.planes + q * bytes + (i + w->top) * b->wide * QV_CELL);
}

/* Consecutive pixels of one output row, whose cells are consecutive in the planes, too. */
typedef struct {
  int64_t at, count; /* at: position of the first pixel's cell for the first tap, in cells */
} run_of_pixels;

static int runs_of(const blocks *b, int64_t first, int64_t count, run_of_pixels *runs) {
  const qv_window *w = &b->w;
  int n = 0;
  for (int64_t done = 0; done < count; done += runs[n++].count) {
    int64_t i = (first + done) / w->out_w, j = (first + done) % w->out_w;
    runs[n].at = i * w->stride_h * b->wide + j;
    runs[n].count = w->out_w - j < count - done ? w->out_w - j : count - done;
  }
  return n;
}

/* Copies the cells of n runs in whole vectors. What is written after the end of a run is overwritten by the next run,
   or lies in the SLACK bytes after the panel. */
static void copy_runs(const run_of_pixels *runs, int n, const uint8_t *from, uint8_t *to) {
  for (int i = 0; i < n; i++) {
    const uint8_t *cells = from + runs[i].at * QV_CELL;
    for (int64_t done = 0; done < runs[i].count * QV_CELL; done += SLACK) memcpy(to + done, cells + done, SLACK);
    to += runs[i].count * QV_CELL;
  }
}

static void gather_panel(const convolving *c, int64_t first, int64_t count) {
  const blocks *b = &c->b;
  const qv_window *w = &b->w;
  run_of_pixels runs[QV_COLUMNS];
  int n = runs_of(b, first, count, runs);
  uint8_t *to = c->panel;
  for (int64_t q = 0; q < b->cells; q++)
    for (int64_t a = 0; a < w->kernel_h; a++)
      for (int64_t e = 0; e < w->kernel_w; e++, to += QV_COLUMNS * QV_CELL) {
        int64_t right = e * w->dilation_w, row = (q * b->plane_h + a * w->dilation_h) * b->wide;
        copy_runs(runs, n, c->planes + (row + right % w->stride_w * b->line + right / w->stride_w) * QV_CELL, to);
      }
}

/* Computes output channels o .. end - 1 for the `count` pixels of the panel. */
static void multiply_panel(const convolving *c, int64_t o, int64_t end, int64_t count, uint8_t *to) {
  const blocks *b = &c->b;
  int64_t cells = b->step / QV_CELL, pixels = (int64_t)b->w.out_h * b->w.out_w * (c->r->real ? 4 : 1);
  if (c->any_zero) c->p->multiply(c->ones, b->step, 1, c->panel, cells, count, NULL, c->of_columns);
  for (; o < end; o += c->p->rows) {
    int64_t rows = end - o < c->p->rows ? end - o : c->p->rows;
    c->p->multiply(c->weights + o * b->step, b->step, rows, c->panel, cells, count, NULL, c->acc);
    for (int64_t t = 0; t < rows; t++) {
      uint32_t *acc = c->acc + t * QV_COLUMNS;
      for (int64_t j = 0; c->any_zero && j < count; j++) acc[j] -= c->zeros[o + t] * c->of_columns[j];
      c->p->finish(c->r, o + t, 0, c->begins[o + t], acc, count, to + (o + t) * pixels);
    }
  }
}

/* Computes one part: at most QV_COLUMNS pixels and `chunk` output channels. */
static void multiply_part(void *user, int64_t part, int worker) {
  convolving c = of_worker(user, worker);
  int64_t pixels = (int64_t)c.b.w.out_h * c.b.w.out_w, chunks = divided_up(c.b.per_out, c.chunk), first = part / chunks * QV_COLUMNS;
  int64_t o = c.g * c.b.per_out + part % chunks * c.chunk, end = (c.g + 1) * c.b.per_out;
  int64_t count = pixels - first < QV_COLUMNS ? pixels - first : QV_COLUMNS;
  gather_panel(&c, first, count);
  multiply_panel(&c, o, o + c.chunk < end ? o + c.chunk : end, count, c.to + first * (c.r->real ? 4 : 1));
}

static int any_of(const uint32_t *zeros, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (zeros[i]) return 1;
  return 0;
}

void qv_conv_blocks_run(const qv_session *s, const qv_node *n, const qv_requantizer *r) {
  const qv_tensor *x = qv_in(s->model, n, 0);
  convolving c = {.b = blocks_of(s->model, n), .p = qv_blocks_of(s, n), .r = r, .begins = begins_of(s, n), .acc = qv_scratch(s, n)};
  const blocks *b = &c.b;
  c.zeros = c.begins + b->w.out_channels;
  c.any_zero = any_of(c.zeros, b->w.out_channels);
  c.ones = (const int8_t *)c.begins + sums_bytes(b);
  c.weights = c.ones + b->step;
  c.planes = (uint8_t *)c.acc + workers_of(b, c.p) * worker_bytes(b);
  c.chunk = chunk_of(b, c.p);
  c.flip = qv_panel_flip(c.p, x->dtype);
  c.pad = (uint8_t)((uint32_t)x->zero_point[0] ^ c.flip);
  int64_t pixels = (int64_t)b->w.out_h * b->w.out_w, plane = (int64_t)b->w.in_h * b->w.in_w, size = r->real ? 4 : 1;
  for (int64_t batch = 0; batch < b->w.batch; batch++)
    for (c.g = 0; c.g < b->group; c.g++) {
      c.from = (const uint8_t *)qv_data(s, x) + (batch * b->w.channels + c.g * b->per_in) * plane;
      c.to = (uint8_t *)qv_data(s, qv_out(s->model, n, 0)) + batch * b->w.out_channels * pixels * size;
      qv_for_parts(fill_cell, &c, b->cells, work_of(b));
      qv_for_parts(multiply_part, &c, parts_of(b, c.p), work_of(b));
    }
}
