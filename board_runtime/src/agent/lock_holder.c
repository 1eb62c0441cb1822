/* Checks the holder of a lock with the information of the kernel in /proc. */
#define _DEFAULT_SOURCE
#include "lock_holder.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Returns whether a line of the file at `path` describes a held flock and contains `wanted`. Lines with "->" describe
   processes that wait for a lock. */
static int says_held(const char *path, const char *wanted) {
  char line[256];
  FILE *file = fopen(path, "re");
  int found = 0;
  while (file && !found && fgets(line, sizeof line, file)) found = strstr(line, "FLOCK") && strstr(line, wanted) && !strstr(line, "->");
  if (file) fclose(file);
  return found;
}

/* Returns whether the process holds an exclusive flock on the file, according to /proc/PID/fdinfo, which lists the
   locks of each open file. */
static int holds_open(const struct stat *about, long long process) {
  char folder[64], path[384];
  struct stat other;
  int found = 0;
  snprintf(folder, sizeof folder, "/proc/%lld/fd", process);
  DIR *listing = opendir(folder);
  for (struct dirent *entry; listing && !found && (entry = readdir(listing)) != NULL;) {
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (stat(path, &other) != 0 || other.st_ino != about->st_ino || other.st_dev != about->st_dev) continue;
    snprintf(path, sizeof path, "%sinfo/%s", folder, entry->d_name);
    found = says_held(path, " WRITE ");
  }
  if (listing) closedir(listing);
  return found;
}

/* Returns whether the process holds an exclusive flock on the file. Linux before 4.1 has no locks in fdinfo, so
   /proc/locks is read too; that one alone would not do, because it names a different device for a file on an overlay
   file system. */
static int holds(const struct stat *about, long long process) {
  char wanted[96];
  snprintf(wanted, sizeof wanted, " WRITE %lld %02x:%02x:%llu ", process, major(about->st_dev), minor(about->st_dev),
           (unsigned long long)about->st_ino);
  return holds_open(about, process) || says_held("/proc/locks", wanted);
}

static int is_qvrt(long long process) {
  char link[64], path[1024];
  snprintf(link, sizeof link, "/proc/%lld/exe", process);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  const char *name = strrchr(path, '/');
  return name && strncmp(name + 1, "qvrt", 4) == 0;
}

const char *qv_holder_doubt(int file, long long process) {
  struct stat about;
  if (fstat(file, &about) != 0 || !holds(&about, process)) return "does not hold the lock";
  return is_qvrt(process) ? NULL : "is no qvrt, or another user's";
}
