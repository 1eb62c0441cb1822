/* Loads a model.bin. Every rule of FORMAT.md is checked once, here or by the op; after that the model is trusted. */
#include <math.h>
#include <string.h>

#include "check_graph.h"
#include "elements.h"
#include "qvrt.h"

enum { GRPH, STRS, TNSR, NODE, WORD, SCAL, DATA, META, SECTIONS };
static const char KIND[SECTIONS][5] = {"GRPH", "STRS", "TNSR", "NODE", "WORD", "SCAL", "DATA", "META"};
enum { HEADER = 64, ENTRY = 32, TENSOR_BYTES = 64, NODE_BYTES = 48, MAX_COUNT = 65536, MAX_DIM = 1 << 30 };

typedef struct {
  const uint8_t *at[SECTIONS];
  uint64_t size[SECTIONS];
  uint64_t ordered; /* bytes of DATA already converted to this machine's byte order */
} sections;

static uint32_t u32(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }
static uint64_t u64(const uint8_t *p) { return u32(p) | (uint64_t)u32(p + 4) << 32; }

void (*qv_done_with)(const void *data, size_t bytes) = NULL;

/* Returns the CRC-32C of the bytes. Says of each block when it has been read. */
static uint32_t crc_of(const uint8_t *at, uint64_t bytes) {
  const uint64_t block = 1 << 26;
  uint32_t crc = 0;
  for (uint64_t done = 0; done < bytes; done += block) {
    size_t next = (size_t)(bytes - done < block ? bytes - done : block);
    crc = qv_crc32c(crc, at + done, next);
    if (qv_done_with && next == block) qv_done_with(at + done, next);
  }
  return crc;
}

static qv_status open_sections(qv_model *m, const uint8_t *file, size_t bytes, sections *s) {
  static const uint8_t magic[8] = {'Q', 'V', 'M', 'O', 'D', 'E', 'L', 0};
  const size_t table = (size_t)ENTRY * SECTIONS, start = HEADER + table;
  if (bytes < start || memcmp(file, magic, 8) != 0)
    return qv_refuse(m, QV_E_FORMAT, "not a model.bin: %lu bytes, wanted %lu or more whose first are QVMODEL", (unsigned long)bytes,
                     (unsigned long)start);
  if (u32(file + 8) != 1)
    return qv_refuse(m, QV_E_UNSUPPORTED, "model.bin format version %u; this runtime reads 1", (unsigned)u32(file + 8));
  if (u64(file + 16) != bytes)
    return qv_refuse(m, QV_E_FORMAT, "model.bin has %lu bytes, its header says %llu: truncated or grown", (unsigned long)bytes,
                     (unsigned long long)u64(file + 16));
  if (u32(file + 24) != SECTIONS)
    return qv_refuse(m, QV_E_FORMAT, "model.bin has %u sections, wanted %d", (unsigned)u32(file + 24), SECTIONS);
  static const uint8_t zeros[4] = {0};
  uint32_t crc = qv_crc32c(0, file, 12);
  crc = qv_crc32c(crc, zeros, 4);
  crc = qv_crc32c(crc, file + 16, HEADER - 16 + table);
  if (crc != u32(file + 12)) return qv_refuse(m, QV_E_CRC, "model.bin header: CRC-32C differs; the file is damaged");
  uint64_t expected = start;
  for (int i = 0; i < SECTIONS; i++) {
    const uint8_t *e = file + HEADER + (size_t)ENTRY * (size_t)i;
    uint64_t offset = u64(e + 8), size = u64(e + 16);
    if (memcmp(e, KIND[i], 4) != 0)
      return qv_refuse(m, QV_E_FORMAT, "model.bin section table: entry %d is named %02x %02x %02x %02x, wanted %s", i, e[0], e[1], e[2],
                       e[3], KIND[i]);
    if (u64(e + 24) != 0)
      return qv_refuse(m, QV_E_FORMAT, "model.bin section %s: reserved field is %llu, wanted 0", KIND[i], (unsigned long long)u64(e + 24));
    if (offset != expected || size > bytes || offset > bytes - size)
      return qv_refuse(m, QV_E_FORMAT, "model.bin section %s: %llu bytes at %llu, wanted at %llu, in a file of %lu", KIND[i],
                       (unsigned long long)size, (unsigned long long)offset, (unsigned long long)expected, (unsigned long)bytes);
    uint64_t end = i == SECTIONS - 1 ? offset + size : (offset + size + 63) / 64 * 64;
    if (end > bytes || (i == SECTIONS - 1 && end != bytes))
      return qv_refuse(m, QV_E_FORMAT, "model.bin section %s: ends at %llu, wanted %s the end of the file, %lu", KIND[i],
                       (unsigned long long)end, i == SECTIONS - 1 ? "at" : "before", (unsigned long)bytes);
    for (uint64_t k = offset + size; k < end; k++)
      if (file[k])
        return qv_refuse(m, QV_E_FORMAT, "model.bin section %s: bytes after it are not zero: %d at %llu", KIND[i], file[k],
                         (unsigned long long)k);
    if (crc_of(file + offset, size) != u32(e + 4))
      return qv_refuse(m, QV_E_CRC, "model.bin section %s: CRC-32C differs; the file is damaged", KIND[i]);
    s->at[i] = file + offset;
    s->size[i] = size;
    expected = end;
  }
  return QV_OK;
}

