/* The store in a directory; files are named by the hash alone, so nothing a host sends is ever a path. */
#define _POSIX_C_SOURCE 200809L
#include "store_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../posix.h"

enum { PATH = 1024, NAME_HEX = 64 };

static void path_of(const char *folder, const uint8_t hash[32], int part, char out[PATH]) {
  int used = snprintf(out, 900, "%.800s/", folder);
  size_t at = used > 0 ? (size_t)used : 0;
  for (int i = 0; i < 32; i++, at += 2) snprintf(out + at, 3, "%02x", hash[i]);
  if (part) strcpy(out + at, ".part");
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

qv_status qv_folder_append(const char *folder, const uint8_t hash[32], uint64_t offset, const uint8_t *data, uint32_t bytes) {
  char path[PATH];
  path_of(folder, hash, 1, path);
  int file = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_APPEND | (offset ? 0 : O_TRUNC), 0600);
  if (file < 0) return QV_E_IO;
  int good = 1;
  for (uint32_t done = 0; done < bytes && good;) {
    ssize_t wrote = write(file, data + done, bytes - done);
    if (wrote > 0) done += (uint32_t)wrote;
    else good = 0;
  }
  good = close(file) == 0 && good;
  if (!good) remove(path);
  return good ? QV_OK : QV_E_IO;
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
  uint8_t found[32];
  qv_sha256 c;
  path_of(folder, hash, 0, path);
  qv_status status = qv_read_file(path, data, bytes);
  if (status != QV_OK) return status == QV_E_IO ? QV_E_NOT_FOUND : status;
  qv_sha256_init(&c);
  qv_sha256_add(&c, *data, *bytes);
  qv_sha256_end(&c, found);
  if (memcmp(found, hash, 32) == 0) {
    utimensat(AT_FDCWD, path, NULL, 0);
    return QV_OK;
  }
  free(*data);
  *data = NULL;
  remove(path);
  return QV_E_CRC;
}

static int is_content(const char *name) {
  size_t hex = strspn(name, "0123456789abcdef");
  return hex == NAME_HEX && (name[hex] == 0 || strcmp(name + hex, ".part") == 0);
}

/* The sum of all contents; the one changed longest ago goes to `oldest` (empty when there is none). */
static uint64_t survey(const char *folder, char oldest[PATH]) {
  DIR *listing = opendir(folder);
  uint64_t sum = 0;
  struct timespec least = {0, 0};
  oldest[0] = 0;
  for (struct dirent *entry; listing && (entry = readdir(listing)) != NULL;) {
    char path[PATH];
    struct stat about;
    if (!is_content(entry->d_name)) continue;
    snprintf(path, sizeof path, "%.800s/%.80s", folder, entry->d_name);
    if (lstat(path, &about) != 0) continue;
    sum += (uint64_t)about.st_size;
    int older = about.st_mtim.tv_sec < least.tv_sec || (about.st_mtim.tv_sec == least.tv_sec && about.st_mtim.tv_nsec < least.tv_nsec);
    if (oldest[0] && !older) continue;
    least = about.st_mtim;
    memcpy(oldest, path, sizeof path);
  }
  if (listing) closedir(listing);
  return sum;
}

void qv_folder_evict(const char *folder, uint64_t limit, uint64_t room) {
  char oldest[PATH];
  while (survey(folder, oldest) + room > limit && oldest[0])
    if (remove(oldest) != 0) return;
}
