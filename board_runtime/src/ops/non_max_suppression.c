/* y = the boxes in descending order of their scores, without those that overlap a better box (NUMERICS.md,
   non_max_suppression). */
#include "op.h"

enum { MOST_ROWS = 1 << 20 }; /* limit of FORMAT.md, which bounds the time: each candidate is compared with all kept boxes */

typedef struct {
  float low[2], high[2];
} box;

static box corners(const float *of, int centred) {
  box b;
  for (int k = 0; k < 2; k++) {
    float half = of[2 + k] / 2.0f;
    if (centred) {
      b.low[k] = of[k] - half;
      b.high[k] = of[k] + half;
    } else {
      b.low[k] = of[k] > of[2 + k] ? of[2 + k] : of[k];
      b.high[k] = of[k] > of[2 + k] ? of[k] : of[2 + k];
    }
  }
  return b;
}

static float area(const float low[2], const float high[2]) {
  float width = high[0] - low[0], height = high[1] - low[1];
  return width * height;
}

static int overlaps(const box *better, const box *other, float limit) {
  float first[2], last[2];
  for (int k = 0; k < 2; k++) {
    first[k] = other->low[k] > better->low[k] ? other->low[k] : better->low[k];
    last[k] = other->high[k] < better->high[k] ? other->high[k] : better->high[k];
    if (!(last[k] > first[k])) return 0;
  }
  float shared = area(first, last), a = area(better->low, better->high), b = area(other->low, other->high);
  float sum = a + b, both = sum - shared;
  return shared > 0.0f && a > 0.0f && b > 0.0f && both > 0.0f && shared / both > limit;
}

/* Returns whether candidate a comes before b: it has the larger score or, with equal scores, the smaller index. */
static int before(const float *scores, int32_t a, int32_t b) { return scores[a] > scores[b] || (scores[a] == scores[b] && a < b); }

/* Restores the order of the heap of `count` candidates, in which only position `at` may come after its children. */
static void sink(int32_t *heap, int64_t count, int64_t at, const float *scores) {
  for (int64_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && before(scores, heap[child + 1], heap[child])) child++;
    if (!before(scores, heap[child], heap[at])) return;
    int32_t held = heap[at];
    heap[at] = heap[child];
    heap[child] = held;
  }
}

static qv_status non_max_suppression_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 2, 1, 5);
  if (status != QV_OK) return status;
  const qv_tensor *boxes = qv_in(m, n, 0), *scores = qv_in(m, n, 1), *y = qv_out(m, n, 0);
  if (!boxes || !scores || boxes->dtype != QV_F32 || scores->dtype != QV_F32 || boxes->rank != 3 || scores->rank != 3 ||
      boxes->shape[2] != 4 || boxes->shape[0] != scores->shape[0] || boxes->shape[1] != scores->shape[2])
    return qv_fail_operands(m, n, "float32 boxes (images, boxes, 4) and scores (images, classes, boxes)");
  int32_t most = qv_word(n, 0);
  if (most < 1 || most > boxes->shape[1]) return qv_fail(m, n, QV_E_FORMAT, "at most %d boxes, wanted 1 to %d", most, boxes->shape[1]);
  int64_t rows = (int64_t)scores->shape[0] * scores->shape[1] * most;
  if (rows > MOST_ROWS) return qv_fail(m, n, QV_E_FORMAT, "%lld boxes may be kept, wanted %d or fewer", (long long)rows, (int)MOST_ROWS);
  if (y->dtype != QV_I64 || y->rank != 2 || y->shape[1] != 3 || y->shape[0] != rows)
    return qv_fail_operands(m, n, "an int64 output of (%lld, 3)", (long long)rows);
  n->scratch_bytes = (int64_t)boxes->shape[1] * 4;
  return QV_OK;
}

/* Writes the boxes of one class of one image to `to` and returns their number. heap: the `count`
   candidates, in any order. */
static int64_t keep(const qv_node *n, const float *boxes, const float *scores, int32_t *heap, int64_t count, int64_t *to) {
  int64_t kept = 0;
  for (int64_t at = count / 2 - 1; at >= 0; at--) sink(heap, count, at, scores);
  while (count > 0 && kept < qv_word(n, 0)) {
    int32_t next = heap[0];
    heap[0] = heap[--count];
    sink(heap, count, 0, scores);
    box other = corners(boxes + 4 * (int64_t)next, qv_word(n, 1));
    int hidden = 0;
    for (int64_t k = 0; k < kept && !hidden; k++) {
      box better = corners(boxes + 4 * to[3 * k + 2], qv_word(n, 1));
      hidden = overlaps(&better, &other, qv_word_f32(n, 2));
    }
    if (!hidden) to[3 * kept++ + 2] = next;
  }
  return kept;
}

static qv_status non_max_suppression_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *scores = qv_in(s->model, n, 1), *y = qv_out(s->model, n, 0);
  int64_t classes = scores->shape[1], each = scores->shape[2], rows = 0;
  const float *boxes = qv_data(s, qv_in(s->model, n, 0)), *from = qv_data(s, scores);
  int32_t *heap = qv_scratch(s, n);
  int64_t *to = qv_data(s, y);
  for (int64_t of = 0; of < scores->shape[0] * classes; of++, from += each) {
    int64_t count = 0;
    for (int32_t i = 0; i < each; i++)
      if (qv_word(n, 3) ? from[i] > qv_word_f32(n, 4) : from[i] == from[i]) heap[count++] = i;
    int64_t kept = keep(n, boxes + of / classes * each * 4, from, heap, count, to + 3 * rows);
    for (int64_t k = rows; k < rows + kept; k++) {
      to[3 * k] = of / classes;
      to[3 * k + 1] = of % classes;
    }
    rows += kept;
  }
  for (int64_t i = 3 * rows; i < y->elements; i++) to[i] = -1;
  return QV_OK;
}

const qv_op qv_op_non_max_suppression = {"non_max_suppression", non_max_suppression_check, NULL, non_max_suppression_run};
