/* --name=value and --name value options of the command line. */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../arithmetic/instructions.h"
#include "../threads.h"

const char *qv_option(int argc, char **argv, const char *name, const char *fallback) {
  size_t length = strlen(name);
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "--", 2) != 0 || strncmp(argv[i] + 2, name, length) != 0) continue;
    if (argv[i][2 + length] == '=') return argv[i] + 3 + length;
    if (argv[i][2 + length] == 0) return i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0 ? argv[i + 1] : "true";
  }
  return fallback;
}

int qv_number(int argc, char **argv, const char *name, long fallback, long low, long high, long *value) {
  const char *text = qv_option(argc, argv, name, NULL);
  char *end = NULL;
  *value = text ? strtol(text, &end, 10) : fallback;
  if (!text || (*text && !*end && *value >= low && *value <= high)) return 1;
  fprintf(stderr, "qvrt: --%s=%.40s: wanted a number from %ld to %ld\n", name, text, low, high);
  return 0;
}

const char *qv_unknown_option(int argc, char **argv, const char *const *known) {
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "--", 2) != 0) continue;
    size_t length = strcspn(argv[i] + 2, "=");
    int found = 0;
    for (const char *const *k = known; *k && !found; k++) found = strlen(*k) == length && strncmp(argv[i] + 2, *k, length) == 0;
    if (!found) return argv[i];
  }
  return NULL;
}

void qv_list_instructions(char *text, size_t size) {
  qv_instructions i;
  *text = 0;
  for (int place = 0; qv_instructions_of_cpu(place, &i); place++) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", place ? " " : "", i.name);
  }
}

int qv_take_threads(int argc, char **argv) {
  long threads;
  if (!qv_number(argc, argv, "threads", 1, 1, QV_MOST_THREADS, &threads)) return 0;
  int started = qv_start_threads((int)threads);
  if (started < threads)
    fprintf(stderr, "qvrt: --threads=%ld: this system starts no more than %d; going on with %d\n", threads, started, started);
  return 1;
}

const char *qv_instructions_name(void) { return qv_chosen_instructions().name; }

int qv_take_instructions(int argc, char **argv) {
  const char *name = qv_option(argc, argv, "instructions", NULL);
  if (!name || qv_choose_instructions(name)) return 1;
  char names[200];
  qv_list_instructions(names, sizeof names);
  fprintf(stderr, "qvrt: --instructions=%.40s: not of this processor. Next: one of %s\n", name, names);
  return 0;
}

int qv_flag(int argc, char **argv, const char *name) {
  const char *value = qv_option(argc, argv, name, "0");
  return strcmp(value, "0") != 0 && strcmp(value, "false") != 0 && strcmp(value, "False") != 0;
}
