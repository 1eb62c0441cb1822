/* The store in a directory. Files are named by their hash alone, so that nothing sent by a host is ever used as a path.
   */
#define _POSIX_C_SOURCE 200809L
#include "store_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "../posix.h"

enum { PATH = 1024, NAME_HEX = 64 };

static void path_of(const char *folder, const uint8_t hash[32], int part, char out[PATH]) {
  int used = snprintf(out, 900, "%.800s/", folder);
  size_t at = used > 0 ? (size_t)used : 0;
  for (int i = 0; i < 32; i++, at += 2) snprintf(out + at, 3, "%02x", hash[i]);
  if (part) memcpy(out + at, ".part", sizeof ".part");
}

uint64_t qv_folder_held(const char *folder, const uint8_t hash[32], int *whole) {
  char path[PATH];
  struct stat about;
  for (int part = 0; part < 2; part++) {
    path_of(folder, hash, part, path);
    if (lstat(path, &about) != 0 || !S_ISREG(about.st_mode)) continue;
    *whole = !part;
    return (uint64_t)about.st_size;
  }
  *whole = 0;
  return 0;
}

void qv_folder_drop(const char *folder, const uint8_t hash[32]) {
  char path[PATH];
  path_of(folder, hash, 0, path);
  remove(path);
}

static qv_status check(const char *path, const uint8_t hash[32]) {
  static uint8_t block[1 << 16];
  uint8_t found[32];
  qv_sha256 c;
  int file = open(path, O_RDONLY | O_NOFOLLOW);
  if (file < 0) return QV_E_IO;
  qv_sha256_init(&c);
  ssize_t got;
  while ((got = read(file, block, sizeof block)) > 0) qv_sha256_add(&c, block, (size_t)got);
  close(file);
  qv_sha256_end(&c, found);
  if (got < 0) return QV_E_IO;
  return memcmp(found, hash, 32) == 0 ? QV_OK : QV_E_CRC;
}

qv_status qv_folder_name(const char *folder, const uint8_t hash[32], uint64_t came) {
  char part[PATH], whole[PATH];
  struct stat about;
  path_of(folder, hash, 1, part);
  path_of(folder, hash, 0, whole);
  int as_it_came = came && lstat(part, &about) == 0 && (uint64_t)about.st_size == came;
  qv_status status = as_it_came ? QV_OK : check(part, hash);
  if (status == QV_OK && rename(part, whole) != 0) status = QV_E_IO;
  if (status != QV_OK) remove(part);
  return status;
}

qv_status qv_folder_load(const char *folder, const uint8_t hash[32], uint8_t **data, size_t *bytes) {
  char path[PATH];
  path_of(folder, hash, 0, path);
  qv_status status = qv_read_file(path, data, bytes);
  if (status != QV_OK) return status == QV_E_IO ? QV_E_NOT_FOUND : status;
  if (qv_sha256_is(hash, *data, *bytes)) {
    utimensat(AT_FDCWD, path, NULL, 0);
    return QV_OK;
  }
  free(*data);
  *data = NULL;
  remove(path);
  return QV_E_CRC;
}

/* Returns whether a mapped file has this SHA-256; what was read is released. */
static int is_mapped(const uint8_t hash[32], const uint8_t *data, size_t bytes) {
  const size_t block = 1 << 26;
  uint8_t found[32];
  qv_sha256 c;
  qv_sha256_init(&c);
  for (size_t done = 0; done < bytes; done += block) {
    size_t next = bytes - done < block ? bytes - done : block;
    qv_sha256_add(&c, data + done, next);
    if (next == block) qv_release_file(data + done, next);
  }
  qv_sha256_end(&c, found);
  return memcmp(found, hash, 32) == 0;
}

qv_status qv_folder_map(const char *folder, const uint8_t hash[32], uint8_t **data, size_t *bytes) {
  char path[PATH];
  path_of(folder, hash, 0, path);
  qv_status status = qv_map_file(path, data, bytes);
  if (status != QV_OK) return status == QV_E_IO ? QV_E_NOT_FOUND : status;
  if (is_mapped(hash, *data, *bytes)) {
    utimensat(AT_FDCWD, path, NULL, 0);
    return QV_OK;
  }
  qv_unmap_file(*data, *bytes);
  *data = NULL;
  remove(path);
  return QV_E_CRC;
}