/* Converts bytes of the file in place, which is allowed because qv_model_load takes a file that it may change. */
static void to_own_order(const uint8_t *at, int32_t dtype, uint64_t bytes) { qv_border_order((void *)(uintptr_t)at, dtype, (size_t)bytes); }

static uint64_t count_bytes(uint64_t tensors, uint64_t nodes) { return 64 + tensors * sizeof(qv_tensor) + nodes * sizeof(qv_node); }

size_t qv_model_workspace_bytes(const uint8_t *file, size_t file_bytes) {
  if (file_bytes < HEADER + ENTRY * SECTIONS + 64) return 0;
  uint64_t offset = u64(file + HEADER + 8);
  if (offset > file_bytes - 64) return 0;
  uint64_t tensors = u32(file + offset), nodes = u32(file + offset + 4);
  if (tensors > MAX_COUNT || nodes > MAX_COUNT) return 0;
  return (size_t)count_bytes(tensors, nodes);
}

static const int32_t *word_run(const sections *s, uint32_t at, uint32_t count) {
  uint64_t have = s->size[WORD] / 4;
  if ((uint64_t)at + count > have) return NULL;
  return (const int32_t *)(const void *)(s->at[WORD] + (size_t)at * 4);
}

static const char *string_at(const sections *s, uint32_t at) { return at < s->size[STRS] ? (const char *)s->at[STRS] + at : NULL; }

/* Loads and checks the dims, strides and sizes of a tensor. Each stride must be the product of the aligned dims after
   it and the element size. */
static qv_status load_shape(qv_model *m, const sections *s, const uint8_t *r, qv_tensor *t) {
  const int32_t *shape = word_run(s, u32(r + 16), (uint32_t)t->rank), *aligned = word_run(s, u32(r + 20), (uint32_t)t->rank),
                *stride = word_run(s, u32(r + 24), (uint32_t)t->rank);
  if (!shape || !aligned || !stride)
    return qv_refuse(m, QV_E_FORMAT, "tensor %.100s: its shape at %u, %u and %u lies outside the %lu of WORD", t->name,
                     (unsigned)u32(r + 16), (unsigned)u32(r + 20), (unsigned)u32(r + 24), (unsigned long)s->size[WORD] / 4);
  int64_t item = (int64_t)qv_dtype_size(t->dtype), dense = item, whole = item;
  for (int i = t->rank - 1; i >= 0; i--) {
    if (shape[i] < 1 || shape[i] > MAX_DIM || aligned[i] < shape[i] || aligned[i] > MAX_DIM || stride[i] != whole)
      return qv_refuse(m, QV_E_FORMAT, "tensor %.100s: dim %d is %d, aligned %d, stride %d; wanted 1 to %d, aligned no less, stride %ld",
                       t->name, i, shape[i], aligned[i], stride[i], (int)MAX_DIM, (long)whole);
    t->shape[i] = shape[i];
    t->aligned[i] = aligned[i];
    t->stride[i] = stride[i];
    dense *= shape[i];
    whole *= aligned[i];
    if (whole > INT32_MAX)
      return qv_refuse(m, QV_E_FORMAT, "tensor %.100s: %lld bytes from dim %d on, wanted at most %ld", t->name, (long long)whole, i,
                       (long)INT32_MAX);
  }
  t->elements = dense / item;
  t->dense_bytes = dense;
  t->aligned_bytes = whole;
  if ((int64_t)u32(r + 28) != whole)
    return qv_refuse(m, QV_E_FORMAT, "tensor %.100s: %u bytes, its aligned shape gives %ld", t->name, (unsigned)u32(r + 28), (long)whole);
  return QV_OK;
}

