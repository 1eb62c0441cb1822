/* Converts accumulators to the output type in every rounding mode (NUMERICS.md section 1). */
#include "requantize.h"

#include "float32.h"

int qv_is_wide(const qv_tensor *a, const qv_tensor *b, const qv_tensor *y) {
  return qv_is_16bit(a) || (b && qv_is_16bit(b)) || qv_is_16bit(y);
}

/* Returns the rounding mode of a node: tflite-single if its integer rq has three rows, otherwise that of the model. */
static qv_rounding rounding_of(const qv_model *m, const qv_tensor *rq) {
  return rq->dtype == QV_I32 && rq->rank == 2 && rq->shape[0] == 3 ? QV_TFLITE_SINGLE : m->rounding;
}

/* Checks the ranges of the multipliers, shifts and rounding ids of an integer rq (NUMERICS.md section 1). */
static qv_status check_fields(qv_model *m, const qv_node *n, int wide, const qv_tensor *rq, int32_t columns) {
  const int32_t *field = rq->constant;
  qv_rounding rounding = rounding_of(m, rq);
  int power = rounding >= QV_POW2_HALF_UP && rounding <= QV_POW2_FLOOR,
      exponent = (rounding == QV_GEMMLOWP || rounding == QV_CMSIS) && !wide;
  int32_t low = power ? -30 : exponent ? -(1 << 20) : 1, high = exponent ? 30 : 1 << 20;
  for (int32_t i = 0; i < columns; i++)
    if (field[i] < 0 || field[columns + i] < low || field[columns + i] > high)
      return qv_fail(m, n, QV_E_FORMAT, "multiplier %d is %d, its shift %d, wanted 0 or more and %d to %d", i, field[i], field[columns + i],
                     low, high);
  for (int32_t i = 0; rq->shape[0] == 3 && i < columns; i++)
    if (field[2 * columns + i] != QV_TFLITE_SINGLE)
      return qv_fail(m, n, QV_E_FORMAT, "rounding id %d of its own at %d, wanted %d", field[2 * columns + i], i, QV_TFLITE_SINGLE);
  return QV_OK;
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
  int integer = m->rounding != QV_REF_EXACT;
  int good = integer ? rq->dtype == QV_I32 && rq->rank == 2 && (rq->shape[0] == 2 || rq->shape[0] == 3)
                     : (rq->dtype == QV_F32 || rq->dtype == QV_F64) && rq->rank == 1;
  if (!good)
    return qv_fail_operands(m, n, "an rq of %s in rounding mode %d", integer ? "int32 (2, N) or (3, N)" : "float32 or float64 (N)",
                            (int)m->rounding);
  int32_t columns = rq->shape[rq->rank - 1];
  if (columns != 1 && columns != channels)
    return qv_fail(m, n, QV_E_FORMAT, "%d requantization scales, wanted 1 or %ld", columns, (long)channels);
  for (int i = 0; !integer && i < columns; i++) {
    double scale = rq->dtype == QV_F64 ? ((const double *)rq->constant)[i] : (double)((const float *)rq->constant)[i];
    if (!(scale > 0) || scale - scale != 0)
      return qv_fail(m, n, QV_E_FORMAT, "requantization scale %d is %g, wanted a positive number", i, scale);
  }
  qv_status status = integer ? check_fields(m, n, qv_is_wide(qv_in(m, n, 0), qv_in(m, n, 1), y), rq, columns) : QV_OK;
  if (status != QV_OK) return status;
  if (low_word >= 0 && (!qv_is_q(y) || y->n_scales != 1 || qv_word(n, low_word) < qv_qmin(y->dtype) ||
                        qv_word(n, low_word + 1) > qv_qmax(y->dtype) || qv_word(n, low_word) > qv_word(n, low_word + 1)))
    return qv_fail_operands(m, n, "an output of one scale, and activation limits in order and within its dtype, not %d and %d",
                            qv_word(n, low_word), qv_word(n, low_word + 1));
  return QV_OK;
}

void qv_requantizer_of(const qv_session *s, const qv_node *n, int rq_input, int low_word, int wide, qv_requantizer *r) {
  const qv_tensor *rq = qv_in(s->model, n, rq_input), *y = qv_out(s->model, n, 0), *bias = qv_in(s->model, n, 2);
  r->values = rq->constant;
  r->dtype = rq->dtype;
  r->channels = rq->shape[rq->rank - 1];
  r->rounding = rounding_of(s->model, rq);
  r->wide = wide;
  r->real = y->dtype == QV_F32;
  r->zero = 0;
  if (!r->real) r->zero = y->zero_point[0];
  r->bias = r->real && bias && bias->dtype == QV_F32 ? bias->constant : NULL;
  r->low = qv_word(n, low_word);
  r->high = qv_word(n, low_word + 1);
}

