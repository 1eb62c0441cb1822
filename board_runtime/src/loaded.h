/* A model file opened for running: bytes, workspace, arena. */
#ifndef QV_LOADED_H
#define QV_LOADED_H
#include "qvrt.h"

typedef struct {
  uint8_t *file;
  size_t file_bytes;
  void *workspace;
  uint8_t *arena;
  qv_model model;
  qv_session session;
} qv_loaded;

/* Opens and prepares; model.error holds the line to print. Everything allocated is freed by qv_unload. */
qv_status qv_load_path(qv_loaded *l, const char *path, int keep_all);
/* The same from bytes of qv_aligned_alloc, which it owns from now on. Every tensor keeps its own place when the arena for
   that has at most keep_limit bytes (session.keep_all tells). */
qv_status qv_load_bytes(qv_loaded *l, uint8_t *file, size_t bytes, int64_t keep_limit);
void qv_unload(qv_loaded *l);
#endif
