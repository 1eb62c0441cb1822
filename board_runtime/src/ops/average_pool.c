/* ref-exact: y = clip(RNE(fl32(fl32(m/sy)+zy))), m = sequential fl32 sum of fl32(sx*(x-zx)) / count; otherwise
   requantize(sum, S/count), or a quotient of integers. */
#include "../arithmetic/float32.h"
#include "../arithmetic/requantize.h"
#include "window.h"

static qv_status average_pool_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 2, 1, 11);
  if (status != QV_OK || (status = qv_window_check(m, n, 0, 0)) != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *rq = qv_in(m, n, 1), *y = qv_out(m, n, 0);
  int64_t kernel = (int64_t)qv_word(n, 0) * qv_word(n, 1);
  if (!qv_is_q(x) || x->n_scales != 1 || x->shape[1] != y->shape[1])
    return qv_fail_operands(m, n, "a quantized input of one scale, and as many channels out as in");
  if (qv_word(n, 8) & ~1) return qv_fail(m, n, QV_E_FORMAT, "word 8 is %d, wanted 0 or 1", qv_word(n, 8));
  if (qv_is_quotient(rq)) return qv_check_quotient(m, n, rq, 9);
  int each = rq && rq->rank == 2; /* one column for every count of taps */
  if (each && (rq->dtype == QV_F32 || rq->shape[0] == 7 || rq->shape[0] == QV_TWO_STEPS))
    return qv_fail_operands(m, n, "an rq of int32 (1), (2, N) or (5, N), float64 (2, N), or in rounding mode 0 float32 (2) or float64 (1)");
  if (m->rounding == QV_REF_EXACT && rq && rq->dtype == QV_F32 && rq->elements != 2)
    return qv_fail(m, n, QV_E_FORMAT, "%ld scales in its rq, wanted 2", (long)rq->elements);
  if (m->rounding == QV_REF_EXACT && rq && rq->dtype == QV_F32) return qv_check_rq(m, n, 1, 2, 9);
  if (each && rq->shape[1] != kernel)
    return qv_fail(m, n, QV_E_FORMAT, "%d multipliers in its rq, wanted %ld: one for every count of taps", rq->shape[1], (long)kernel);
  return qv_check_rq(m, n, 1, each ? kernel : 1, 9);
}

static int32_t finish(const qv_requantizer *r, const qv_tensor *y, float real, int64_t acc, int64_t divisor) {
  if (r->dtype == QV_F32) {
    float mean = real / (float)divisor, v = mean / ((const float *)r->values)[1] + (float)y->zero_point[0];
    if (v != v) v = (float)r->low; /* only possible if a product with the scale exceeds float32 */
    v = qv_clamp_f32(v, (float)r->low, (float)r->high);
    return (int32_t)qv_round_f32(v);
  }
  if (r->dtype == QV_F64 && r->rows == 1) {
    double v = ((double)acc * ((const double *)r->values)[0]) / (double)divisor, low = (double)(r->low - r->zero),
           high = (double)(r->high - r->zero);
    v = qv_clamp_f64(v, low, high);
    return (int32_t)qv_round_f64(v) + r->zero;
  }
  if (!r->channels) return qv_quotient(r, acc, divisor);
  return qv_requantize(r, acc, divisor - 1);
}

static qv_status average_pool_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *x = qv_in(s->model, n, 0), *y = qv_out(s->model, n, 0);
  qv_window w;
  qv_requantizer r;
  qv_window_of(s->model, n, 0, &w);
  qv_requantizer_of(s, n, 1, 9, qv_is_wide(x, NULL, y), &r);
  const void *from = qv_data(s, x);
  void *to = qv_data(s, y);
  if (qv_is_quotient(qv_in(s->model, n, 1))) r.channels = 0;
  int64_t at = 0;
  for (int64_t p = 0; p < w.batch * w.channels; p++)
    for (int64_t i = 0; i < w.out_h; i++) {
      qv_taps_of_axis rows = qv_taps_walked(i * w.stride_h - w.top, w.kernel_h, 1, w.in_h);
      for (int64_t j = 0; j < w.out_w; j++, at++) {
        qv_taps_of_axis columns = qv_taps_walked(j * w.stride_w - w.left, w.kernel_w, 1, w.in_w);
        int64_t acc = 0, count = 0;
        float real = 0.0f;
        for (int64_t a = rows.first; a < rows.end; a++)
          for (int64_t b = columns.first; b < columns.end; b++) {
            int64_t row = i * w.stride_h - w.top + a, column = j * w.stride_w - w.left + b;
            if (row < 0 || row >= w.in_h || column < 0 || column >= w.in_w) continue;
            int32_t v = qv_load(from, x->dtype, (p * w.in_h + row) * w.in_w + column) - x->zero_point[0];
            acc += v;
            count++;
            if (r.dtype == QV_F32) real += ((const float *)r.values)[0] * (float)v;
          }
        int32_t result = y->zero_point[0];
        if (count) result = finish(&r, y, real, acc, qv_word(n, 8) ? w.kernel_h * w.kernel_w : count);
        if (result < r.low) result = r.low;
        if (result > r.high) result = r.high;
        qv_store(to, y->dtype, at, result);
      }
    }
  return QV_OK;
}

const qv_op qv_op_average_pool = {"average_pool", average_pool_check, NULL, average_pool_run};
