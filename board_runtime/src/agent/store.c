/* Contents by SHA-256 in one directory; partial ones are kept under NAME.part and can be resumed. */
#define _POSIX_C_SOURCE 200809L
#include "store.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void qv_store_path(const qv_store *s, const uint8_t hash[32], int part, char out[1024]) {
  int used = snprintf(out, 900, "%.800s/", s->folder);
  size_t at = used > 0 ? (size_t)used : 0;
  for (int i = 0; i < 32; i++, at += 2) snprintf(out + at, 3, "%02x", hash[i]);
  if (part) strcpy(out + at, ".part");
}

uint64_t qv_store_held(const qv_store *s, const uint8_t hash[32]) {
  char path[1024];
  struct stat about;
  for (int part = 0; part < 2; part++) {
    qv_store_path(s, hash, part, path);
    if (stat(path, &about) == 0 && S_ISREG(about.st_mode)) return (uint64_t)about.st_size;
  }
  return 0;
}

static qv_status verify(const char *path, const uint8_t hash[32]) {
  FILE *file = fopen(path, "rb");
  uint8_t block[4096], found[32];
  qv_sha256 c;
  if (!file) return QV_E_IO;
  qv_sha256_init(&c);
  for (size_t got; (got = fread(block, 1, sizeof block, file)) > 0;) qv_sha256_add(&c, block, got);
  int bad = ferror(file);
  fclose(file);
  qv_sha256_end(&c, found);
  if (bad) return QV_E_IO;
  return memcmp(found, hash, 32) == 0 ? QV_OK : QV_E_CRC;
}

qv_status qv_store_put(const qv_store *s, const uint8_t hash[32], uint64_t total, uint64_t offset, const uint8_t *data, uint32_t bytes) {
  char part[1024], whole[1024];
  qv_store_path(s, hash, 1, part);
  qv_store_path(s, hash, 0, whole);
  if (total > INT32_MAX || offset > total || bytes > total - offset || qv_store_held(s, hash) != offset) return QV_E_INPUT;
  FILE *file = fopen(part, offset ? "ab" : "wb");
  if (!file) return QV_E_IO;
  int good = fwrite(data, 1, bytes, file) == bytes;
  good = fclose(file) == 0 && good;
  if (!good) {
    remove(part);
    return QV_E_IO;
  }
  if (offset + bytes < total) return QV_OK;
  qv_status status = verify(part, hash);
  if (status == QV_OK && rename(part, whole) != 0) status = QV_E_IO;
  if (status != QV_OK) remove(part);
  return status;
}