static int is_content(const char *name, uint8_t hash[32]) {
  size_t hex = strspn(name, "0123456789abcdef");
  if (hex != NAME_HEX || (name[hex] != 0 && strcmp(name + hex, ".part") != 0)) return 0;
  for (int i = 0; i < 32; i++) {
    char digits[3] = {name[2 * i], name[2 * i + 1], 0};
    hash[i] = (uint8_t)strtoul(digits, NULL, 16);
  }
  return 1;
}

/* Returns the size of all contents in bytes. Writes to `oldest` the path of the least recently changed content that
   this connection does not need, or "" if there is none. */
static uint64_t survey(const qv_folder *f, char oldest[PATH]) {
  DIR *listing = opendir(f->path);
  uint64_t sum = 0;
  struct timespec least = {0, 0};
  oldest[0] = 0;
  for (struct dirent *entry; listing && (entry = readdir(listing)) != NULL;) {
    char path[PATH];
    uint8_t hash[32];
    struct stat about;
    if (!is_content(entry->d_name, hash)) continue;
    snprintf(path, sizeof path, "%.800s/%.80s", f->path, entry->d_name);
    if (lstat(path, &about) != 0) continue;
    sum += (uint64_t)about.st_size;
    int older = about.st_mtim.tv_sec < least.tv_sec || (about.st_mtim.tv_sec == least.tv_sec && about.st_mtim.tv_nsec < least.tv_nsec);
    if ((oldest[0] && !older) || qv_is_needed(f->needed, hash)) continue;
    least = about.st_mtim;
    memcpy(oldest, path, sizeof path);
  }
  if (listing) closedir(listing);
  return sum;
}

static uint64_t free_bytes(const qv_folder *f) {
  struct statvfs about;
  return statvfs(f->path, &about) == 0 ? (uint64_t)about.f_bavail * (uint64_t)about.f_frsize : f->limit_bytes;
}

uint64_t qv_folder_room(const qv_folder *f) {
  char oldest[PATH];
  uint64_t held = survey(f, oldest), left = held < f->limit_bytes ? f->limit_bytes - held : 0, room = free_bytes(f);
  return room < left ? room : left;
}

qv_status qv_folder_evict(const qv_folder *f, uint64_t room) {
  char oldest[PATH];
  uint64_t held = survey(f, oldest), half = (free_bytes(f) + held) / 2, limit = half < f->limit_bytes ? half : f->limit_bytes;
  while (held + room > limit && oldest[0] && remove(oldest) == 0) held = survey(f, oldest);
  return held + room > f->limit_bytes ? QV_E_FULL : QV_OK;
}

static qv_status failed_with(int number) { return number == ENOSPC || number == EDQUOT ? QV_E_FULL : QV_E_IO; }

/* Appends bytes to the file at `path`. If not all of them can be written, cuts the file to `offset` bytes again. */
static qv_status append(const char *path, uint64_t offset, const uint8_t *data, uint32_t bytes) {
  int file = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_APPEND | (offset ? 0 : O_TRUNC), 0600);
  if (file < 0) return failed_with(errno);
  qv_status status = QV_OK;
  for (uint32_t done = 0; done < bytes && status == QV_OK;) {
    ssize_t wrote = write(file, data + done, bytes - done);
    if (wrote > 0) done += (uint32_t)wrote;
    else status = wrote < 0 ? failed_with(errno) : QV_E_IO;
  }
  if (status != QV_OK && ftruncate(file, (off_t)offset) != 0) status = QV_E_IO;
  if (close(file) != 0 && status == QV_OK) status = QV_E_IO;
  return status;
}

qv_status qv_folder_append(const qv_folder *f, const uint8_t hash[32], uint64_t offset, const uint8_t *data, uint32_t bytes) {
  char path[PATH], oldest[PATH];
  path_of(f->path, hash, 1, path);
  qv_status status = append(path, offset, data, bytes);
  while (status == QV_E_FULL) {
    survey(f, oldest);
    if (!oldest[0] || remove(oldest) != 0) break;
    status = append(path, offset, data, bytes);
  }
  if (status != QV_OK) remove(path);
  return status;
}
