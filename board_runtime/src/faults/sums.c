/* Computes the outputs of conv, fully_connected and global_average_pool again with plain loops, for faults in the
   accumulator or after it. */
#include "sums.h"

#include "../arithmetic/requantize.h"

typedef struct {
  const qv_output_fault *f;
  const qv_summing *how;
  const qv_tensor *x, *k, *b;
  const void *from;
  qv_window w;
  int64_t per_in, per_out, depth;
} summed;

static int is(const qv_output_fault *f, const char *op) { return strcmp(f->n->op_name, op) == 0; }
static int rq_at(const qv_output_fault *f) { return is(f, "global_average_pool") ? 1 : 3; }
static int low_at(const qv_output_fault *f) { return is(f, "conv") ? 11 : 0; }

static int64_t tap_weight(const summed *a, int64_t o, int64_t tap) {
  return a->k ? qv_load(a->k->constant, a->k->dtype, o * a->depth + tap) - qv_zero(a->k, o) : 1;
}

static int64_t add(const summed *a, int64_t acc, int64_t product, int64_t step, int64_t *held) {
  return a->how->add ? a->how->add(acc, product, step, held) : acc + product;
}

static int64_t multiply(const summed *a, int64_t i, int64_t tap, int64_t x, int64_t w) {
  return a->how->product ? a->how->product(a->f, i, tap, x, w) : x * w;
}

/* Returns the sum of output i of a conv, which is at = (batch, output channel, row, column). */
static int64_t conv_sum(const summed *a, int64_t i, const int64_t at[4], int64_t acc) {
  const qv_window *w = &a->w;
  int64_t area = w->kernel_h * w->kernel_w, zero = qv_zero(a->x, at[1] / a->per_out), held = 0;
  for (int64_t tap = 0; tap < a->depth; tap++) {
    int64_t row = at[2] * w->stride_h - w->top + tap % area / w->kernel_w * w->dilation_h;
    int64_t column = at[3] * w->stride_w - w->left + tap % w->kernel_w * w->dilation_w;
    int outside = row < 0 || row >= w->in_h || column < 0 || column >= w->in_w;
    int64_t plane = at[0] * w->channels + at[1] / a->per_out * a->per_in + tap / area;
    int64_t x = outside ? (a->how->pad_is_zero_byte ? 0 : zero) : qv_load(a->from, a->x->dtype, (plane * w->in_h + row) * w->in_w + column);
    acc = add(a, acc, multiply(a, i, tap, x - zero, tap_weight(a, at[1], tap)), tap, &held);
  }
  return acc;
}

/* Returns the sum of output element i, whose `depth` operands are consecutive. */
static int64_t row_sum(const summed *a, int64_t i, int64_t o, int64_t acc) {
  int64_t first = a->k ? i / a->k->shape[0] * a->depth : i * a->depth, held = 0;
  for (int64_t p = 0; p < a->depth; p++)
    acc = add(a, acc, multiply(a, i, p, qv_load(a->from, a->x->dtype, first + p) - a->x->zero_point[0], tap_weight(a, o, p)), p, &held);
  return acc;
}

static int64_t bias(const summed *a, int64_t o) { return a->b ? ((const int32_t *)a->b->constant)[o] : 0; }

static int64_t one(const summed *a, int64_t i, int64_t *channel) {
  const qv_output_fault *f = a->f;
  if (is(f, "conv")) {
    int64_t area = a->w.out_h * a->w.out_w, plane = i / area,
            at[4] = {plane / a->w.out_channels, plane % a->w.out_channels, i % area / a->w.out_w, i % a->w.out_w};
    *channel = at[1];
    return conv_sum(a, i, at, bias(a, at[1]));
  }
  *channel = a->k ? i % a->k->shape[0] : 0;
  return row_sum(a, i, *channel, bias(a, *channel));
}

static qv_why opened(const qv_output_fault *f, summed *a) {
  const qv_model *m = f->s->model;
  int pool = is(f, "global_average_pool");
  if (!pool && !is(f, "conv") && !is(f, "fully_connected")) return "it sums no conv, fully_connected or global_average_pool";
  a->x = qv_in(m, f->n, 0);
  a->k = pool ? NULL : qv_in(m, f->n, 1);
  a->b = pool ? NULL : qv_in(m, f->n, 2);
  if (qv_is_wide(a->x, a->k, f->y)) return "its accumulator has 64 bits";
  if (qv_in(m, f->n, rq_at(f))->dtype != QV_F32) return "its model is not in ref-exact";
  a->from = qv_data(f->s, a->x);
  a->depth = a->k ? a->k->elements / a->k->shape[0] : a->x->elements / f->elements;
  if (is(f, "conv")) {
    qv_window_of(m, f->n, 1, &a->w);
    a->per_in = a->w.channels / qv_word(f->n, 10);
    a->per_out = a->w.out_channels / qv_word(f->n, 10);
  }
  return NULL;
}

float qv_sum_scale(const qv_output_fault *f, int64_t channel) {
  const qv_tensor *rq = qv_in(f->s->model, f->n, rq_at(f));
  return ((const float *)rq->constant)[rq->elements > 1 ? channel : 0];
}

int32_t qv_sum_limited(const qv_output_fault *f, double centred) {
  double v = centred + f->y->zero_point[0], low = qv_word(f->n, low_at(f)), high = qv_word(f->n, low_at(f) + 1);
  return (int32_t)(v < low ? low : v > high ? high : v);
}

qv_why qv_sum_again(const qv_output_fault *f, const qv_summing *how, qv_finish finish) {
  summed a = {.f = f, .how = how};
  qv_requantizer r;
  qv_why why = opened(f, &a);
  if (why) return why;
  qv_requantizer_of(f->s, f->n, rq_at(f), low_at(f), 0, &r);
  for (int64_t i = 0; i < f->elements; i++) {
    int64_t channel = 0, acc = one(&a, i, &channel);
    qv_store(f->data, f->y->dtype, i,
             finish ? finish(f, (int32_t)(uint32_t)acc, channel) : qv_requantize(&r, (int32_t)(uint32_t)acc, channel));
  }
  return NULL;
}
