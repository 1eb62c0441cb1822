/* Opens a model file for running. All memory is allocated here; nothing is allocated afterwards. */
#include "loaded.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "posix.h"

qv_status qv_load_path(qv_loaded *l, const char *path, int keep_all) {
  uint8_t *file = NULL;
  size_t bytes = 0;
  errno = 0;
  qv_status status = qv_map_file(path, &file, &bytes);
  if (status == QV_OK) return qv_load_bytes(l, file, bytes, QV_MAPPED, keep_all ? INT64_MAX : 0);
  memset(l, 0, sizeof *l);
  snprintf(l->model.error, sizeof l->model.error, "%.150s: cannot be read: %.80s", path,
           errno                   ? strerror(errno)
           : status == QV_E_MEMORY ? "larger than the memory left"
                                   : "not a regular file");
  return status;
}

static qv_status open_model(qv_loaded *l, uint8_t *file, size_t bytes, int mapped, int64_t keep_limit) {
  memset(l, 0, sizeof *l);
  l->file = file;
  l->file_bytes = bytes;
  l->mapped = mapped;
  size_t need = qv_model_workspace_bytes(l->file, l->file_bytes);
  l->workspace = qv_aligned_alloc(need);
  if (!l->workspace) {
    snprintf(l->model.error, sizeof l->model.error, "not enough memory for %lu bytes of tensors and nodes", (unsigned long)need);
    return QV_E_MEMORY;
  }
  qv_status status = qv_model_load(&l->model, l->file, l->file_bytes, l->workspace, need);
  if (status != QV_OK) return status;
  int keep_all = keep_limit > 0;
  int64_t arena = qv_arena_plan(&l->model, keep_all);
  if (keep_all && (arena < 0 || arena > keep_limit)) {
    keep_all = 0;
    arena = qv_arena_plan(&l->model, 0);
  }
  l->arena = arena > 0 && (uint64_t)arena < SIZE_MAX / 2 ? qv_aligned_alloc((size_t)arena) : NULL;
  if (!l->arena) {
    snprintf(l->model.error, sizeof l->model.error, "not enough memory for an arena of %ld bytes", (long)arena);
    return QV_E_MEMORY;
  }
  status = qv_session_open(&l->session, &l->model, l->arena, arena, keep_all);
  return status;
}

qv_status qv_load_bytes(qv_loaded *l, uint8_t *file, size_t bytes, int mapped, int64_t keep_limit) {
  qv_done_with = mapped == QV_MAPPED ? qv_release_file : NULL;
  qv_status status = open_model(l, file, bytes, mapped, keep_limit);
  qv_done_with = NULL;
  return status;
}

void qv_unload(qv_loaded *l) {
  free(l->arena);
  free(l->workspace);
  if (l->mapped == QV_MAPPED && l->file) qv_unmap_file(l->file, l->file_bytes);
  if (l->mapped == QV_OWNED) free(l->file);
  memset(l, 0, sizeof *l);
}
