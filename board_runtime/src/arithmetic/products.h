/* Blocked 8-bit matrix products: one table of kernels for each instruction set. Their results are bit-identical to
   those of the plain loops.

   A product is rows of int8 times columns of bytes. Rows and columns are the elements of tensors, with 128 added or
   subtracted if the kernels need the other signedness; a and b are their zero points, moved in the same way. With
   w = row - b and x = column - a:
     sum w x = sum row column - a * sum row - b * sum column + depth * a * b   (all in uint32, which wraps)
   The caller adds the last three terms. A new instruction set is one more qv_products and its line in instructions.c. */
#ifndef QV_PRODUCTS_H
#define QV_PRODUCTS_H
#include "requantize.h"

/* A panel contains QV_COLUMNS columns as cells. A cell is QV_CELL steps of the depth side by side:
   panel[(k/QV_CELL*QV_COLUMNS + column)*QV_CELL + k%QV_CELL]. */
enum { QV_COLUMNS = 64, QV_CELL = 4, QV_MOST_ROWS = 8 };

typedef struct {
  int rows;      /* largest number of rows for one call of multiply; 1 to QV_MOST_ROWS */
  int is_signed; /* 1 if a panel's bytes are int8, 0 if they are uint8 */
  /* to[k] = from[k] ^ flip; returns the sum of to. */
  uint32_t (*take)(const uint8_t *from, int64_t count, uint8_t flip, int8_t *to);
  /* Writes one cell for each of `count` columns, from the bytes from[line*step + column] ^ flip; lines from number `lines` on are 0. */
  void (*interleave)(const uint8_t *from, int64_t step, int lines, int64_t count, uint8_t flip, uint8_t *to);
  /* acc[r*QV_COLUMNS + c] = start[c] + sum over k < cells*QV_CELL of rows[r*step + k] * panel column c, for r < count and at least
     c < columns. start: NULL for zeros. The function may read all QV_COLUMNS columns of the panel, but nothing after them. */
  void (*multiply)(const int8_t *rows, int64_t step, int64_t count, const uint8_t *panel, int64_t cells, int64_t columns,
                   const uint32_t *start, uint32_t *acc);
  /* to[j] = requantize(acc[j] + add) with the scale of channel + j*by; `to` is 8-bit, or float32 if r->real is 1. */
  void (*finish)(const qv_requantizer *r, int64_t channel, int64_t by, uint32_t add, const uint32_t *acc, int64_t count, uint8_t *to);
} qv_products;

/* A variant of qv_products.multiply for a fixed number of rows, which is part of its name. */
typedef void (*qv_row_kernel)(const int8_t *rows, int64_t step, const uint8_t *panel, int64_t cells, int64_t columns, const uint32_t *start,
                              uint32_t *acc);

/* The function finish of avx512_vnni; defined on x86 only. */
void qv_finish_avx512(const qv_requantizer *r, int64_t channel, int64_t by, uint32_t add, const uint32_t *acc, int64_t count, uint8_t *to);

const qv_products *qv_products_avx512_vnni(void); /* each returns NULL if this CPU lacks the instructions */
const qv_products *qv_products_avx_vnni(void);
const qv_products *qv_products_i8mm(void);
const qv_products *qv_products_dotprod(void);

static inline int64_t qv_cells(int64_t depth) { return (depth + QV_CELL - 1) / QV_CELL; }
static inline int64_t qv_panel_bytes(int64_t cells) { return cells * QV_CELL * QV_COLUMNS; }
/* Return the byte with which a tensor's byte is xor-ed to become a byte of a panel, or of a row; qv_moved returns the
   number by which this changes the value, and thus the zero point. */
static inline uint8_t qv_panel_flip(const qv_products *p, int32_t dtype) { return (dtype == QV_S8) == (p->is_signed != 0) ? 0 : 128; }
static inline uint8_t qv_row_flip(int32_t dtype) { return dtype == QV_S8 ? 0 : 128; }
static inline int32_t qv_moved(uint8_t flip, int32_t dtype) { return !flip ? 0 : dtype == QV_S8 ? 128 : -128; }

/* The rows of the left operand of a product. */
typedef struct {
  const qv_products *p;
  const qv_requantizer *r;
  int64_t count, depth, step; /* step: bytes of a row, QV_CELL times its cells */
  int32_t zero;               /* zero point b of the rows */
  int8_t *rows;
  uint32_t *sums; /* sum of each row */
  uint32_t *acc;  /* QV_MOST_ROWS * QV_COLUMNS */
} qv_left;
/* Copies the rows of a tensor to l->rows, and appends a row of ones. `from` has l->count rows of l->depth elements with
   zero point `zero`. */
void qv_take_rows(qv_left *l, const uint8_t *from, int32_t dtype, int32_t zero);
/* Computes the initial values of each row's sums: start[c] = add[c] + depth * zeros[c] * b - b * sum of panel column c.
   add: NULL for zeros. */
void qv_start_columns(const qv_left *l, const uint8_t *panel, const int32_t *zeros, const uint32_t *add, int64_t columns, uint32_t *start);
/* Multiplies all rows with one panel, which contains `columns` columns from number `first` on with the zero points
   `zeros` (a). Writes row i of the requantized result to `to` + i*step bytes. */
void qv_multiply_panel(const qv_left *l, const uint8_t *panel, const uint32_t *start, const int32_t *zeros, int64_t first, int64_t columns,
                       uint8_t *to, int64_t step);
#endif
