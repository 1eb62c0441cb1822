/* Converts accumulators to the output type in every rounding mode (NUMERICS.md section 1). */
#include "requantize.h"

#include "float32.h"

#define FARTHEST (1 << 16) /* largest magnitude of what is added to a result */
#define EXACT_IN_F32 16777216.0f
#define EXACT_IN_I32 2147483648.0
#define MOST_F32 3.4028234663852886e38

/* Rows of an rq of int32 that has steps and summands, of one of float32, and of one of float64 that scales twice */
enum { STEPS = 5, STEPS_WITH_SUMMANDS = 7, FLOAT_ROWS = 4, TWO_STEPS = QV_TWO_STEPS };

int qv_is_wide(const qv_tensor *a, const qv_tensor *b, const qv_tensor *y) {
  return qv_is_16bit(a) || (b && qv_is_16bit(b)) || qv_is_16bit(y);
}

/* Returns the parameters of channel `at`: a column of five rows, or what two rows mean in the file's rounding mode. */
static qv_steps steps_at(const int32_t *field, int64_t columns, int rows, qv_rounding rounding, int wide, int64_t at) {
  int32_t multiplier = field[at], shift = field[columns + at], one = (int32_t)1 << (shift < 0 ? -shift : 0) % 31;
  if (rows >= STEPS) return (qv_steps){multiplier, shift, field[2 * columns + at], field[3 * columns + at], field[4 * columns + at]};
  int32_t left = shift > 0 ? shift : 0, right = shift < 0 ? -shift : 0;
  if ((rounding == QV_GEMMLOWP || rounding == QV_CMSIS) && !wide)
    return (qv_steps){multiplier, left, 31, right > 63 ? 63 : right, QV_HALF_AWAY << 8 | QV_HALF_UP << 4};
  int rule = rounding == QV_POW2_FLOOR ? QV_FLOOR : rounding == QV_POW2_HALF_AWAY ? QV_HALF_AWAY : QV_HALF_UP;
  int power = rounding >= QV_POW2_HALF_UP && rounding <= QV_POW2_FLOOR;
  return (qv_steps){power ? one : multiplier, 0, 0, left > 63 ? 63 : left, rule << 8};
}

/* Checks the ranges of the parameters of an integer rq (NUMERICS.md section 1). */
static qv_status check_fields(qv_model *m, const qv_node *n, int wide, const qv_tensor *rq, int32_t columns) {
  const int32_t *field = rq->constant;
  int power = m->rounding >= QV_POW2_HALF_UP && m->rounding <= QV_POW2_FLOOR,
      exponent = (m->rounding == QV_GEMMLOWP || m->rounding == QV_CMSIS) && !wide, five = rq->shape[0] >= STEPS;
  int32_t low = power ? -30 : exponent ? -(1 << 20) : 1, high = exponent ? 30 : 1 << 20;
  for (int32_t i = 0; i < columns; i++) {
    if (!five && (field[i] < 0 || field[columns + i] < low || field[columns + i] > high))
      return qv_fail(m, n, QV_E_FORMAT, "multiplier %d is %d, its shift %d, wanted 0 or more and %d to %d", i, field[i], field[columns + i],
                     low, high);
    if (!five) continue;
    qv_steps s = steps_at(field, columns, STEPS, m->rounding, wide, i);
    qv_status status = qv_check_steps(m, n, &s, "column", i, 0, wide ? 0 : 30);
    if (status != QV_OK) return status;
    if (s.rules != field[4 * columns])
      return qv_fail(m, n, QV_E_FORMAT, "column %d has rules 0x%x, column 0 0x%x, wanted the same", i, (unsigned)s.rules,
                     (unsigned)field[4 * columns]);
    if (rq->shape[0] < STEPS_WITH_SUMMANDS) continue;
    int32_t after = field[6 * columns + i];
    if (wide || s.rules >> 8 & QV_ZERO_INSIDE || after < -FARTHEST || after > FARTHEST)
      return qv_fail(m, n, QV_E_FORMAT,
                     "column %d has rules 0x%x and adds %d to the result, wanted sums of 8 bits, no zero point inside, and -65536 to 65536",
                     i, (unsigned)s.rules, after);
  }
  return QV_OK;
}

