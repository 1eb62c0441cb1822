/* Matrix products of float32 in which each exact sum is rounded once (NUMERICS.md, conv_float). */
#include "float_sums.h"
#include "float32.h"

#include <math.h>

/* An exact sum of products: 32-bit limbs of a fixed-point number whose lowest bit is 2^-298. Each limb is stored in 64
   bits, so that 2^29 products can be added before the carries are propagated. */
enum { LIMBS = 20, LOWEST = 298, SUBNORMAL = 149 };
typedef struct {
  int64_t limb[LIMBS];
} exact_sum;

/* Splits a finite v so that |v| = fraction * 2^(exponent - 149), and returns the fraction. Adds the exponent to
   *exponent, and inverts *negative if v is negative, so that two calls give exponent and sign of a product. */
static uint64_t split(float v, int *exponent, int *negative) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  int field = (int)(bits >> 23 & 255);
  *negative ^= (int)(bits >> 31);
  *exponent += field ? field - 1 : 0;
  return (bits & 0x7fffff) | (field ? 1u << 23 : 0);
}

static void add_product(exact_sum *s, float a, float b) {
  int exponent = 0, negative = 0;
  uint64_t left = split(a, &exponent, &negative), product = left * split(b, &exponent, &negative);
  int64_t *limb = s->limb + exponent / 32;
  uint64_t low = (product & 0xffffffffu) << exponent % 32, high = (product >> 32) << exponent % 32;
  int64_t part[3] = {(int64_t)(low & 0xffffffffu), (int64_t)((low >> 32) + (high & 0xffffffffu)), (int64_t)(high >> 32)};
  for (int i = 0; i < 3; i++) limb[i] += negative ? -part[i] : part[i];
}

/* Propagates the carries: afterwards every limb but the last is in 0 .. 2^32 - 1. */
static void carry(exact_sum *s) {
  for (int i = 0; i + 1 < LIMBS; i++) {
    int64_t low = (int64_t)((uint64_t)s->limb[i] & 0xffffffffu);
    s->limb[i + 1] += (s->limb[i] - low) / 4294967296;
    s->limb[i] = low;
  }
}

static int bit_of(const exact_sum *s, int at) { return (int)((uint64_t)s->limb[at / 32] >> at % 32 & 1); }

/* Returns the sum rounded once to nearest, ties to even. The sum fits into the limbs: it has fewer than 590 bits. */
static float rounded(exact_sum *s) {
  carry(s);
  int negative = s->limb[LIMBS - 1] < 0;
  if (negative) {
    for (int i = 0; i < LIMBS; i++) s->limb[i] = -s->limb[i];
    carry(s);
  }
  int top = LIMBS * 32 - 1;
  while (top >= 0 && !bit_of(s, top)) top--;
  int last = top - 23 > LOWEST - SUBNORMAL ? top - 23 : LOWEST - SUBNORMAL; /* the lowest bit that is kept */
  uint64_t kept = 0;
  for (int i = top; i >= last; i--) kept = kept * 2 + (uint64_t)bit_of(s, i);
  int below = 0;
  for (int i = 0; i < last - 1 && !below; i++) below = bit_of(s, i);
  if (bit_of(s, last - 1) && (below || kept & 1)) kept++;
  uint64_t bits = (uint64_t)(last - LOWEST + 1023) << 52;
  double unit, v;
  memcpy(&unit, &bits, 8);
  v = (double)kept * unit;
  return (float)(negative && kept ? -v : v);
}

/* Returns a NaN with the same bits on every architecture. */
static float plain_nan(void) {
  uint32_t bits = 0x7fc00000u;
  float v;
  memcpy(&v, &bits, 4);
  return v;
}

static float finished(double v) { return v == v ? (float)v + 0.0f : plain_nan(); }

static double added(const qv_float_matrix *m, int64_t row, int64_t column) {
  return m->c ? qv_wide_product(m->beta, m->c[row * m->c_row + column * m->c_column]) : 0.0;
}

/* Returns fl32(sum of products), with beta*c as a term of the sum if alpha is 1. */
static float exact(const qv_float_matrix *m, int64_t row, int64_t column) {
  const float *a = m->a + row * m->a_row, *b = m->b + column * m->b_column;
  int with_c = m->c && m->alpha == 1.0f;
  double sum = with_c ? added(m, row, column) : 0.0;
  for (int64_t k = 0; k < m->depth; k++) sum += qv_wide_product(a[k * m->a_step], b[k * m->b_step]);
  if (sum - sum != 0) return finished(sum); /* NaN or an infinity, whatever the order of summation */
  exact_sum s = {{0}};
  if (with_c) add_product(&s, m->beta, m->c[row * m->c_row + column * m->c_column]);
  for (int64_t k = 0; k < m->depth; k++) add_product(&s, a[k * m->a_step], b[k * m->b_step]);
  return rounded(&s);
}

static void store(const qv_float_matrix *m, int64_t row, int64_t column, float sum) {
  float *to = m->y + row * m->y_row + column * m->y_column;
  *to = m->alpha == 1.0f ? sum : finished(qv_wide_product(m->alpha, sum) + added(m, row, column));
}

void qv_row_norms(const qv_float_matrix *m, double *norms) {
  for (int64_t row = 0; row < m->rows; row++) {
    double sum = 0.0;
    for (int64_t k = 0; k < m->depth; k++) {
      float v = m->a[row * m->a_row + k * m->a_step];
      sum += qv_wide_product(v, v);
    }
    norms[row] = sqrt(sum);
  }
}

