/* The public interface of the library: a loaded model, its tensors and nodes, and the interface that every op
   implements. */
#ifndef QVRT_H
#define QVRT_H
#include <stddef.h>
#include <stdint.h>

#define QV_MAX_RANK 8
#define QV_NO_TENSOR (-1)

typedef enum {
  QV_OK = 0,
  QV_E_IO = -1,
  QV_E_FORMAT = -2,
  QV_E_CRC = -3,
  QV_E_UNSUPPORTED = -4,
  QV_E_MEMORY = -5,
  QV_E_INPUT = -6,
  QV_E_CANCELLED = -7,
  QV_E_PROTOCOL = -8,
  QV_E_NOT_FOUND = -9,
  QV_E_INTERNAL = -10,
  QV_E_BUSY = -11,
  QV_E_FULL = -12
} qv_status;
const char *qv_status_phrase(qv_status s);

typedef enum { QV_F32 = 1, QV_U8, QV_S8, QV_U16, QV_S16, QV_I32, QV_I64, QV_F64, QV_BOOL, QV_F16 } qv_dtype;
enum { QV_CONSTANT = 1, QV_INPUT = 2, QV_OUTPUT = 4, QV_INTERIOR = 8, QV_NO_INTEGER_REFERENCE = 16 };
typedef enum {
  QV_REF_EXACT = 0,
  QV_TFLITE_SINGLE,
  QV_GEMMLOWP,
  QV_CMSIS,
  QV_POW2_HALF_UP,
  QV_POW2_HALF_AWAY,
  QV_POW2_FLOOR,
  QV_MUL8,
  QV_MUL15,
  QV_MUL16,
  QV_MUL24,
  QV_MUL31
} qv_rounding;

typedef struct {
  const char *name;
  int32_t dtype, rank;
  uint32_t flags;
  int32_t shape[QV_MAX_RANK], aligned[QV_MAX_RANK];
  int64_t stride[QV_MAX_RANK];        /* in bytes, of the aligned layout of inputs and outputs */
  int32_t layout;                     /* 0 unspecified, 1 NCHW, 2 NHWC, 3 NCW, 4 NC */
  int64_t elements;                   /* valid elements */
  int64_t dense_bytes, aligned_bytes; /* size for kernels; size as an input, output or dump file */
  int32_t n_scales, channel_axis;     /* n_scales 0: not quantized */
  const float *scale;
  const int32_t *zero_point;
  const void *constant;        /* dense data; NULL if the tensor is no constant */
  int64_t arena_offset;        /* offset of the dense buffer; -1 for constants */
  int32_t first_use, last_use; /* indices of the nodes between which the tensor keeps its memory */
  int next_placed;             /* used while the arena is planned: index of the next tensor in it, or -1 */
} qv_tensor;

typedef struct qv_op qv_op;
typedef struct {
  const char *name, *op_name;
  const qv_op *op;
  int32_t n_inputs, n_outputs, n_words, n_covers;
  const int32_t *inputs, *outputs, *words, *covers;
  uint32_t flags;
  int64_t scratch_bytes, prepared_bytes; /* requested by the op's check, allocated in the arena */
  int64_t scratch_offset, prepared_offset;
} qv_node;

typedef struct {
  const uint8_t *file;
  size_t file_bytes;
  int32_t n_tensors, n_nodes, n_inputs, n_outputs;
  qv_tensor *tensors;
  qv_node *nodes;
  const int32_t *inputs, *outputs;
  const char *strings;
  size_t strings_bytes;
  qv_rounding rounding;
  char error[256]; /* one line: what is wrong and where, the value found and the value expected */
} qv_model;

/* A model with its memory. keep_all: 1 if every tensor has memory of its own, so that its value remains until the next
   run. */
typedef struct {
  qv_model *model;
  uint8_t *arena;
  int64_t arena_bytes;
  int keep_all;
  int plain_only; /* 1: uses the plain kernels only (the tests compare the fast kernels with them) */
} qv_session;

/* An op. At load, check verifies all shapes, dtypes and words, and sets scratch_bytes and prepared_bytes; run relies on
   that. */
struct qv_op {
  const char *stem;
  qv_status (*check)(qv_model *m, qv_node *n);
  qv_status (*prepare)(const qv_session *s, const qv_node *n); /* called once after load; may be NULL */
  qv_status (*run)(const qv_session *s, const qv_node *n);
};
extern const qv_op *const qv_op_table[]; /* the last entry is NULL */

/* qv_run_op runs the node's op (ops/table.c); in qvrt-faulty it then applies the node's faults (faults/table.c).
   qv_run_kernel (ops/op.c) runs the op alone. It sets every NaN that the op computed to the bits 0x7FC00000, because
   the bits of a computed NaN differ between architectures; ops that only move elements keep the bits. */
qv_status qv_run_op(const qv_session *s, const qv_node *n);
qv_status qv_run_kernel(const qv_session *s, const qv_node *n);