/* Checks an rq of float32 in four rows: S, a summand of the sum, one of the product, one of the result. */
static qv_status check_floats(qv_model *m, const qv_node *n, int wide, const qv_tensor *rq, int32_t columns) {
  for (int32_t i = 0; i < columns; i++) {
    const float *f = (const float *)rq->constant + i;
    float scale = f[0], before = f[columns], inside = f[2 * columns], after = f[3 * columns];
    int good = scale > 0 && scale - scale == 0 && inside - inside == 0 && before >= -EXACT_IN_F32 && before <= EXACT_IN_F32 &&
               after >= (float)-FARTHEST && after <= (float)FARTHEST;
    if (wide || !good || (float)(int32_t)before != before || (float)(int32_t)after != after)
      return qv_fail(
          m, n, QV_E_FORMAT,
          "column %d has %g, %g, %g and %g, wanted sums of 8 bits, a positive scale, a whole number within 2^24, any number, and a "
          "whole one within 65536",
          i, (double)scale, (double)before, (double)inside, (double)after);
  }
  return QV_OK;
}

/* Checks an rq of float64 in six rows. */
static qv_status check_two_steps(qv_model *m, const qv_node *n, int wide, const qv_tensor *rq, int32_t columns) {
  for (int32_t i = 0; i < columns; i++) {
    const double *f = (const double *)rq->constant + i;
    double before = f[columns], after = f[3 * columns];
    int good = f[0] > 0 && f[4 * columns] > 0 && before >= -EXACT_IN_I32 && before <= EXACT_IN_I32 && before == (double)(int64_t)before &&
               after >= -FARTHEST && after <= FARTHEST && after == (double)(int32_t)after;
    for (int row = 0; row < TWO_STEPS; row++) {
      double v = f[row * columns];
      good = good && (row == 1 || row == 3 || (v >= -MOST_F32 && v <= MOST_F32 && (double)(float)v == v));
    }
    if (wide || !good)
      return qv_fail(
          m, n, QV_E_FORMAT,
          "column %d has %g, %g, %g, %g, %g and %g, wanted sums of 8 bits, positive scales and numbers in float32, a whole number "
          "within 2^31, and one within 65536",
          i, f[0], before, f[2 * columns], after, f[4 * columns], f[5 * columns]);
  }
  return QV_OK;
}

int qv_is_quotient(const qv_tensor *rq) { return rq && rq->dtype == QV_I32 && rq->rank == 1; }

static int has_limits(const qv_node *n, const qv_tensor *y, int low_word) {
  return qv_is_q(y) && y->n_scales == 1 && qv_word(n, low_word) >= qv_qmin(y->dtype) && qv_word(n, low_word + 1) <= qv_qmax(y->dtype) &&
         qv_word(n, low_word) <= qv_word(n, low_word + 1);
}

static qv_status fail_limits(qv_model *m, const qv_node *n, int low_word) {
  return qv_fail_operands(m, n, "an output of one scale, and activation limits in order and within its dtype, not %d and %d",
                          qv_word(n, low_word), qv_word(n, low_word + 1));
}

qv_status qv_check_quotient(qv_model *m, const qv_node *n, const qv_tensor *rq, int low_word) {
  if (!rq->constant || rq->elements != 1) return qv_fail_operands(m, n, "a constant rq of one int32");
  int32_t point = *(const int32_t *)rq->constant;
  if (point < -FARTHEST || point > FARTHEST) return qv_fail(m, n, QV_E_FORMAT, "its rq is %d, wanted -65536 to 65536", point);
  return has_limits(n, qv_out(m, n, 0), low_word) ? QV_OK : fail_limits(m, n, low_word);
}

int32_t qv_quotient(const qv_requantizer *r, int64_t acc, int64_t count) {
  int64_t point = *(const int32_t *)r->values, total = acc + point * count, half = count / 2;
  int64_t y = (total < 0 ? -((half - total) / count) : (total + half) / count) - point + r->zero;
  return (int32_t)(y < r->low ? r->low : y > r->high ? r->high : y);
}

qv_status qv_check_rule(qv_model *m, const qv_node *n, double code) {
  if (!(code >= 0 && code <= 14) || (double)(int)code != code || ((int)code & 7) > QV_CEILING)
    return qv_fail(m, n, QV_E_FORMAT, "its rule is %g, wanted 0 to 6, or 8 to 14 with the zero point inside", code);
  return QV_OK;
}

/* Checks the scales of a float rq and, in two rows, their rule. */
static qv_status check_scales(qv_model *m, const qv_node *n, const qv_tensor *rq, int32_t columns) {
  for (int i = 0; i < columns; i++) {
    double scale = rq->dtype == QV_F64 ? ((const double *)rq->constant)[i] : (double)((const float *)rq->constant)[i];
    if (!(scale > 0) || scale - scale != 0)
      return qv_fail(m, n, QV_E_FORMAT, "requantization scale %d is %g, wanted a positive number", i, scale);
  }
  if (rq->rank == 1) return QV_OK;
  const double *rules = (const double *)rq->constant + columns;
  for (int i = 1; i < columns; i++)
    if (!(rules[i] == rules[0])) return qv_fail(m, n, QV_E_FORMAT, "rule %d is %g, rule 0 %g, wanted the same", i, rules[i], rules[0]);
  return qv_check_rule(m, n, rules[0]);
}

