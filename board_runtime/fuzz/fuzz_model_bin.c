/* Fuzzes the model.bin loader and, where it accepts a small model, both kinds of kernels, which must agree.
   Checksums and sizes are put right first, so that damage reaches the checks behind them. */
#include <stdlib.h>
#include <string.h>

#include "../src/posix.h"
#include "qvrt.h"

enum { HEADER = 64, ENTRY = 32, SECTIONS = 8, ARENA_LIMIT = 1 << 18 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void store32(uint8_t *p, uint32_t v) {
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> 8 * i);
}
static uint64_t load64(const uint8_t *p) {
  uint64_t v = 0;
  for (int i = 7; i >= 0; i--) v = v << 8 | p[i];
  return v;
}

static void put_right(uint8_t *file, size_t size) {
  const size_t start = HEADER + (size_t)ENTRY * SECTIONS;
  if (size < start) return;
  for (int i = 0; i < 8; i++) file[16 + i] = (uint8_t)((uint64_t)size >> 8 * i);
  for (int i = 0; i < SECTIONS; i++) {
    uint8_t *e = file + HEADER + ENTRY * i;
    uint64_t at = load64(e + 8), bytes = load64(e + 16);
    if (at <= size && bytes <= size - at) store32(e + 4, qv_crc32c(0, file + at, (size_t)bytes));
  }
  store32(file + 12, 0);
  store32(file + 12, qv_crc32c(0, file, start));
}

/* Runs from the same inputs; the digest of every tensor's bytes. */
static uint64_t run(qv_model *m, uint8_t *arena, int64_t bytes, int plain_only, uint8_t seed) {
  qv_session s;
  uint64_t digest = 0;
  if (qv_session_open(&s, m, arena, bytes, 1) != QV_OK) return 0;
  s.plain_only = plain_only;
  for (int i = 0; i < m->n_inputs; i++) {
    const qv_tensor *t = &m->tensors[m->inputs[i]];
    uint8_t *at = arena + t->arena_offset;
    for (int64_t k = 0; k < t->dense_bytes; k++) at[k] = (uint8_t)(t->dtype == QV_BOOL ? k & 1 : seed + k * 37);
  }
  if (qv_run(&s, NULL) != QV_OK) return 1;
  for (int i = 0; i < m->n_tensors; i++) {
    const qv_tensor *t = &m->tensors[i];
    if (!t->constant) digest = qv_xxh64(qv_data(&s, t), (size_t)t->dense_bytes, digest);
  }
  return digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t *file = qv_aligned_alloc(size ? size : 1);
  memcpy(file, data, size);
  if (size && data[size - 1] != 0xee) put_right(file, size);
  size_t need = qv_model_workspace_bytes(file, size);
  void *workspace = qv_aligned_alloc(need ? need : 1);
  qv_model model;
  memset(&model, 0, sizeof model);
  if (need && qv_model_load(&model, file, size, workspace, need) == QV_OK) {
    int64_t bytes = qv_arena_plan(&model, 1);
    uint8_t *arena = bytes > 0 && bytes <= ARENA_LIMIT ? qv_aligned_alloc((size_t)bytes) : NULL;
    if (arena && run(&model, arena, bytes, 0, data[0]) != run(&model, arena, bytes, 1, data[0])) abort();
    free(arena);
  }
  free(workspace);
  free(file);
  return 0;
}
