/* y[0,c,i,j] = the element at byte offset[c] + (i >> shift[c])*row[c] + (j >> shift[c])*column[c] of x, little-endian. */
#include "op.h"

typedef struct {
  int64_t offset, row, column;
  int shift;
} channel;

/* Reads the words of channel c. After the first word come the offsets of all channels, then all row strides, column
   strides and shifts. */
static channel channel_of(const qv_node *n, int c, int channels) {
  channel one = {qv_word(n, 1 + c), qv_word(n, 1 + channels + c), qv_word(n, 1 + 2 * channels + c), qv_word(n, 1 + 3 * channels + c)};
  return one;
}

static qv_status unpack_check(qv_model *m, qv_node *n) {
  qv_status status = qv_arity(m, n, 1, 1, -1);
  if (status != QV_OK) return status;
  const qv_tensor *x = qv_in(m, n, 0), *y = qv_out(m, n, 0);
  if (!x || x->dtype != QV_U8 || x->rank != 1 || y->rank != 4 || y->shape[0] != 1 || y->dtype > QV_S16 || y->dtype == QV_U16)
    return qv_fail_operands(m, n, "the bytes of a picture in, (1, C, H, W) of uint8, int8, int16 or float32 out");
  int channels = y->shape[1];
  int64_t size = (int64_t)qv_dtype_size(y->dtype);
  if (channels > 16 || n->n_words != 1 + 4 * channels)
    return qv_fail(m, n, QV_E_FORMAT, "%d words for %d channels, wanted %d for 16 at most", n->n_words, channels, 1 + 4 * channels);
  for (int c = 0; c < channels; c++) {
    channel one = channel_of(n, c, channels);
    if (one.offset < 0 || one.row < 0 || one.column < 0 || one.shift < 0 || one.shift > 1)
      return qv_fail(m, n, QV_E_FORMAT, "channel %d: offset %d, strides %d and %d, shift %d; wanted 0 or more, and shift 0 or 1", c,
                     (int)one.offset, (int)one.row, (int)one.column, one.shift);
    int64_t last = one.offset + ((y->shape[2] - 1) >> one.shift) * one.row + ((y->shape[3] - 1) >> one.shift) * one.column;
    if (y->elements && last + size > x->elements)
      return qv_fail(m, n, QV_E_FORMAT, "channel %d ends at byte %ld, wanted within %ld", c, (long)(last + size), (long)x->elements);
  }
  return QV_OK;
}

static uint32_t little_endian(const uint8_t *at, int64_t size) {
  uint32_t value = 0;
  for (int64_t k = 0; k < size; k++) value |= (uint32_t)at[k] << 8 * k;
  return value;
}

static void line(const uint8_t *from, const channel *one, int width, int64_t size, uint8_t *to) {
  for (int j = 0; j < width; j++, to += size) {
    uint32_t value = little_endian(from + (j >> one->shift) * one->column, size);
    uint16_t half = (uint16_t)value;
    if (size == 1) *to = (uint8_t)value;
    else if (size == 2) memcpy(to, &half, 2);
    else memcpy(to, &value, 4);
  }
}

static qv_status unpack_run(const qv_session *s, const qv_node *n) {
  const qv_tensor *y = qv_out(s->model, n, 0);
  const uint8_t *from = qv_data(s, qv_in(s->model, n, 0));
  uint8_t *to = qv_data(s, y);
  int64_t size = (int64_t)qv_dtype_size(y->dtype);
  for (int c = 0; c < y->shape[1]; c++) {
    channel one = channel_of(n, c, y->shape[1]);
    for (int i = 0; i < y->shape[2]; i++, to += y->shape[3] * size)
      line(from + one.offset + (i >> one.shift) * one.row, &one, y->shape[3], size, to);
  }
  return QV_OK;
}

const qv_op qv_op_unpack = {"unpack", unpack_check, NULL, unpack_run};
