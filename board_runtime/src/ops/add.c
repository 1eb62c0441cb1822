/* y = clip(RNE(fma(A, r1, fma(B, r2, F)))); otherwise each operand is scaled, exactly or rounded, and then their sum. */
#include "op.h"
#include "../arithmetic/requantize.h"
#include "../arithmetic/float32.h"
#include "../arithmetic/instructions.h"

enum { SUMMAND = 1 << 30, FARTHEST = 1 << 16 }; /* largest magnitudes of what is added to a sum, and to its result */

typedef struct {
  const qv_tensor *a, *b, *y, *rq;
  const void *pa, *pb;
  void *py;
  int32_t swap, low, high;
  qv_steps steps[3];     /* of both operands and their sum; of an int32 rq only */
  int32_t before, after; /* added to the sum and to its result */
  int bytes;
  float inner[256];              /* fma(B, r2, F) for every byte B; only if both inputs are 8-bit */
  const qv_elementwise *kernels; /* NULL: the loops of this file are used */
  qv_pairs_of_bytes pairs;
} adding;

static int32_t limited(const adding *w, double v) {
  v = qv_clamp_f64(v, (double)w->low, (double)w->high);
  return (int32_t)qv_round_f64(v);
}

/* Sets the steps of an int32 rq: three rows, or two multipliers and a shift in the file's rounding mode. */
static void take_steps(adding *w, qv_rounding rounding) {
  const int32_t *r = w->rq->constant;
  int rule = rounding == QV_POW2_FLOOR ? QV_FLOOR : rounding == QV_GEMMLOWP || rounding == QV_POW2_HALF_AWAY ? QV_HALF_AWAY : QV_HALF_UP;
  w->before = w->after = 0;
  if (w->rq->rank == 2) {
    memcpy(w->steps, r, sizeof w->steps);
    if (w->rq->shape[0] == 4) w->before = r[15], w->after = r[16];
    return;
  }
  w->steps[0] = (qv_steps){r[0], 0, 0, 0, 0};
  w->steps[1] = (qv_steps){r[1], 0, 0, 0, 0};
  w->steps[2] = (qv_steps){1, 0, 0, r[2], rule << 8};
}

static int32_t one(const adding *w, int32_t a, int32_t b) {
  if (w->rq->dtype == QV_F32) {
    const float *r = w->rq->constant;
    float first = (float)(w->swap ? b : a), second = (float)(w->swap ? a : b);
    return limited(w, (double)qv_fma32(first, r[0], qv_fma32(second, r[1], r[2])));
  }
  int64_t da = a - w->a->zero_point[0], db = b - w->b->zero_point[0], zero = w->y->zero_point[0], v;
  if (w->rq->dtype == QV_F64) {
    const double *r = w->rq->constant;
    double p = (double)da * r[0], q = (double)db * r[1], total = p + q;
    double low = (double)(w->low - zero), high = (double)(w->high - zero);
    total = total < low ? low : total > high ? high : total;
    return (w->rq->elements == 3 ? qv_round_real(total, (int)r[2], (int32_t)zero) : (int32_t)qv_round_f64(total)) + (int32_t)zero;
  }
  int64_t sum = qv_apply_steps(&w->steps[0], da, 0) + qv_apply_steps(&w->steps[1], db, 0) + w->before;
  v = qv_apply_steps(&w->steps[2], sum, (int32_t)zero);
  if (v > 1 << 20 || v < -(1 << 20)) return v > 0 ? w->high : w->low;
  v += zero + w->after;
  return (int32_t)(v < w->low ? w->low : v > w->high ? w->high : v);
}

static float of_byte(uint8_t byte, int32_t dtype) { return dtype == QV_S8 ? (float)(int8_t)byte : (float)byte; }