static qv_status load_quantization(qv_model *m, const sections *s, const uint8_t *r, qv_tensor *t) {
  uint32_t scales = u32(r + 32);
  t->channel_axis = (int32_t)u32(r + 44);
  t->n_scales = (int32_t)scales;
  if (scales > 1u << 20 || t->channel_axis < -1 || t->channel_axis >= (t->rank ? t->rank : 1) ||
      (scales > 1 && (t->channel_axis < 0 || t->n_scales != t->shape[t->channel_axis])))
    return qv_refuse(m, QV_E_FORMAT, "tensor %.100s: %u scales on axis %d of rank %d, wanted 0, 1 or as many as that dim", t->name,
                     (unsigned)scales, t->channel_axis, t->rank);
  if (scales) {
    t->zero_point = word_run(s, u32(r + 40), scales);
    if (!t->zero_point || (uint64_t)u32(r + 36) + scales > s->size[SCAL] / 4 || t->dtype == QV_F32 || t->dtype == QV_F64 ||
        t->dtype == QV_BOOL || t->dtype == QV_F16)
      return qv_refuse(m, QV_E_FORMAT,
                       "tensor %.100s: %u scales at %u of %lu, zero points at %u of %lu, dtype %d; wanted within, and integers", t->name,
                       (unsigned)scales, (unsigned)u32(r + 36), (unsigned long)s->size[SCAL] / 4, (unsigned)u32(r + 40),
                       (unsigned long)s->size[WORD] / 4, t->dtype);
    t->scale = (const float *)(const void *)(s->at[SCAL] + (size_t)u32(r + 36) * 4);
    for (int i = 0; i < t->n_scales; i++)
      if ((qv_is_8bit(t) || qv_is_16bit(t)) && (t->zero_point[i] < qv_qmin(t->dtype) || t->zero_point[i] > qv_qmax(t->dtype)))
        return qv_refuse(m, QV_E_FORMAT, "tensor %.100s: zero point %d is %d, wanted %d to %d", t->name, i, t->zero_point[i],
                         qv_qmin(t->dtype), qv_qmax(t->dtype));
  }
  return QV_OK;
}

/* Loads a constant, which must lie in DATA after the one before it, and converts its elements to this machine's byte
   order. */
static qv_status load_constant(qv_model *m, sections *s, const uint8_t *r, qv_tensor *t) {
  uint64_t offset = u64(r + 48);
  if (!(t->flags & QV_CONSTANT))
    return offset ? qv_refuse(m, QV_E_FORMAT, "tensor %.100s: not a constant, its data offset is %llu, wanted 0", t->name,
                              (unsigned long long)offset)
                  : QV_OK;
  if (offset % 64 || t->dense_bytes != t->aligned_bytes || offset > s->size[DATA] || (uint64_t)t->dense_bytes > s->size[DATA] - offset)
    return qv_refuse(m, QV_E_FORMAT,
                     "constant %.100s: %ld bytes, %ld aligned, at %llu; wanted one size, at a multiple of 64 within the %llu of DATA",
                     t->name, (long)t->dense_bytes, (long)t->aligned_bytes, (unsigned long long)offset, (unsigned long long)s->size[DATA]);
  if (offset < s->ordered)
    return qv_refuse(m, QV_E_FORMAT, "constant %.100s: at %llu of DATA, wanted %llu or more, behind the one before it", t->name,
                     (unsigned long long)offset, (unsigned long long)s->ordered);
  s->ordered = offset + (uint64_t)t->dense_bytes;
  t->constant = s->at[DATA] + offset;
  to_own_order(t->constant, t->dtype, (uint64_t)t->dense_bytes);
  const uint8_t *truth = t->constant;
  for (int64_t i = 0; t->dtype == QV_BOOL && i < t->elements; i++)
    if (truth[i] > 1)
      return qv_refuse(m, QV_E_FORMAT, "constant %.100s: element %ld of bool is %d, wanted 0 or 1", t->name, (long)i, truth[i]);
  return QV_OK;
}