/* Functions for the files of the ops. qv_in returns NULL if the input is absent. */
static inline const qv_tensor *qv_in(const qv_model *m, const qv_node *n, int i) {
  return (i < n->n_inputs && n->inputs[i] >= 0) ? &m->tensors[n->inputs[i]] : NULL;
}
static inline const qv_tensor *qv_out(const qv_model *m, const qv_node *n, int i) { return &m->tensors[n->outputs[i]]; }
static inline void *qv_data(const qv_session *s, const qv_tensor *t) {
  return t->constant ? (void *)(uintptr_t)t->constant : (void *)(s->arena + t->arena_offset);
}
static inline void *qv_scratch(const qv_session *s, const qv_node *n) { return s->arena + n->scratch_offset; }
static inline void *qv_prepared(const qv_session *s, const qv_node *n) { return s->arena + n->prepared_offset; }
/* Writes a message, formatted as by printf, to m->error and returns status. */
qv_status qv_refuse(qv_model *m, qv_status status, const char *format, ...);
/* As qv_refuse, with "NODE (op): " before the message. */
qv_status qv_fail(qv_model *m, const qv_node *n, qv_status status, const char *format, ...);
/* As qv_fail with QV_E_FORMAT; the message is "wanted TEXT; got" and the dtype and shape of every input and output. */
qv_status qv_fail_operands(qv_model *m, const qv_node *n, const char *format, ...);

/* model_bin.c: parses and checks `file`, which must be 64-byte aligned and must outlive the model. Its words, scales
   and constants are converted to the machine's byte order in place. The tensors and nodes are stored in workspace. */
size_t qv_model_workspace_bytes(const uint8_t *file, size_t file_bytes); /* 0 if the header is not valid */
qv_status qv_model_load(qv_model *m, uint8_t *file, size_t file_bytes, void *workspace, size_t workspace_bytes);

/* byte_order.c: values have the machine's own byte order inside the runtime and are little-endian where they enter or
   leave it. qv_border_order converts in either direction: on big-endian machines it reverses the bytes of each element,
   on others it does nothing. */
int qv_little_endian(void);
void qv_border_order(void *data, int32_t dtype, size_t bytes);

/* arena.c: plans all memory and sets arena_offset, scratch_offset and prepared_offset. Returns the size of the arena in
   bytes, or a negative status. */
int64_t qv_arena_plan(qv_model *m, int keep_all);

/* run.c */
typedef struct {
  /* Called after each node; may be NULL. Return nonzero to cancel. */
  int (*on_node)(void *user, const qv_session *s, int node_index, uint64_t elapsed_ns);
  void *user;
  uint64_t (*now_ns)(void); /* returns a time in nanoseconds; if NULL, elapsed_ns is 0 */
} qv_run_hooks;
/* Plans the arena, clears it and calls the prepare function of every op. Returns QV_E_MEMORY if arena_bytes is too small. */
qv_status qv_session_open(qv_session *s, qv_model *m, void *arena, int64_t arena_bytes, int keep_all);
/* Copies little-endian bytes in the aligned layout to the tensor's dense buffer. Returns QV_E_INPUT if the size is
   wrong or the tensor is a constant. */
qv_status qv_set_input(qv_session *s, int tensor, const uint8_t *aligned, int64_t bytes);
qv_status qv_run(qv_session *s, const qv_run_hooks *hooks); /* runs every node */
/* Runs one node only; the caller has set its inputs that are not constants with qv_set_dense. */
qv_status qv_run_node(qv_session *s, int node_index, const qv_run_hooks *hooks);
qv_status qv_set_dense(qv_session *s, int tensor, const uint8_t *dense, int64_t bytes);
/* Copies a tensor's bytes, little-endian, to `out`: dense_bytes of them, or in the aligned layout (with zeros as
   padding) aligned_bytes. */
void qv_read_tensor(const qv_session *s, int tensor, int aligned, uint8_t *out);
/* Returns the XXH64 of the tensor's valid elements in little-endian order. */
uint64_t qv_tensor_digest(const qv_session *s, int tensor);
int qv_find_tensor(const qv_model *m, const char *name); /* returns the index, or -1 */
int qv_find_node(const qv_model *m, const char *name);

/* digest/: XXH64 of a whole byte range, SHA-256 of a stream, CRC-32C. */
uint64_t qv_xxh64(const void *data, size_t bytes, uint64_t seed);
typedef struct {
  uint32_t h[8];
  uint64_t bytes;
  uint8_t block[64];
  uint32_t fill;
} qv_sha256;
void qv_sha256_init(qv_sha256 *c);
void qv_sha256_add(qv_sha256 *c, const void *data, size_t bytes);
void qv_sha256_end(qv_sha256 *c, uint8_t out[32]);
/* Returns whether the bytes have this SHA-256. */
int qv_sha256_is(const uint8_t hash[32], const void *data, size_t bytes);
/* Called with a large part of a model file that was read and may not be needed again soon; NULL for no such call. */
extern void (*qv_done_with)(const void *data, size_t bytes);
uint32_t qv_crc32c(uint32_t crc, const void *data, size_t bytes); /* crc: 0, or the CRC of the bytes before */
#endif