qv_status qv_check_bias(qv_model *m, const qv_node *n, int64_t channels) {
  const qv_tensor *b = qv_in(m, n, 2);
  int wide = qv_is_wide(qv_in(m, n, 0), qv_in(m, n, 1), qv_out(m, n, 0));
  int real = b && b->dtype == QV_F32 && qv_out(m, n, 0)->dtype == QV_F32;
  if (b && (!b->constant || b->elements != channels || (b->dtype != (wide ? QV_I64 : QV_I32) && !real)))
    return qv_fail_operands(m, n, "a constant %s bias of %ld", wide ? "int64" : "int32", (long)channels);
  return QV_OK;
}

const qv_tensor *qv_whole_bias(const qv_model *m, const qv_node *n) {
  const qv_tensor *b = qv_in(m, n, 2);
  return b && b->dtype == QV_F32 ? NULL : b;
}

qv_status qv_check_scaled(qv_model *m, const qv_node *n, int rq_input, int64_t channels, int low_word) {
  const qv_tensor *rq = qv_in(m, n, rq_input);
  if (qv_out(m, n, 0)->dtype != QV_F32) return qv_check_rq(m, n, rq_input, channels, low_word);
  if (!rq || !rq->constant || rq->dtype != QV_F64 || rq->rank != 1 || (rq->elements != 1 && rq->elements != channels))
    return qv_fail_operands(m, n, "a constant float64 rq of 1 or %ld as input %d", (long)channels, rq_input);
  for (int64_t i = 0; i < rq->elements; i++) {
    double scale = ((const double *)rq->constant)[i];
    if (!(scale > 0) || scale - scale != 0) return qv_fail(m, n, QV_E_FORMAT, "scale %ld is %g, wanted a positive number", (long)i, scale);
  }
  if (qv_word(n, low_word) || qv_word(n, low_word + 1))
    return qv_fail(m, n, QV_E_FORMAT, "activation limits %d and %d beside a float output, wanted 0 and 0", qv_word(n, low_word),
                   qv_word(n, low_word + 1));
  return QV_OK;
}

qv_status qv_check_rq(qv_model *m, const qv_node *n, int rq_input, int64_t channels, int low_word) {
  const qv_tensor *rq = qv_in(m, n, rq_input), *y = qv_out(m, n, 0);
  if (!rq || !rq->constant) return qv_fail_operands(m, n, "a constant rq as input %d", rq_input);
  int in_mode = m->rounding != QV_REF_EXACT, integer = rq->dtype == QV_I32;
  int rows = rq->rank == 2 ? rq->shape[0] : 1, four = rq->dtype == QV_F32 && rows == FLOAT_ROWS,
      six = rq->dtype == QV_F64 && rows == TWO_STEPS;
  int own = four || six || (integer && (rows == STEPS || rows == STEPS_WITH_SUMMANDS)) || (rq->dtype == QV_F64 && rows == 2);
  int good =
      own || (in_mode ? integer && rq->rank == 2 && rq->shape[0] == 2 : (rq->dtype == QV_F32 || rq->dtype == QV_F64) && rq->rank == 1);
  if (!good)
    return qv_fail_operands(m, n, "an rq of int32 (5, N) or (7, N), float64 (2, N) or (6, N), float32 (4, N)%s in rounding mode %d",
                            in_mode ? " or int32 (2, N)" : ", or float32 or float64 (N),", (int)m->rounding);
  int32_t columns = rq->shape[rq->rank - 1];
  if (columns != 1 && columns != channels)
    return qv_fail(m, n, QV_E_FORMAT, "%d requantization scales, wanted 1 or %ld", columns, (long)channels);
  int wide = qv_is_wide(qv_in(m, n, 0), qv_in(m, n, 1), y);
  qv_status status = four      ? check_floats(m, n, wide, rq, columns)
                     : six     ? check_two_steps(m, n, wide, rq, columns)
                     : integer ? check_fields(m, n, wide, rq, columns)
                               : check_scales(m, n, rq, columns);
  if (status != QV_OK) return status;
  if (low_word >= 0 && !has_limits(n, y, low_word)) return fail_limits(m, n, low_word);
  return QV_OK;
}

