/* y = fl32(beta*c + sum a*b), the exact sum rounded once; if alpha is not 1, fl32(alpha*fl32(sum a*b) + beta*c).
   Leading dims are broadcast. */
#include "../arithmetic/float_sums.h"
#include "op.h"

/* Sizes and strides of the matrices of an operand. An operand of rank 1 is a row (a) or a column (b). */
typedef struct {
  int lead; /* number of leading dims */
  int64_t rows, columns, row_stride, column_stride;
} matrix;

static matrix matrix_of(const qv_tensor *t, int transposed, int is_column) {
  int r = t->rank;
  int64_t last = r ? t->shape[r - 1] : 1;
  matrix m = {r > 2 ? r - 2 : 0, r > 1 ? t->shape[r - 2] : 1, last, last, 1};
  if (transposed || (r == 1 && is_column)) {
    matrix turned = {m.lead, m.columns, m.rows, m.column_stride, m.row_stride};
    return turned;
  }
  return m;
}

/* Returns the operand's size of dim k of the output's n leading dims, to which its own are right-aligned; 1 if it has
   no such dim. */
static int32_t lead_dim(const qv_tensor *t, int lead, int n, int k) { return k < n - lead ? 1 : t->shape[k - (n - lead)]; }

static qv_status matmul_float_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 3, 1, 4);
  if (status != QV_OK) return status;
  const qv_tensor *a = qv_in(m, n, 0), *b = qv_in(m, n, 1), *c = qv_in(m, n, 2), *y = qv_out(m, n, 0);
  if (!a || !b || a->rank < 1 || b->rank < 1 || a->dtype != QV_F32 || b->dtype != QV_F32 || y->dtype != QV_F32 ||
      (c && (c->dtype != QV_F32 || c->rank > 2)))
    return qv_fail_operands(m, n, "float32 in and out, a and b of rank 1 or more, c of rank 2 or less");
  for (int i = 0; i < 2; i++)
    if (qv_word(n, i) != 0 && qv_word(n, i) != 1) return qv_fail(m, n, QV_E_FORMAT, "word %d is %d, wanted 0 or 1", i, qv_word(n, i));
  for (int i = 2; i < 4; i++)
    if (qv_word_f32(n, i) - qv_word_f32(n, i) != 0) return qv_fail(m, n, QV_E_FORMAT, "word %d is not a finite number", i);
  matrix left = matrix_of(a, qv_word(n, 0), 0), right = matrix_of(b, qv_word(n, 1), 1);
  int lead = left.lead > right.lead ? left.lead : right.lead, rows_kept = a->rank > 1, columns_kept = b->rank > 1;
  if (left.columns != right.rows || y->rank != lead + rows_kept + columns_kept || (rows_kept && y->shape[lead] != left.rows) ||
      (columns_kept && y->shape[lead + rows_kept] != right.columns) || (qv_word(n, 0) && a->rank < 2) || (qv_word(n, 1) && b->rank < 2))
    return qv_fail_operands(m, n, "(..., M, K) and (..., K, N) in, (..., M, N) out");
  for (int k = 0; k < lead; k++) {
    int32_t da = lead_dim(a, left.lead, lead, k), db = lead_dim(b, right.lead, lead, k);
    if ((da != 1 && db != 1 && da != db) || y->shape[k] != (da > db ? da : db))
      return qv_fail(m, n, QV_E_FORMAT, "dim %d is %d, wanted what %d and %d broadcast to", k, y->shape[k], da, db);
  }
  if (c) {
    matrix more = matrix_of(c, 0, 0);
    if ((more.rows != 1 && more.rows != left.rows) || (more.columns != 1 && more.columns != right.columns))
      return qv_fail_operands(m, n, "a c that broadcasts to (%ld, %ld)", (long)left.rows, (long)right.columns);
  }
  n->scratch_bytes = a->elements / left.columns * 8 + left.columns * QV_FLOAT_TILE * 4;
  return QV_OK;
}

