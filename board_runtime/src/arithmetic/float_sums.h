/* Matrix products of float32 whose exact sums are rounded once (NUMERICS.md, conv_float). */
#ifndef QV_FLOAT_SUMS_H
#define QV_FLOAT_SUMS_H
#include "../elements.h"

/* The fast kernel makes QV_FLOAT_ROWS x QV_FLOAT_COLUMNS sums at once, from tiles of QV_FLOAT_TILE columns. */
enum { QV_FLOAT_ROWS = 4, QV_FLOAT_COLUMNS = 8, QV_FLOAT_TILE = 32 };

/* y = alpha * sum over depth of a*b + beta*c, strides in elements. Depth is below 2^29. */
typedef struct {
  const float *a, *b, *c; /* c: NULL for none */
  float *y;
  int64_t a_row, a_step, b_step, b_column, c_row, c_column, y_row, y_column;
  int64_t rows, columns, depth;
  float alpha, beta;
} qv_float_matrix;

/* Every element from its exact sum: the definition. */
void qv_multiply_floats_plain(const qv_float_matrix *m);
/* The same bits: float64 sums where they decide the rounding. b_column is 1; b is readable to a multiple of QV_FLOAT_COLUMNS
   columns, at most QV_FLOAT_TILE. norms: of each row of a, by qv_row_norms. */
void qv_multiply_floats(const qv_float_matrix *m, const double *norms);
/* norms[r] = the square root of the sum of squares of row r of a. */
void qv_row_norms(const qv_float_matrix *m, double *norms);

/* sums[r * QV_FLOAT_COLUMNS + c] = sum over k of rows[r][k * a_step] * b[k * b_step + c], in any order. */
typedef void (*qv_float_kernel)(const float *const *rows, int64_t a_step, const float *b, int64_t b_step, int64_t depth, double *sums);
qv_float_kernel qv_float_kernel_fma(void); /* NULL: not this CPU */
#endif