void qv_requantizer_of(const qv_session *s, const qv_node *n, int rq_input, int low_word, int wide, qv_requantizer *r) {
  const qv_tensor *rq = qv_in(s->model, n, rq_input), *y = qv_out(s->model, n, 0), *bias = qv_in(s->model, n, 2);
  r->values = rq->constant;
  r->dtype = rq->dtype;
  r->channels = rq->shape[rq->rank - 1];
  r->rows = rq->rank == 2 ? rq->shape[0] : 1;
  r->rounding = s->model->rounding;
  r->wide = wide;
  r->real = y->dtype == QV_F32;
  r->zero = 0;
  if (!r->real) r->zero = y->zero_point[0];
  r->bias = r->real && bias && bias->dtype == QV_F32 ? bias->constant : NULL;
  r->low = qv_word(n, low_word);
  r->high = qv_word(n, low_word + 1);
}

qv_steps qv_steps_of(const qv_requantizer *r, int64_t at) { return steps_at(r->values, r->channels, r->rows, r->rounding, r->wide, at); }

/* Returns the bits of fl32(f64(acc) * S + f64(b)). */
static int32_t scaled_bits(const qv_requantizer *r, int64_t acc, int64_t channel) {
  double v = (double)acc * ((const double *)r->values)[r->channels > 1 ? channel : 0];
  float y = (float)(r->bias ? v + (double)r->bias[channel] : v);
  int32_t bits;
  memcpy(&bits, &y, sizeof bits);
  return bits;
}

/* Returns an element of the output by an rq of float32 in four rows. */
static int32_t requantize_in_floats(const qv_requantizer *r, int64_t acc, int64_t at) {
  const float *f = (const float *)r->values + at;
  int64_t c = r->channels;
  int32_t after = (int32_t)f[3 * c], sum = (int32_t)(uint32_t)(uint64_t)(acc + (int32_t)f[c]);
  float v = (float)sum * f[0];
  v = qv_clamp_f32(v + f[2 * c], (float)(r->low - after), (float)(r->high - after));
  return (int32_t)qv_round_f32(v) + after;
}

/* Returns an element of the output by an rq of float64 in six rows, whose numbers are those of float32. */
static int32_t requantize_twice(const qv_requantizer *r, int64_t acc, int64_t at) {
  const double *f = (const double *)r->values + at;
  int64_t c = r->channels, before = (int64_t)f[c];
  int32_t after = (int32_t)f[3 * c], sum = (int32_t)(uint32_t)(uint64_t)(acc + before);
  float v = (float)sum * (float)f[0];
  v = v + (float)f[2 * c];
  v = qv_clamp_f32(qv_fma32(v, (float)f[4 * c], (float)f[5 * c]), (float)(r->low - after), (float)(r->high - after));
  return (int32_t)qv_round_f32(v) + after;
}

int32_t qv_requantize(const qv_requantizer *r, int64_t acc, int64_t channel) {
  if (r->real) return scaled_bits(r, acc, channel);
  int64_t at = r->channels > 1 ? channel : 0;
  if (r->dtype == QV_F32 && r->rows == FLOAT_ROWS) return requantize_in_floats(r, acc, at);
  if (r->dtype == QV_F64 && r->rows == TWO_STEPS) return requantize_twice(r, acc, at);
  int32_t low = r->low - r->zero, high = r->high - r->zero;
  if (r->dtype == QV_F32) {
    float v = (float)(int32_t)acc * ((const float *)r->values)[at];
    v = qv_clamp_f32(v, (float)low, (float)high);
    return (int32_t)qv_round_f32(v) + r->zero;
  }
  if (r->dtype == QV_F64) {
    double v = (double)acc * ((const double *)r->values)[at];
    v = qv_clamp_f64(v, (double)low, (double)high);
    if (r->rows == 2) return qv_round_real(v, (int)((const double *)r->values)[r->channels], r->zero) + r->zero;
    return (int32_t)qv_round_f64(v) + r->zero;
  }
  qv_steps steps = qv_steps_of(r, at);
  const int32_t *summands = r->rows == STEPS_WITH_SUMMANDS ? (const int32_t *)r->values + STEPS * r->channels + at : NULL;
  if (summands) acc = (int32_t)(uint32_t)(uint64_t)(acc + summands[0]);
  int64_t y = qv_apply_steps(&steps, acc, r->zero);
  if (y > 1 << 20 || y < -(1 << 20)) return y > 0 ? r->high : r->low;
  y += r->zero + (summands ? summands[r->channels] : 0);
  return (int32_t)(y < r->low ? r->low : y > r->high ? r->high : y);
}
