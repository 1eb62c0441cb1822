/* y = clip(RNE(fl32(fl32(fl32((A-za)(B-zb))*R) + zy))) in ref-exact; requantize((A-za)(B-zb), S) + zy otherwise. */
#include "op.h"
#include "../arithmetic/requantize.h"
#include "../arithmetic/float32.h"
#include "../arithmetic/instructions.h"

typedef struct {
  const qv_tensor *a, *b, *y;
  const void *pa, *pb;
  void *py;
  qv_requantizer r;
  const qv_elementwise *kernels; /* NULL: the loop of this file is used */
  qv_pairs_of_bytes pairs;
} multiplying;

static int32_t one(const multiplying *w, int64_t acc) {
  if (w->r.dtype != QV_F32 || w->r.rows > 1) return qv_requantize(&w->r, acc, 0);
  float v = (float)acc * ((const float *)w->r.values)[0] + (float)w->r.zero;
  v = qv_clamp_f32(v, (float)w->r.low, (float)w->r.high);
  return (int32_t)qv_round_f32(v);
}

static void row(void *user, int64_t a, int64_t b, int64_t y, int64_t step_a, int64_t step_b, int64_t length) {
  const multiplying *w = user;
  for (int64_t i = 0; i < length; i++, a += step_a, b += step_b)
    qv_store(
        w->py, w->y->dtype, y + i,
        one(w, (int64_t)(qv_load(w->pa, w->a->dtype, a) - w->a->zero_point[0]) * (qv_load(w->pb, w->b->dtype, b) - w->b->zero_point[0])));
}

static void take_pairs(multiplying *w) {
  w->pairs.first = qv_byte_of(w->a->dtype, w->a->zero_point[0]);
  w->pairs.second = qv_byte_of(w->b->dtype, w->b->zero_point[0]);
  w->pairs.r[0] = ((const float *)w->r.values)[0];
  w->pairs.r[1] = (float)w->r.zero;
  w->pairs.low = (float)w->r.low;
  w->pairs.high = (float)w->r.high;
}

static void run_of_bytes(void *user, int64_t a, int64_t b, int64_t y, int64_t step_a, int64_t step_b, int64_t length) {
  const multiplying *v = user;
  v->kernels->multiply(&v->pairs, (const uint8_t *)v->pa + a, (const uint8_t *)v->pb + b, step_a, step_b, length, (uint8_t *)v->py + y);
}

static qv_status mul_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 3, 1, 2);
  if (status != QV_OK) return status;
  const qv_tensor *a = qv_in(m, n, 0), *b = qv_in(m, n, 1);
  if ((status = qv_check_broadcast(m, n, 0, 1)) != QV_OK) return status;
  if (!qv_is_q(a) || !qv_is_q(b) || a->n_scales != 1 || b->n_scales != 1)
    return qv_fail_operands(m, n, "two quantized inputs of one scale each");
  if ((status = qv_check_rq(m, n, 2, 1, 0)) != QV_OK) return status;
  return QV_OK;
}

static qv_status mul_run(const qv_session *s, const qv_node *n) {
  multiplying w;
  w.a = qv_in(s->model, n, 0);
  w.b = qv_in(s->model, n, 1);
  w.y = qv_out(s->model, n, 0);
  w.pa = qv_data(s, w.a);
  w.pb = qv_data(s, w.b);
  w.py = qv_data(s, w.y);
  qv_requantizer_of(s, n, 2, 0, qv_is_wide(w.a, w.b, w.y), &w.r);
  w.kernels = w.r.dtype == QV_F32 && w.r.rows == 1 && !w.r.wide && !s->plain_only ? qv_chosen_instructions().elementwise : NULL;
  if (w.kernels) take_pairs(&w);
  if (w.kernels) qv_for_runs(w.a, w.b, w.y, run_of_bytes, &w);
  else qv_for_rows(w.a, w.b, w.y, row, &w);
  return QV_OK;
}

const qv_op qv_op_mul = {"mul", mul_check, NULL, mul_run};
