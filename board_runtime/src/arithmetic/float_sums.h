/* Matrix products of float32 whose exact sums are rounded once (NUMERICS.md, conv_float). */
#ifndef QV_FLOAT_SUMS_H
#define QV_FLOAT_SUMS_H
#include "../elements.h"

/* The fast kernels make QV_FLOAT_ROWS x QV_FLOAT_COLUMNS sums at once, from tiles of QV_FLOAT_TILE columns; QV_FLOAT_STEPS of the
   depth stay in a first-level cache. */
enum { QV_FLOAT_ROWS = 8, QV_FLOAT_COLUMNS = 8, QV_FLOAT_TILE = 32, QV_FLOAT_STEPS = 192 };

/* sums[r * QV_FLOAT_COLUMNS + c] += sum over k of a[k * QV_FLOAT_ROWS + r] * b[k * b_step + c], in any order, for r < rows at least. */
typedef void (*qv_float_kernel)(const double *a, const float *b, int64_t b_step, int64_t depth, int64_t rows, double *sums);
/* The kernels that this CPU runs, the best at place 0; NULL beyond the last, which is the portable one. */
qv_float_kernel qv_float_kernel_of_cpu(int place);
qv_float_kernel qv_float_kernel_x86(int place); /* of those for x86 alone */

/* y = alpha * sum over depth of a*b + beta*c, strides in elements. Depth is below 2^29. */
typedef struct {
  const float *a, *b, *c; /* c: NULL for none */
  float *y;
  int64_t a_row, a_step, b_step, b_column, c_row, c_column, y_row, y_column;
  int64_t rows, columns, depth;
  float alpha, beta;
  qv_float_kernel kernel;     /* NULL: every element from its exact sum, which is the definition */
  const double *norms;        /* of each row of a, by qv_row_norms; for a kernel */
  const double *column_norms; /* of each column of b, by qv_column_norms; NULL: made here, each time */
} qv_float_matrix;

/* With a kernel: the same bits by float64 sums, where they decide the rounding. Then b_column is 1, and b is readable to a multiple
   of QV_FLOAT_COLUMNS columns, at most QV_FLOAT_TILE. */
void qv_multiply_floats(const qv_float_matrix *m);
/* norms[r] = the square root of the sum of squares of row r of a. */
void qv_row_norms(const qv_float_matrix *m, double *norms);
/* The same of each of QV_FLOAT_COLUMNS columns of b, `depth` steps of b_step floats. */
void qv_column_norms(const float *b, int64_t b_step, int64_t depth, double *norms);

#endif
