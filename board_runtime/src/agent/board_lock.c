/* The lock on a board: flock on a file, which the system releases when the process that holds it ends. */
#define _DEFAULT_SOURCE
#include "board_lock.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../commands/options.h"
#include "lock_holder.h"

enum { FORSAKEN_S = 60, TOKEN = 16, ENDS_MS = 2000 };

static uint64_t uptime_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec;
}

/* Opens the file, or creates it if it does not exist. A file of another user is opened for reading, which suffices for
   flock. Returns -1 on failure. */
static int open_at(const char *path) {
  for (int again = 0; again < 3; again++) {
    int file = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0 && errno == EACCES) file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file >= 0 || errno != ENOENT) return file;
    file = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file >= 0) {
      if (fchmod(file, 0666) != 0) return file;
      return file;
    }
    if (errno != EEXIST) return -1;
  }
  return -1;
}

static int open_auto(qv_board_lock *l, const char *path) {
  static const char *const FOLDERS[] = {"/tmp", "/dev/shm", "/run/lock", "/var/lock", NULL};
  if (strcmp(path, "auto") != 0) {
    snprintf(l->path, sizeof l->path, "%.250s", path);
    return open_at(l->path);
  }
  for (int i = 0; FOLDERS[i]; i++) {
    snprintf(l->path, sizeof l->path, "%s/qverify.lock", FOLDERS[i]);
    int file = open_at(l->path);
    if (file >= 0) return file;
  }
  return -1;
}

static void note(qv_board_lock *l, int running) {
  char text[512], boot[40] = "";
  int id = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (id >= 0) {
    ssize_t got = read(id, boot, sizeof boot - 1);
    boot[got > 0 ? got : 0] = 0;
    boot[strcspn(boot, "\n")] = 0;
    close(id);
  }
  static uint64_t since;
  if (!since) since = uptime_s();
  int length = snprintf(
      text, sizeof text,
      "{\"owner\": \"%s\", \"pid\": %ld, \"since_uptime_s\": %llu, \"heard_uptime_s\": %llu, \"running\": %d, \"boot_id\": \"%s\"}\n",
      l->owner, (long)getpid(), (unsigned long long)since, (unsigned long long)uptime_s(), running, boot);
  if (ftruncate(l->file, 0) == 0 && pwrite(l->file, text, (size_t)length, 0) == length) l->noted_s = uptime_s();
}

static void name_owner(qv_board_lock *l, const char *owner) {
  size_t n = 0;
  for (; owner[n] && n + 1 < sizeof l->owner; n++)
    l->owner[n] = owner[n] >= ' ' && owner[n] != '"' && owner[n] != '\\' && (owner[n] & 0x80) == 0 ? owner[n] : '_';
  l->owner[n] = 0;
}

static long long number(const char *json, const char *key) {
  const char *at = strstr(json, key);
  return at ? strtoll(at + strlen(key), NULL, 10) : -1;
}

/* Returns the end of an owner from its "#" on, if that is followed by 16 hex digits, which are unique to one run;
   otherwise NULL. */
static const char *token_of(const char *owner) {
  const char *at = strrchr(owner, '#');
  size_t digits = 0;
  while (at && isxdigit((unsigned char)at[1 + digits])) digits++;
  return digits == TOKEN ? at : NULL;
}

/* Ends the holder of the lock if its owner has the same token: it is this run's previous agent, which may not have
   noticed that its connection was lost. Returns 1 if the lock is then free and taken. */
static int end_own_ghost(const qv_board_lock *l) {
  char holder[512];
  const char *token = token_of(l->owner);
  qv_lock_holder(l, holder, sizeof holder);
  const char *other = token ? strstr(holder, token) : NULL;
  long long pid = number(holder, "\"pid\": ");
  if (!other || other[1 + TOKEN] != '"' || qv_holder_doubt(l->file, pid) || kill((pid_t)pid, SIGKILL) != 0) return 0;
  const struct timespec moment = {0, 20000000};
  for (int ms = 0; ms < ENDS_MS; ms += 20, nanosleep(&moment, NULL))
    if (flock(l->file, LOCK_EX | LOCK_NB) == 0) return 1;
  return 0;
}

