/* Blocked 8-bit matrix products: one table of kernels for each instruction set, chosen by the CPU; the same bits as the plain loops.

   A product is rows of int8 times columns of bytes; both are what the tensors hold, moved into the type that the kernels take, so that
   with w = row - b and x = column - a:
     sum w x = sum row column - a * sum row - b * sum column + depth * a * b   (all in uint32, which wraps)
   The caller adds the last three terms. A new instruction set is one more qv_products and its line in instructions.c. */
#ifndef QV_PRODUCTS_H
#define QV_PRODUCTS_H
#include "requantize.h"

/* A panel holds QV_COLUMNS columns as cells: QV_CELL steps of the depth side by side, panel[(k/QV_CELL*QV_COLUMNS + column)*QV_CELL + k%QV_CELL]. */
enum { QV_COLUMNS = 64, QV_CELL = 4, QV_MOST_ROWS = 8 };

typedef struct {
  int rows;      /* at most so many a call of multiply; 1 to QV_MOST_ROWS */
  int is_signed; /* whether a panel's bytes are int8; uint8 otherwise */
  /* to[k] = from[k] ^ flip; returns the sum. */
  uint32_t (*take)(const uint8_t *from, int64_t count, uint8_t flip, int8_t *to);
  /* Cells of `count` columns, of bytes from[line*step + column] ^ flip; lines from `lines` on are 0. */
  void (*interleave)(const uint8_t *from, int64_t step, int lines, int64_t count, uint8_t flip, uint8_t *to);
  /* acc[r*QV_COLUMNS + c] = start[c] + sum over k < cells*QV_CELL of rows[r*step + k] * panel column c, for r < count, c < columns at
     least; start NULL: 0. What it reads of a panel ends with the QV_COLUMNS columns of its last cell. */
  void (*multiply)(const int8_t *rows, int64_t step, int64_t count, const uint8_t *panel, int64_t cells, int64_t columns,
                   const uint32_t *start, uint32_t *acc);
  /* to[j] = requantize(acc[j] + add) in the scale of channel + j*by; to is 8-bit, or float32 where r says so. */
  void (*finish)(const qv_requantizer *r, int64_t channel, int64_t by, uint32_t add, const uint32_t *acc, int64_t count, uint8_t *to);
} qv_products;

/* A tile of a set: qv_products.multiply for as many rows as its name says. */
typedef void (*qv_row_kernel)(const int8_t *rows, int64_t step, const uint8_t *panel, int64_t cells, int64_t columns, const uint32_t *start,
                              uint32_t *acc);

/* That of avx512_vnni; only there on x86. */
void qv_finish_avx512(const qv_requantizer *r, int64_t channel, int64_t by, uint32_t add, const uint32_t *acc, int64_t count, uint8_t *to);

const qv_products *qv_products_avx512_vnni(void); /* NULL: not this CPU */
const qv_products *qv_products_avx_vnni(void);
const qv_products *qv_products_i8mm(void);
const qv_products *qv_products_dotprod(void);

static inline int64_t qv_cells(int64_t depth) { return (depth + QV_CELL - 1) / QV_CELL; }
static inline int64_t qv_panel_bytes(int64_t cells) { return cells * QV_CELL * QV_COLUMNS; }
/* What a byte of a tensor is xor-ed with to become one of a panel, or of a row; adding qv_moved to its zero point does the same. */
static inline uint8_t qv_panel_flip(const qv_products *p, int32_t dtype) { return (dtype == QV_S8) == (p->is_signed != 0) ? 0 : 128; }
static inline uint8_t qv_row_flip(int32_t dtype) { return dtype == QV_S8 ? 0 : 128; }
static inline int32_t qv_moved(uint8_t flip, int32_t dtype) { return !flip ? 0 : dtype == QV_S8 ? 128 : -128; }

/* Rows of one operand, as they are multiplied. */
typedef struct {
  const qv_products *p;
  const qv_requantizer *r;
  int64_t count, depth, step; /* step: bytes of a row, QV_CELL times its cells */
  int32_t zero;               /* b */
  int8_t *rows;
  uint32_t *sums; /* of each row */
  uint32_t *acc;  /* QV_MOST_ROWS * QV_COLUMNS */
} qv_left;
/* Takes the rows of a tensor, and a row of ones after them: `from` has `count` rows of `depth` elements, zero point `zero`. */
void qv_take_rows(qv_left *l, const uint8_t *from, int32_t dtype, int32_t zero);
/* start[c] = add[c] (NULL: 0) + depth * zeros[c] * b - b * sum of panel column c: what each row's sums begin with. */
void qv_start_columns(const qv_left *l, const uint8_t *panel, const int32_t *zeros, const uint32_t *add, int64_t columns, uint32_t *start);
/* One panel of `columns` columns from number `first`, whose zero points are zeros (a), with all rows; row i goes to `to` + i*step. */
void qv_multiply_panel(const qv_left *l, const uint8_t *panel, const uint32_t *start, const int32_t *zeros, int64_t first, int64_t columns,
                       uint8_t *to, int64_t step);
#endif
