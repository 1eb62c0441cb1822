/* Matrix products of float32 in which each exact sum is rounded once (NUMERICS.md, conv_float). */
#ifndef QV_FLOAT_SUMS_H
#define QV_FLOAT_SUMS_H
#include "../elements.h"

/* The fast kernels compute QV_FLOAT_ROWS x QV_FLOAT_COLUMNS sums at once, from tiles of QV_FLOAT_TILE columns.
   QV_FLOAT_STEPS: steps of the depth that are computed at a time, few enough to stay in the first-level cache. */
enum { QV_FLOAT_ROWS = 8, QV_FLOAT_COLUMNS = 8, QV_FLOAT_TILE = 32, QV_FLOAT_STEPS = 192 };

/* sums[r * QV_FLOAT_COLUMNS + c] += sum over k of a[k * QV_FLOAT_ROWS + r] * b[k * b_step + c], in any order, for r < rows at least. */
typedef void (*qv_float_kernel)(const double *a, const float *b, int64_t b_step, int64_t depth, int64_t rows, double *sums);
/* Returns kernel number `place` of those that this CPU can run, the fastest at place 0, the portable one last;
   NULL after it. */
qv_float_kernel qv_float_kernel_of_cpu(int place);
qv_float_kernel qv_float_kernel_x86(int place); /* the same without the portable one */

/* A matrix product: y = alpha * sum over depth of a*b + beta*c. Strides are in elements; depth must be below 2^29. */
typedef struct {
  const float *a, *b, *c; /* c may be NULL */
  float *y;
  int64_t a_row, a_step, b_step, b_column, c_row, c_column, y_row, y_column;
  int64_t rows, columns, depth;
  float alpha, beta;
  qv_float_kernel kernel;     /* NULL: computes the exact sum of every element, as in the definition */
  const double *norms;        /* norms of the rows of a, from qv_row_norms; needed with a kernel */
  const double *column_norms; /* norms of the columns of b, from qv_column_norms; if NULL, they are computed by every call */
} qv_float_matrix;

/* Computes the product. With a kernel, the float64 sum is used where its error cannot change the rounded result, so
   that the bits are the same. b_column must then be 1, there may be at most QV_FLOAT_TILE columns, and b must be
   readable up to the next multiple of QV_FLOAT_COLUMNS columns. */
void qv_multiply_floats(const qv_float_matrix *m);
/* norms[r] = the square root of the sum of squares of row r of a. */
void qv_row_norms(const qv_float_matrix *m, double *norms);
/* The same for QV_FLOAT_COLUMNS columns of b, which have `depth` elements that are b_step floats apart. */
void qv_column_norms(const float *b, int64_t b_step, int64_t depth, double *norms);

#endif