/* Returns whether the path still names the open file. If that was deleted, another host would lock a different file. */
static int is_there(const qv_board_lock *l) {
  struct stat held, named;
  return fstat(l->file, &held) == 0 && lstat(l->path, &named) == 0 && held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

int qv_lock_take(qv_board_lock *l, const char *path, const char *owner) {
  name_owner(l, owner);
  for (int again = 0; again < 3; again++) {
    if (l->file < 0) l->file = open_auto(l, path);
    if (l->file < 0) return QV_LOCK_NONE;
    if (flock(l->file, LOCK_EX | LOCK_NB) != 0 && !end_own_ghost(l)) return QV_LOCK_BUSY;
    if (is_there(l)) {
      note(l, 0);
      return QV_LOCK_HELD;
    }
    close(l->file);
    l->file = -1;
  }
  return QV_LOCK_NONE;
}

int qv_lock_heard(qv_board_lock *l, const char *path, int running) {
  static int before = -1;
  if (running == before && uptime_s() < l->noted_s + 2) return QV_LOCK_HELD;
  before = running;
  if (!is_there(l)) {
    char owner[sizeof l->owner];
    memcpy(owner, l->owner, sizeof owner);
    close(l->file);
    l->file = -1;
    int state = qv_lock_take(l, path, owner);
    if (state != QV_LOCK_HELD) return state;
  }
  note(l, running);
  return QV_LOCK_HELD;
}

void qv_lock_holder(const qv_board_lock *l, char *json, size_t size) {
  ssize_t got = l->file >= 0 ? pread(l->file, json, size - 1, 0) : 0;
  json[got > 0 ? got : 0] = 0;
  json[strcspn(json, "\n")] = 0;
  size_t length = strlen(json);
  if (length < 2 || json[0] != '{' || json[length - 1] != '}') snprintf(json, size, "{}");
}

int qv_lock_main(int argc, char **argv) {
  qv_board_lock l = {.file = -1};
  char holder[512];
  l.file = open_auto(&l, qv_option(argc, argv, "path", "auto"));
  if (l.file < 0) {
    printf("{\"state\": \"none\", \"uptime_s\": %llu}\n", (unsigned long long)uptime_s());
    return 0;
  }
  int busy = flock(l.file, LOCK_EX | LOCK_NB) != 0;
  qv_lock_holder(&l, holder, sizeof holder);
  if (!busy || argc < 2 || strcmp(argv[1], "break") != 0) {
    printf("{\"state\": \"%s\", \"uptime_s\": %llu, \"holder\": %s}\n", busy ? "busy" : "free", (unsigned long long)uptime_s(),
           busy ? holder : "{}");
    return 0;
  }
  long long pid = number(holder, "\"pid\": "), heard = number(holder, "\"heard_uptime_s\": "), running = number(holder, "\"running\": ");
  if (pid <= 1 || heard < 0 || running != 0 || (long long)uptime_s() - heard < FORSAKEN_S) {
    fprintf(stderr, "qvrt lock: not broken: its holder is alive (%s)\n", holder);
    return 3;
  }
  const char *doubt = qv_holder_doubt(l.file, pid);
  if (doubt) {
    fprintf(stderr, "qvrt lock: not broken: process %lld, which %s names, %s. Next: look who holds the file, or remove it\n", pid, l.path,
            doubt);
    return 3;
  }
  if (kill((pid_t)pid, SIGKILL) != 0 && errno != ESRCH) {
    fprintf(stderr, "qvrt lock: process %lld cannot be ended: %s\n", pid, strerror(errno));
    return 3;
  }
  printf("{\"state\": \"broken\", \"uptime_s\": %llu, \"holder\": %s}\n", (unsigned long long)uptime_s(), holder);
  return 0;
}
