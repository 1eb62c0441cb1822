/* A model file opened for running: all memory is taken here, none afterwards. */
#include "loaded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "posix.h"

qv_status qv_load_path(qv_loaded *l, const char *path, int keep_all) {
  memset(l, 0, sizeof *l);
  qv_status status = qv_read_file(path, &l->file, &l->file_bytes);
  if (status != QV_OK) {
    snprintf(l->model.error, sizeof l->model.error, "%.180s: cannot be read", path);
    return status;
  }
  size_t need = qv_model_workspace_bytes(l->file, l->file_bytes);
  l->workspace = qv_aligned_alloc(need);
  if (!l->workspace) return QV_E_MEMORY;
  status = qv_model_load(&l->model, l->file, l->file_bytes, l->workspace, need);
  if (status != QV_OK) return status;
  int64_t arena = qv_arena_plan(&l->model, keep_all);
  l->arena = arena > 0 && (uint64_t)arena < SIZE_MAX / 2 ? qv_aligned_alloc((size_t)arena) : NULL;
  if (!l->arena) {
    snprintf(l->model.error, sizeof l->model.error, "not enough memory for an arena of %ld bytes", (long)arena);
    return QV_E_MEMORY;
  }
  return qv_session_open(&l->session, &l->model, l->arena, arena, keep_all);
}

void qv_unload(qv_loaded *l) {
  free(l->arena);
  free(l->workspace);
  free(l->file);
  memset(l, 0, sizeof *l);
}
