/* The common part of lstm, lstm_integer, gru and rnn: operands, the sequence of steps, functions of gates, exact
   products (NUMERICS.md, lstm). */
#ifndef QV_RECURRENT_H
#define QV_RECURRENT_H
#include "../arithmetic/float_sums.h"
#include "op.h"

/* Numbers of the inputs. Only lstm and lstm_integer have C and P; only lstm_integer has the scales and zero points
   after them, and its w and r are (D, I, 4H) and (D, H, 4H) of 8 bits. The outputs are y (T, D, N, H) and the last h
   and c (D, N, H). T: steps, D: directions, N: batch, H: units, I: inputs. */
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

/* Properties of an op. words: number of words before the functions. functions: number of functions of one direction.
   gates: number of gates. states: 1 for h, 2 for h and c. together: how many of the gates are packed together; the
   others begin at the next tile. integer: 1 for lstm_integer. */
typedef struct {
  int words, functions, gates, states, together, integer;
} qv_recurrent_op;

/* The state of a run for one direction, with N rows of I inputs, H units and G gates. */
typedef struct {
  const qv_session *s;
  const qv_node *n;
  const qv_recurrent_op *op;
  int64_t steps, batch, inputs, hidden;
  int64_t direction;
  const float *b, *p;         /* bias and peepholes of this direction, or NULL */
  float *added;               /* G*H: biases that are added to the sums of x */
  float *sums;                /* T*N*G*H: sums of x with w, for all steps */
  float *packed;              /* r in tiles */
  float *now;                 /* N*G*H: the sums of x for this step */
  float *gate;                /* N*G*H: values of the gates, used by the op */
  float *h, *c;               /* N*H */
  float *next_h, *next_c;     /* N*H: written by the cell function */
  double *norms, *of_columns; /* norms of rows, and of the columns of `packed` */
} qv_recurrent;

/* Checks the numbers of operands, their types and shapes, and the words; sets scratch_bytes. */
qv_status qv_recurrent_check(qv_model *m, qv_node *n, const qv_recurrent_op *op);

/* Runs an op. begin computes `sums` before the first step of a direction; cell computes next_h and next_c of all rows
   at each step. */
typedef void (*qv_recurrent_part)(qv_recurrent *q);
qv_status qv_recurrent_run(const qv_session *s, const qv_node *n, const qv_recurrent_op *op, qv_recurrent_part begin,
                           qv_recurrent_part cell);

/* Computes y[row * y_row + j] = fl32(sum of a[row] * packed[j] + c[row * c_row + j]), exact sums rounded once; c may be
   NULL. packed: `columns` rows of weights, packed in tiles. */
void qv_recurrent_product(const qv_recurrent *q, const float *a, int64_t rows, int64_t depth, const float *packed, int64_t columns,
                          const float *c, int64_t c_row, float *y, int64_t y_row);
static inline int64_t qv_recurrent_tiles(int64_t columns) { return (columns + QV_FLOAT_TILE - 1) / QV_FLOAT_TILE * QV_FLOAT_TILE; }

float qv_recurrent_float(double v); /* rounds v to float32; a zero becomes +0, a NaN 0x7FC00000 */
/* Returns function number `which` of this direction of x; if `limited` is 1, x is first limited by the
   clip of the node. */
float qv_recurrent_gate(const qv_recurrent *q, int which, int limited, float x);
/* Sets `sums` to the exact sums of x and `added`, rounded once; then packs r. */
void qv_recurrent_begin(qv_recurrent *q);
/* Computes next_h and next_c of an LSTM from the sums in `gate`. */
void qv_recurrent_lstm(qv_recurrent *q);
/* Sets added = fl32(first half of b + second half of b), or zeros if there is no b. */
void qv_recurrent_add_biases(qv_recurrent *q);
#endif