/* Packs `count` columns of b from `first` on: QV_FLOAT_TILE floats for each step of the depth. */
static void gather(const qv_float_matrix *m, const float *b, const matrix *right, int64_t first, int64_t count, float *to) {
  if (right->column_stride == 1)
    for (int64_t k = 0; k < m->depth; k++) memcpy(to + k * QV_FLOAT_TILE, b + k * right->row_stride + first, (size_t)count * 4);
  else
    for (int64_t j = 0; j < count; j++) {
      const float *from = b + (first + j) * right->column_stride;
      for (int64_t k = 0; k < m->depth; k++) to[k * QV_FLOAT_TILE + j] = from[k * right->row_stride];
    }
}

/* Computes one matrix product of the batch. */
static void multiply(const qv_session *s, const qv_node *n, qv_float_matrix m, const float *b, const matrix *right) {
  double *norms = qv_scratch(s, n);
  float *tile = (float *)(void *)(norms + m.rows), *to = m.y;
  const float *c = m.c;
  qv_row_norms(&m, norms);
  m.norms = norms;
  m.b = tile, m.b_step = QV_FLOAT_TILE, m.b_column = 1;
  for (int64_t first = 0; first < right->columns; first += QV_FLOAT_TILE) {
    m.columns = right->columns - first < QV_FLOAT_TILE ? right->columns - first : QV_FLOAT_TILE;
    if (m.columns < QV_FLOAT_TILE) memset(tile, 0, (size_t)m.depth * QV_FLOAT_TILE * 4);
    gather(&m, b, right, first, m.columns, tile);
    m.y = to + first;
    m.c = c ? c + first * m.c_column : NULL;
    qv_multiply_floats(&m);
  }
}

static qv_status matmul_float_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *a = qv_in(s->model, n, 0), *b = qv_in(s->model, n, 1), *c = qv_in(s->model, n, 2), *y = qv_out(s->model, n, 0);
  matrix left = matrix_of(a, qv_word(n, 0), 0), right = matrix_of(b, qv_word(n, 1), 1);
  qv_float_matrix m = {.a_row = left.row_stride, .a_step = left.column_stride, .rows = left.rows, .depth = left.columns};
  m.y_row = right.columns, m.y_column = 1;
  m.kernel = s->plain_only ? NULL : qv_float_kernel_of_cpu(0);
  m.alpha = qv_word_f32(n, 2), m.beta = qv_word_f32(n, 3);
  m.c = c ? qv_data(s, c) : NULL;
  if (c) {
    matrix more = matrix_of(c, 0, 0);
    m.c_row = more.rows > 1 ? more.columns : 0;
    m.c_column = more.columns > 1 ? 1 : 0;
  }
  const float *from_a = qv_data(s, a), *from_b = qv_data(s, b);
  float *to = qv_data(s, y);
  if (right.lead == 0 && !qv_word(n, 0) && m.c_row == 0) { /* all rows of a are multiplied with the same matrix */
    left.rows = m.rows = a->elements / left.columns;
    left.lead = 0;
  }
  int lead = left.lead > right.lead ? left.lead : right.lead;
  int64_t index[QV_MAX_RANK] = {0}, size_a = left.rows * left.columns, size_b = right.rows * right.columns,
          size_y = left.rows * right.columns;
  for (int64_t batch = 0; batch < y->elements / size_y; batch++) {
    int64_t at_a = 0, at_b = 0, step_a = size_a, step_b = size_b;
    for (int k = lead - 1; k >= 0; k--) {
      int32_t da = lead_dim(a, left.lead, lead, k), db = lead_dim(b, right.lead, lead, k);
      at_a += da == 1 ? 0 : index[k] * step_a;
      at_b += db == 1 ? 0 : index[k] * step_b;
      step_a *= da;
      step_b *= db;
    }
    m.a = from_a + at_a;
    m.y = to + batch * size_y;
    multiply(s, n, m, from_b + at_b, &right);
    for (int k = lead - 1; k >= 0; k--) {
      if (++index[k] < y->shape[k]) break;
      index[k] = 0;
    }
  }
  return QV_OK;
}

const qv_op qv_op_matmul_float = {"matmul_float", matmul_float_check, NULL, matmul_float_run};