static qv_status load_tensor(qv_model *m, sections *s, int index) {
  const uint8_t *r = s->at[TNSR] + (size_t)TENSOR_BYTES * (size_t)index;
  qv_tensor *t = &m->tensors[index];
  memset(t, 0, sizeof *t);
  t->name = string_at(s, u32(r));
  t->dtype = (int32_t)u32(r + 4);
  t->flags = u32(r + 8);
  uint32_t rank = u32(r + 12);
  if (!t->name || !t->name[0]) return qv_refuse(m, QV_E_FORMAT, "tensor %d: its name is empty, or lies outside STRS", index);
  if (t->dtype < QV_F32 || t->dtype > QV_F16 || t->flags > 31 || rank > QV_MAX_RANK || u32(r + 56) > 4 || u32(r + 60))
    return qv_refuse(m, QV_E_FORMAT,
                     "tensor %.100s: dtype %d, flags %u, rank %u, layout %u, reserved %u; wanted 1 to %d, at most 31, %d, 4, 0", t->name,
                     t->dtype, (unsigned)t->flags, (unsigned)rank, (unsigned)u32(r + 56), (unsigned)u32(r + 60), QV_F16, QV_MAX_RANK);
  t->rank = (int32_t)rank;
  t->layout = (int32_t)u32(r + 56);
  t->arena_offset = -1;
  qv_status status = load_shape(m, s, r, t);
  if (status == QV_OK) status = load_quantization(m, s, r, t);
  return status == QV_OK ? load_constant(m, s, r, t) : status;
}

static qv_status load_node(qv_model *m, const sections *s, int index) {
  const uint8_t *r = s->at[NODE] + (size_t)NODE_BYTES * (size_t)index;
  qv_node *n = &m->nodes[index];
  memset(n, 0, sizeof *n);
  n->name = string_at(s, u32(r));
  n->op_name = string_at(s, u32(r + 4));
  uint32_t counts[4] = {u32(r + 8), u32(r + 16), u32(r + 24), u32(r + 32)};
  if (!n->name || !n->op_name) return qv_refuse(m, QV_E_FORMAT, "node %d: its name or its op lies outside STRS", index);
  if (counts[0] > 64 || counts[1] < 1 || counts[1] > 64 || counts[2] > 64 || counts[3] > 4096 || u32(r + 40) > 1 || u32(r + 44))
    return qv_refuse(
        m, QV_E_FORMAT,
        "node %.80s: %u inputs, %u outputs, %u words, %u covers, flags %u, reserved %u; wanted at most 64, 1 to 64, 64, 4096, 1, 0",
        n->name, (unsigned)counts[0], (unsigned)counts[1], (unsigned)counts[2], (unsigned)counts[3], (unsigned)u32(r + 40),
        (unsigned)u32(r + 44));
  n->inputs = word_run(s, u32(r + 12), counts[0]);
  n->outputs = word_run(s, u32(r + 20), counts[1]);
  n->words = word_run(s, u32(r + 28), counts[2]);
  n->covers = word_run(s, u32(r + 36), counts[3]);
  if (!n->inputs || !n->outputs || !n->words || !n->covers)
    return qv_refuse(m, QV_E_FORMAT, "node %.100s: its lists at %u, %u, %u and %u, wanted within the %lu of WORD", n->name,
                     (unsigned)u32(r + 12), (unsigned)u32(r + 20), (unsigned)u32(r + 28), (unsigned)u32(r + 36),
                     (unsigned long)s->size[WORD] / 4);
  n->n_inputs = (int32_t)counts[0];
  n->n_outputs = (int32_t)counts[1];
  n->n_words = (int32_t)counts[2];
  n->n_covers = (int32_t)counts[3];
  n->flags = u32(r + 40);
  for (int i = 0; i < n->n_covers; i++)
    if (n->covers[i] < 0 || !string_at(s, (uint32_t)n->covers[i]))
      return qv_refuse(m, QV_E_FORMAT, "node %.100s: cover %d at %d, wanted within the %lu bytes of STRS", n->name, i, n->covers[i],
                       (unsigned long)s->size[STRS]);
  for (const qv_op *const *op = qv_op_table; *op; op++)
    if (strcmp((*op)->stem, n->op_name) == 0) n->op = *op;
  if (!n->op) return qv_refuse(m, QV_E_UNSUPPORTED, "node %.100s: unknown op %.40s; it needs a newer runtime", n->name, n->op_name);
  return QV_OK;
}