int64_t qv_shift_right(int64_t value, int shift) { return value < 0 ? ~(~value >> shift) : value >> shift; }

int64_t qv_half_up(int64_t value, int32_t shift) {
  if (shift > 62) return 0;
  return qv_shift_right((int64_t)((uint64_t)value + ((uint64_t)1 << (shift - 1))), shift);
}

/* Product and negation that wrap instead of overflowing, because a malicious file can exceed the range. */
static int64_t times(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t negative(int64_t a) { return (int64_t)(0 - (uint64_t)a); }

static int64_t half_away(int64_t value, int32_t shift) {
  return value < 0 ? -qv_half_up(negative(value), shift) : qv_half_up(value, shift);
}

static int64_t divide_by_pot(int64_t x, int32_t shift) {
  if (shift > 31) return 0;
  int64_t mask = ((int64_t)1 << shift) - 1;
  return qv_shift_right(x, shift) + ((x & mask) > ((mask >> 1) + (x < 0)));
}

static int64_t saturate32(int64_t x) { return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x; }

static int64_t power_of_two(qv_rounding rounding, int64_t acc, int32_t shift) {
  if (shift < 1) return times(acc, (int64_t)1 << -shift);
  if (rounding == QV_POW2_FLOOR) return qv_shift_right(acc, shift > 63 ? 63 : shift);
  return rounding == QV_POW2_HALF_AWAY ? half_away(acc, shift) : qv_half_up(acc, shift);
}

int64_t qv_integer_scale(qv_rounding rounding, int wide, int64_t acc, int32_t multiplier, int32_t shift) {
  if (rounding >= QV_POW2_HALF_UP && rounding <= QV_POW2_FLOOR) return power_of_two(rounding, acc, shift);
  if ((rounding == QV_GEMMLOWP || rounding == QV_CMSIS) && !wide) {
    int32_t left = shift > 0 ? shift : 0, right = shift < 0 ? -shift : 0;
    int64_t product = saturate32(acc * ((int64_t)1 << left)) * multiplier;
    if (rounding == QV_CMSIS) return divide_by_pot(qv_shift_right(product + ((int64_t)1 << 30), 31), right);
    int64_t nudged = product + (product >= 0 ? (int64_t)1 << 30 : 1 - ((int64_t)1 << 30));
    return divide_by_pot(nudged / ((int64_t)1 << 31), right);
  }
  return qv_half_up(times(acc, multiplier), shift);
}

int64_t qv_sum_shift(qv_rounding rounding, int64_t value, int32_t shift) {
  if (rounding == QV_POW2_FLOOR) return qv_shift_right(value, shift);
  if (rounding == QV_GEMMLOWP || rounding == QV_POW2_HALF_AWAY) return half_away(value, shift);
  return qv_half_up(value, shift);
}

/* Returns the bits of fl32(f64(acc) * S + f64(b)). */
static int32_t scaled_bits(const qv_requantizer *r, int64_t acc, int64_t channel) {
  double v = (double)acc * ((const double *)r->values)[r->channels > 1 ? channel : 0];
  float y = (float)(r->bias ? v + (double)r->bias[channel] : v);
  int32_t bits;
  memcpy(&bits, &y, sizeof bits);
  return bits;
}

int32_t qv_requantize(const qv_requantizer *r, int64_t acc, int64_t channel) {
  if (r->real) return scaled_bits(r, acc, channel);
  int64_t at = r->channels > 1 ? channel : 0;
  int32_t low = r->low - r->zero, high = r->high - r->zero;
  if (r->dtype == QV_F32) {
    float v = (float)(int32_t)acc * ((const float *)r->values)[at];
    v = qv_clamp_f32(v, (float)low, (float)high);
    return (int32_t)qv_round_f32(v) + r->zero;
  }
  if (r->dtype == QV_F64) {
    double v = (double)acc * ((const double *)r->values)[at];
    v = qv_clamp_f64(v, (double)low, (double)high);
    return (int32_t)qv_round_f64(v) + r->zero;
  }
  const int32_t *field = r->values;
  int64_t y = qv_integer_scale(r->rounding, r->wide, acc, field[at], field[r->channels + at]);
  if (y > 1 << 20 || y < -(1 << 20)) return y > 0 ? r->high : r->low;
  y += r->zero;
  return (int32_t)(y < r->low ? r->low : y > r->high ? r->high : y);
}