/* Computes a row in the float32 form, if both inputs are 8-bit. */
static void exact_row(const adding *w, int64_t a, int64_t b, int64_t y, int64_t step_a, int64_t step_b, int64_t length) {
  const uint8_t *first = w->pa, *second = w->pb;
  int32_t dtype = w->swap ? w->b->dtype : w->a->dtype;
  float scale = ((const float *)w->rq->constant)[0];
  for (int64_t i = 0; i < length; i++, a += step_a, b += step_b) {
    uint8_t outer = w->swap ? second[b] : first[a], inner = w->swap ? first[a] : second[b];
    float v = qv_fma32(of_byte(outer, dtype), scale, w->inner[inner]);
    qv_store(w->py, w->y->dtype, y + i, limited(w, (double)v));
  }
}

static void inner_table(adding *w) {
  const float *r = w->rq->constant;
  int32_t dtype = w->swap ? w->a->dtype : w->b->dtype;
  for (int i = 0; i < 256; i++) w->inner[i] = qv_fma32(of_byte((uint8_t)i, dtype), r[1], r[2]);
}

static void take_pairs(adding *w) {
  w->pairs.first = qv_byte_of(w->swap ? w->b->dtype : w->a->dtype, 0);
  w->pairs.second = qv_byte_of(w->swap ? w->a->dtype : w->b->dtype, 0);
  memcpy(w->pairs.r, w->rq->constant, sizeof w->pairs.r);
  w->pairs.low = (float)w->low;
  w->pairs.high = (float)w->high;
}

static void row(void *user, int64_t a, int64_t b, int64_t y, int64_t step_a, int64_t step_b, int64_t length) {
  const adding *w = user;
  if (w->bytes) {
    exact_row(w, a, b, y, step_a, step_b, length);
    return;
  }
  for (int64_t i = 0; i < length; i++, a += step_a, b += step_b)
    qv_store(w->py, w->y->dtype, y + i, one(w, qv_load(w->pa, w->a->dtype, a), qv_load(w->pb, w->b->dtype, b)));
}

static void run_of_bytes(void *user, int64_t a, int64_t b, int64_t y, int64_t step_a, int64_t step_b, int64_t length) {
  const adding *v = user;
  const uint8_t *first = (const uint8_t *)v->pa + a, *second = (const uint8_t *)v->pb + b;
  if (v->swap) v->kernels->add(&v->pairs, second, first, step_b, step_a, length, (uint8_t *)v->py + y);
  else v->kernels->add(&v->pairs, first, second, step_a, step_b, length, (uint8_t *)v->py + y);
}

/* Checks an int32 rq: [3], two multipliers and a shift; [3, 5], the steps of both operands and of their sum; or [4, 5], these
   and what is added to the sum and to its result. */
static qv_status check_integers(qv_model *m, const qv_node *n, const qv_tensor *rq) {
  const int32_t *r = rq->constant;
  if (rq->rank == 1) return r[2] >= 1 && r[2] <= 62 ? QV_OK : qv_fail(m, n, QV_E_FORMAT, "its shift is %d, wanted 1 to 62", r[2]);
  for (int k = 0; k < 3; k++) {
    qv_steps s = {r[5 * k], r[5 * k + 1], r[5 * k + 2], r[5 * k + 3], r[5 * k + 4]};
    qv_status status = qv_check_steps(m, n, &s, "row", k, k == 2 ? 0 : -INT32_MAX, 30);
    if (status != QV_OK) return status;
    if (k < 2 && s.rules >> 8 & QV_ZERO_INSIDE)
      return qv_fail(m, n, QV_E_FORMAT, "row %d has rules 0x%x, wanted no zero point in an operand's", k, (unsigned)s.rules);
  }
  if (rq->shape[0] == 3) return QV_OK;
  if (r[15] < -SUMMAND || r[15] > SUMMAND || r[16] < -FARTHEST || r[16] > FARTHEST || r[17] || r[18] || r[19] ||
      r[14] >> 8 & QV_ZERO_INSIDE)
    return qv_fail(m, n, QV_E_FORMAT,
                   "row 3 is %d, %d, %d, %d, %d, wanted summands within 2^30 and 65536, and zeros; or row 2 counts the zero point", r[15],
                   r[16], r[17], r[18], r[19]);
  return QV_OK;
}