qv_status qv_model_load(qv_model *m, uint8_t *file, size_t file_bytes, void *workspace, size_t workspace_bytes) {
  memset(m, 0, sizeof *m);
  m->file = file;
  m->file_bytes = file_bytes;
  sections s = {.ordered = 0};
  qv_status status = open_sections(m, file, file_bytes, &s);
  if (status != QV_OK) return status;
  const uint8_t *g = s.at[GRPH];
  if (s.size[GRPH] != 64 || s.size[WORD] % 4 || s.size[SCAL] % 4 || s.size[STRS] < 1 || s.at[STRS][0] || s.at[STRS][s.size[STRS] - 1])
    return qv_refuse(
        m, QV_E_FORMAT,
        "model.bin: GRPH of %lu bytes, WORD of %lu, SCAL of %lu, STRS of %lu; wanted 64, two multiples of 4, a zero at both ends of STRS",
        (unsigned long)s.size[GRPH], (unsigned long)s.size[WORD], (unsigned long)s.size[SCAL], (unsigned long)s.size[STRS]);
  uint32_t tensors = u32(g), nodes = u32(g + 4), inputs = u32(g + 8), outputs = u32(g + 16);
  if (tensors > MAX_COUNT || nodes > MAX_COUNT || inputs > MAX_COUNT || outputs > MAX_COUNT ||
      s.size[TNSR] != (uint64_t)tensors * TENSOR_BYTES || s.size[NODE] != (uint64_t)nodes * NODE_BYTES)
    return qv_refuse(
        m, QV_E_FORMAT,
        "model.bin: GRPH counts %u tensors, %u nodes, %u inputs, %u outputs; wanted at most %d each, %d bytes a tensor in TNSR's %llu, %d a node in NODE's %llu",
        (unsigned)tensors, (unsigned)nodes, (unsigned)inputs, (unsigned)outputs, (int)MAX_COUNT, (int)TENSOR_BYTES,
        (unsigned long long)s.size[TNSR], (int)NODE_BYTES, (unsigned long long)s.size[NODE]);
  if (u32(g + 24) > QV_MUL31)
    return qv_refuse(m, QV_E_UNSUPPORTED, "model.bin: unknown rounding id %u, wanted 0 to %d", (unsigned)u32(g + 24), QV_MUL31);
  if (workspace_bytes < count_bytes(tensors, nodes))
    return qv_refuse(m, QV_E_MEMORY, "model.bin: %lu bytes of workspace, wanted %llu", (unsigned long)workspace_bytes,
                     (unsigned long long)count_bytes(tensors, nodes));
  to_own_order(s.at[WORD], QV_I32, s.size[WORD]);
  to_own_order(s.at[SCAL], QV_F32, s.size[SCAL]);
  m->rounding = (qv_rounding)u32(g + 24);
  m->n_tensors = (int32_t)tensors;
  m->n_nodes = (int32_t)nodes;
  m->n_inputs = (int32_t)inputs;
  m->n_outputs = (int32_t)outputs;
  m->inputs = word_run(&s, u32(g + 12), inputs);
  m->outputs = word_run(&s, u32(g + 20), outputs);
  m->strings = (const char *)s.at[STRS];
  m->strings_bytes = (size_t)s.size[STRS];
  m->tensors = workspace;
  m->nodes = (qv_node *)(void *)((uint8_t *)workspace + (tensors * sizeof(qv_tensor) + 63) / 64 * 64);
  if (!m->inputs || !m->outputs)
    return qv_refuse(m, QV_E_FORMAT, "model.bin: %u graph inputs at %u, %u outputs at %u, wanted within the %lu of WORD", (unsigned)inputs,
                     (unsigned)u32(g + 12), (unsigned)outputs, (unsigned)u32(g + 20), (unsigned long)s.size[WORD] / 4);
  const float *scale = (const float *)(const void *)s.at[SCAL];
  for (uint64_t i = 0; i < s.size[SCAL] / 4; i++)
    if (!(scale[i] > 0) || scale[i] > 3.4028234e38f)
      return qv_refuse(m, QV_E_FORMAT, "model.bin section SCAL: scale %llu is %g, not finite and positive", (unsigned long long)i,
                       (double)scale[i]);
  for (int i = 0; i < m->n_tensors && status == QV_OK; i++) status = load_tensor(m, &s, i);
  for (int i = 0; i < m->n_nodes && status == QV_OK; i++) status = load_node(m, &s, i);
  if (status == QV_OK) status = qv_check_graph(m);
  for (int i = 0; i < m->n_nodes && status == QV_OK; i++) status = m->nodes[i].op->check(m, &m->nodes[i]);
  return status;
}

int qv_find_tensor(const qv_model *m, const char *name) {
  for (int i = 0; i < m->n_tensors; i++)
    if (strcmp(m->tensors[i].name, name) == 0) return i;
  return -1;
}

int qv_find_node(const qv_model *m, const char *name) {
  for (int i = 0; i < m->n_nodes; i++)
    if (strcmp(m->nodes[i].name, name) == 0) return i;
  return -1;
}
