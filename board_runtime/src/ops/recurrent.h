/* What lstm, gru and rnn share: operands, the sequence of steps, functions of gates, exact products (NUMERICS.md, lstm). */
#ifndef QV_RECURRENT_H
#define QV_RECURRENT_H
#include "../arithmetic/float_sums.h"
#include "op.h"

/* Inputs, in this order; lstm alone has the last two. y (T, D, N, H); the last h and c are (D, N, H). */
/* lstm_integer has scales and zero points after them, and its w and r are (D, I, 4H) and (D, H, 4H) of 8 bits. */
enum {
  QV_RNN_X,
  QV_RNN_W,
  QV_RNN_R,
  QV_RNN_B,
  QV_RNN_LENGTHS,
  QV_RNN_H,
  QV_RNN_C,
  QV_RNN_P,
  QV_RNN_W_SCALE,
  QV_RNN_W_ZERO,
  QV_RNN_R_SCALE,
  QV_RNN_R_ZERO
};

/* What the op says of itself: words before the functions, functions of one direction, gates, states (2 with c), and how many of the
   gates are packed together: those after them follow at the next tile. */
typedef struct {
  int words, functions, gates, states, together, integer;
} qv_recurrent_op;

/* One run of one direction: N rows of I inputs, H units and G gates. */
typedef struct {
  const qv_session *s;
  const qv_node *n;
  const qv_recurrent_op *op;
  int64_t steps, batch, inputs, hidden;
  int64_t direction;
  const float *b, *p;         /* of this direction; NULL for none */
  float *added;               /* G*H: what the op adds to the sums of x */
  float *sums;                /* T*N*G*H: of x */
  float *packed;              /* r in tiles */
  float *now;                 /* N*G*H: the sums of x at this step, row by row */
  float *gate;                /* N*G*H: the op's own */
  float *h, *c;               /* N*H */
  float *next_h, *next_c;     /* N*H: what the cell writes */
  double *norms, *of_columns; /* norms of rows, and of the columns of `packed` */
} qv_recurrent;

/* Counts, types, shapes and words; sets scratch_bytes. */
qv_status qv_recurrent_check(qv_model *m, qv_node *n, const qv_recurrent_op *op);

/* Of an op: begin makes `sums`; cell computes next_h and next_c of all rows. */
typedef void (*qv_recurrent_part)(qv_recurrent *q);
qv_status qv_recurrent_run(const qv_session *s, const qv_node *n, const qv_recurrent_op *op, qv_recurrent_part begin,
                           qv_recurrent_part cell);

/* packed: tiles of `columns` rows of weights.
   y[row * y_row + j] = fl32(sum of a[row] * packed[j] + c[row * c_row + j]), exact sums rounded once; c may be NULL. */
void qv_recurrent_product(const qv_recurrent *q, const float *a, int64_t rows, int64_t depth, const float *packed, int64_t columns,
                          const float *c, int64_t c_row, float *y, int64_t y_row);
static inline int64_t qv_recurrent_tiles(int64_t columns) { return (columns + QV_FLOAT_TILE - 1) / QV_FLOAT_TILE * QV_FLOAT_TILE; }

float qv_recurrent_float(double v); /* rounded; a zero is +0, a NaN 0x7FC00000 */
/* Function `which` of this direction, of x limited by the clip of the node where limited is 1. */
float qv_recurrent_gate(const qv_recurrent *q, int which, int limited, float x);
/* sums = the exact sums of x and `added`, rounded once; packs r. */
void qv_recurrent_begin(qv_recurrent *q);
/* next_h and next_c of a lstm from the sums in `gate`. */
void qv_recurrent_lstm(qv_recurrent *q);
/* added = fl32(first half of b + second half); zeros without b. */
void qv_recurrent_add_biases(qv_recurrent *q);
#endif
