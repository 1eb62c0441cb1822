/* Files, memory, clock and processor of the operating system. */
#define _GNU_SOURCE /* for sched_setaffinity alone */
#include "posix.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

uint64_t qv_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int64_t qv_memory_bytes(void) {
  long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? (int64_t)pages * size : 0;
}

const char *qv_machine(void) {
  static struct utsname about;
  return uname(&about) == 0 ? about.machine : "unknown";
}

const char *qv_system(void) {
  static char text[96];
  struct utsname about;
  if (uname(&about) != 0) return "unknown";
  snprintf(text, sizeof text, "%.30s %.60s", about.sysname, about.release);
  for (char *p = text; *p; p++)
    if (*p == '"' || *p == '\\' || (unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f) *p = '_';
  return text;
}

int qv_stay_on_processor(int number) {
  cpu_set_t only;
  if (number < 0 || number >= CPU_SETSIZE) return 0;
  memset(&only, 0, sizeof only);
  unsigned long *words = (unsigned long *)(void *)&only;
  words[(unsigned)number / (8 * sizeof *words)] = 1ul << ((unsigned)number % (8 * sizeof *words));
  return sched_setaffinity(0, sizeof only, &only) == 0;
}

/* Returns the largest number in the files of this path pattern, for zones or processors 0 to 15; INT32_MIN if there is
   none. */
static int32_t largest(const char *pattern) {
  int32_t found = INT32_MIN;
  for (int number = 0; number < 16; number++) {
    char path[96], text[16];
    snprintf(path, sizeof path, pattern, number);
    FILE *file = fopen(path, "r");
    if (!file) continue;
    size_t got = fread(text, 1, sizeof text - 1, file);
    text[got] = 0;
    long value = got ? strtol(text, NULL, 10) : LONG_MIN;
    if (value > found && value < 100000000) found = (int32_t)value;
    fclose(file);
  }
  return found;
}

int32_t qv_temperature_mc(void) { return largest("/sys/class/thermal/thermal_zone%d/temp"); }

int32_t qv_frequency_khz(void) { return largest("/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq"); }

void *qv_aligned_alloc(size_t bytes) {
  void *p = NULL;
  return posix_memalign(&p, 64, bytes ? bytes : 1) == 0 ? p : NULL;
}

qv_status qv_map_file(const char *path, uint8_t **data, size_t *bytes) {
  struct stat about;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would block */
  if (file < 0) return QV_E_IO;
  if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size < 0) {
    close(file);
    return QV_E_IO;
  }
  if ((uint64_t)about.st_size >= SIZE_MAX / 2) {
    close(file);
    return QV_E_MEMORY;
  }
  *bytes = (size_t)about.st_size;
  void *mapped = mmap(NULL, *bytes ? *bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return QV_E_MEMORY;
  *data = mapped;
  return QV_OK;
}

void qv_release_file(const void *data, size_t bytes) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t start = ((uintptr_t)data + page - 1) / page * page, end = ((uintptr_t)data + bytes) / page * page;
  if (qv_little_endian() && end > start) madvise((void *)start, end - start, MADV_DONTNEED);
}

void qv_unmap_file(uint8_t *data, size_t bytes) { munmap(data, bytes ? bytes : 1); }

qv_status qv_read_file(const char *path, uint8_t **data, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  struct stat about;
  if (!file) return QV_E_IO;
  if (fstat(fileno(file), &about) != 0 || !S_ISREG(about.st_mode) || about.st_size < 0 || (uint64_t)about.st_size > INT32_MAX) {
    fclose(file);
    return QV_E_IO;
  }
  *bytes = (size_t)about.st_size;
  *data = qv_aligned_alloc(*bytes);
  if (!*data) {
    fclose(file);
    return QV_E_MEMORY;
  }
  size_t got = fread(*data, 1, *bytes, file);
  fclose(file);
  if (got == *bytes) return QV_OK;
  free(*data);
  *data = NULL;
  return QV_E_IO;
}

qv_status qv_write_file(const char *path, const void *data, size_t bytes) {
  char part[1100];
  if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part) return QV_E_IO;
  FILE *file = fopen(part, "wb");
  if (!file) return QV_E_IO;
  int good = fwrite(data, 1, bytes, file) == bytes;
  good = fclose(file) == 0 && good;
  if (good && rename(part, path) == 0) return QV_OK;
  remove(part);
  return QV_E_IO;
}
