/* A model file that is opened for running: its bytes, workspace and arena. */
#ifndef QV_LOADED_H
#define QV_LOADED_H
#include "qvrt.h"

typedef struct {
  uint8_t *file;
  size_t file_bytes;
  int mapped; /* QV_OWNED, QV_MAPPED or QV_LENT (posix.h) */
  void *workspace;
  uint8_t *arena;
  qv_model model;
  qv_session session;
} qv_loaded;

/* Opens and prepares a model; on failure the message is in model.error. The caller frees everything with qv_unload,
   also after a failure. */
qv_status qv_load_path(qv_loaded *l, const char *path, int keep_all);
/* As qv_load_path, from bytes that lie in memory as `mapped` says, and belong to *l unless they are lent. Every tensor gets memory of its
   own if the arena then has at most keep_limit bytes; session.keep_all is 1 in that case. */
qv_status qv_load_bytes(qv_loaded *l, uint8_t *file, size_t bytes, int mapped, int64_t keep_limit);
void qv_unload(qv_loaded *l);
#endif