/* The qv_float_kernel in portable C: two rows at a time, so that their sums stay in registers. */
static void portable(const double *a, const float *b, int64_t b_step, int64_t depth, int64_t rows, double *sums) {
  for (int64_t r = 0; r < rows; r += 2, a += 2, sums += 2 * QV_FLOAT_COLUMNS) {
    double first[QV_FLOAT_COLUMNS], second[QV_FLOAT_COLUMNS];
    memcpy(first, sums, sizeof first);
    memcpy(second, sums + QV_FLOAT_COLUMNS, sizeof second);
    for (int64_t k = 0; k < depth; k++) {
      double v = a[k * QV_FLOAT_ROWS], w = a[k * QV_FLOAT_ROWS + 1];
      for (int c = 0; c < QV_FLOAT_COLUMNS; c++) first[c] += v * (double)b[k * b_step + c];
      for (int c = 0; c < QV_FLOAT_COLUMNS; c++) second[c] += w * (double)b[k * b_step + c];
    }
    memcpy(sums, first, sizeof first);
    memcpy(sums + QV_FLOAT_COLUMNS, second, sizeof second);
  }
}

qv_float_kernel qv_float_kernel_of_cpu(int place) {
  int before = 0;
  while (qv_float_kernel_x86(before)) before++;
  return place < before ? qv_float_kernel_x86(place) : place == before ? portable : NULL;
}

/* Packs `depth` steps, from step k on, of the `count` rows from `first` on: for each step, QV_FLOAT_ROWS values side by
   side, which are 0 after the last row. */
static void pack_rows(const qv_float_matrix *m, int64_t first, int64_t count, int64_t k, int64_t depth, double *to) {
  for (int64_t r = 0; r < QV_FLOAT_ROWS; r++, to++) {
    const float *from = m->a + (first + (r < count ? r : 0)) * m->a_row + k * m->a_step;
    for (int64_t i = 0; i < depth; i++) to[i * QV_FLOAT_ROWS] = r < count ? (double)from[i * m->a_step] : 0.0;
  }
}

void qv_column_norms(const float *b, int64_t b_step, int64_t depth, double *norms) {
  double s[QV_FLOAT_COLUMNS] = {0};
  for (int64_t k = 0; k < depth; k++, b += b_step)
    for (int c = 0; c < QV_FLOAT_COLUMNS; c++) s[c] += qv_wide_product(b[c], b[c]);
  for (int c = 0; c < QV_FLOAT_COLUMNS; c++) norms[c] = sqrt(s[c]);
}

/* Stores the float64 sum rounded to float32, if every number within the error bound of the sum rounds to the same
   float32; otherwise computes the exact sum. share: bound of the error, relative to `size`, which bounds the sum of the
   absolute terms. */
static void finish(const qv_float_matrix *m, int64_t row, int64_t column, double sum, double size, double share) {
  if (m->alpha == 1.0f && m->c) {
    double more = added(m, row, column);
    sum += more;
    size += more < 0 ? -more : more;
  }
  float low = (float)(sum - share * size), high = (float)(sum + share * size);
  store(m, row, column, low == high ? high + 0.0f : exact(m, row, column));
}

static void multiply_by_kernel(const qv_float_matrix *m) {
  static const double ROUNDOFF = 1.1113331476497049e-16; /* 2^-53 * 1.001 */
  enum { BLOCK = QV_FLOAT_ROWS * QV_FLOAT_COLUMNS };
  double share = (double)(m->depth + 9) * ROUNDOFF, made[QV_FLOAT_TILE];
  const double *of_columns = m->column_norms ? m->column_norms : made;
  double sums[QV_FLOAT_ROWS * QV_FLOAT_TILE], packed[QV_FLOAT_ROWS * QV_FLOAT_STEPS];
  for (int64_t j = 0; !m->column_norms && j < m->columns; j += QV_FLOAT_COLUMNS) qv_column_norms(m->b + j, m->b_step, m->depth, made + j);
  for (int64_t i = 0; i < m->rows; i += QV_FLOAT_ROWS) {
    int64_t rows = m->rows - i < QV_FLOAT_ROWS ? m->rows - i : QV_FLOAT_ROWS;
    memset(sums, 0, sizeof sums);
    for (int64_t k = 0; k < m->depth; k += QV_FLOAT_STEPS) {
      int64_t steps = m->depth - k < QV_FLOAT_STEPS ? m->depth - k : QV_FLOAT_STEPS;
      pack_rows(m, i, rows, k, steps, packed);
      for (int64_t j = 0; j < m->columns; j += QV_FLOAT_COLUMNS)
        m->kernel(packed, m->b + k * m->b_step + j, m->b_step, steps, rows, sums + j / QV_FLOAT_COLUMNS * BLOCK);
    }
    for (int64_t r = 0; r < rows; r++)
      for (int64_t j = 0; j < m->columns; j++) {
        double sum = sums[j / QV_FLOAT_COLUMNS * BLOCK + r * QV_FLOAT_COLUMNS + j % QV_FLOAT_COLUMNS];
        finish(m, i + r, j, sum, m->norms[i + r] * of_columns[j], share);
      }
  }
}

void qv_multiply_floats(const qv_float_matrix *m) {
  if (m->kernel) multiply_by_kernel(m);
  else
    for (int64_t row = 0; row < m->rows; row++)
      for (int64_t column = 0; column < m->columns; column++) store(m, row, column, exact(m, row, column));
}