/* Returns whether the rq is of one of the forms that NUMERICS.md has. */
static int has_form(const qv_tensor *rq, int exact) {
  if (rq->dtype == QV_F64 && rq->rank == 1 && rq->elements == 3) return 1;
  if (rq->dtype == QV_I32 && rq->rank == 2) return (rq->shape[0] == 3 || rq->shape[0] == 4) && rq->shape[1] == 5;
  if (rq->rank != 1) return 0;
  return exact ? (rq->dtype == QV_F32 && rq->elements == 3) || (rq->dtype == QV_F64 && rq->elements == 2)
               : rq->dtype == QV_I32 && rq->elements == 3;
}

static qv_status add_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 3, 1, 3);
  if (status != QV_OK) return status;
  const qv_tensor *a = qv_in(m, n, 0), *b = qv_in(m, n, 1), *y = qv_out(m, n, 0), *rq = qv_in(m, n, 2);
  if ((status = qv_check_broadcast(m, n, 0, 1)) != QV_OK) return status;
  if (!qv_is_q(a) || !qv_is_q(b) || !qv_is_q(y) || a->n_scales != 1 || b->n_scales != 1 || y->n_scales != 1 || !rq || !rq->constant)
    return qv_fail_operands(m, n, "two inputs and an output quantized with one scale each, and a constant rq");
  int exact = m->rounding == QV_REF_EXACT;
  if (!has_form(rq, exact))
    return qv_fail_operands(m, n, "an rq of int32 (3, 5) or (4, 5), 3 float64%s in rounding mode %d",
                            exact ? ", 3 float32 or 2 float64" : " or int32 (3)", (int)m->rounding);
  for (int i = 0; rq->dtype != QV_I32 && i < rq->elements; i++) {
    double v = rq->dtype == QV_F64 ? ((const double *)rq->constant)[i] : (double)((const float *)rq->constant)[i];
    if (v - v != 0) return qv_fail(m, n, QV_E_FORMAT, "requantization scale %d is %g, wanted a finite one", i, v);
  }
  if (rq->dtype == QV_F64 && rq->elements == 3 && (status = qv_check_rule(m, n, ((const double *)rq->constant)[2])) != QV_OK) return status;
  if (rq->dtype == QV_I32 && (status = check_integers(m, n, rq)) != QV_OK) return status;
  if (qv_word(n, 1) < qv_qmin(y->dtype) || qv_word(n, 2) > qv_qmax(y->dtype) || qv_word(n, 1) > qv_word(n, 2))
    return qv_fail(m, n, QV_E_FORMAT, "activation limits %d and %d, wanted in order and within %d to %d", qv_word(n, 1), qv_word(n, 2),
                   qv_qmin(y->dtype), qv_qmax(y->dtype));
  return QV_OK;
}

static qv_status add_run(const qv_session *s, const qv_node *n) {
  adding w;
  w.a = qv_in(s->model, n, 0);
  w.b = qv_in(s->model, n, 1);
  w.y = qv_out(s->model, n, 0);
  w.rq = qv_in(s->model, n, 2);
  w.swap = qv_word(n, 0);
  w.low = qv_word(n, 1);
  w.high = qv_word(n, 2);
  if (w.rq->dtype == QV_I32) take_steps(&w, s->model->rounding);
  w.pa = qv_data(s, w.a);
  w.pb = qv_data(s, w.b);
  w.py = qv_data(s, w.y);
  w.bytes = w.rq->dtype == QV_F32 && qv_is_8bit(w.a) && qv_is_8bit(w.b) && !s->plain_only;
  w.kernels = w.bytes && qv_is_8bit(w.y) ? qv_chosen_instructions().elementwise : NULL;
  if (w.kernels) take_pairs(&w);
  else if (w.bytes) inner_table(&w);
  if (w.kernels) qv_for_runs(w.a, w.b, w.y, run_of_bytes, &w);
  else qv_for_rows(w.a, w.b, w.y, row, &w);
  return QV_OK;
}

const qv_op qv_op_add = {"add", add_check, NULL, add_run};
