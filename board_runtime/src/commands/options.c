/* Reads options of the command line of the form --name=value or --name value. */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../arithmetic/instructions.h"
#include "../posix.h"
#include "../threads.h"

const char *qv_option(int argc, char **argv, const char *name, const char *fallback) {
  size_t length = strlen(name);
  const char *value = fallback;
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "--", 2) != 0 || strncmp(argv[i] + 2, name, length) != 0) continue;
    if (argv[i][2 + length] == '=') value = argv[i] + 3 + length;
    if (argv[i][2 + length] == 0) value = i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0 ? argv[i + 1] : "true";
  }
  return value;
}

int qv_number(int argc, char **argv, const char *name, long fallback, long low, long high, long *value) {
  const char *text = qv_option(argc, argv, name, NULL);
  char *end = NULL;
  *value = text ? strtol(text, &end, 10) : fallback;
  if (!text || (*text && !*end && *value >= low && *value <= high)) return 1;
  fprintf(stderr, "qvrt: --%s=%.40s: wanted a number from %ld to %ld\n", name, text, low, high);
  return 0;
}

/* Options of hrt_model_exec that have no meaning here; their default there, false, is accepted. */
static const char *const OFF[] = {"enable_cls_post_process", "dequantize_process", NULL};

static int is_off(const char *word, const char *name, size_t length) {
  if (strlen(name) != length || strncmp(word + 2, name, length) != 0) return 0;
  return strcmp(word + 2 + length, "=false") == 0 || strcmp(word + 2 + length, "=0") == 0;
}

const char *qv_unknown_option(int argc, char **argv, const char *const *known) {
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "--", 2) != 0) continue;
    size_t length = strcspn(argv[i] + 2, "=");
    int found = 0;
    for (const char *const *k = OFF; *k && !found; k++) found = is_off(argv[i], *k, length);
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
  const char *name = qv_option(argc, argv, "threads", NULL) ? "threads" : "thread_num";
  long threads;
  if (!qv_number(argc, argv, name, 1, 1, QV_MOST_THREADS, &threads)) return 0;
  int started = qv_start_threads((int)threads);
  if (started < threads)
    fprintf(stderr, "qvrt: --%s=%ld: this system starts no more than %d; going on with %d\n", name, threads, started, started);
  return 1;
}

int qv_take_core(int argc, char **argv) {
  long core;
  if (!qv_number(argc, argv, "core_id", 0, 0, 1024, &core)) return 0;
  if (core == 0 || qv_stay_on_processor((int)core - 1)) return 1;
  fprintf(stderr, "qvrt: --core_id=%ld: this process cannot stay on processor %ld. Next: 0 for any, 1 for the first\n", core, core - 1);
  return 0;
}

const char *qv_refused_option(int argc, char **argv, const char **why) {
  static const char *const REFUSED[][2] = {
      {"model_name", "a model.bin holds one model, without a name"},
      {"enable_cls_post_process", "qvrt computes the network's outputs and nothing from them; --enable_dump writes them"},
      {"dequantize_process", "what its file holds is not published; --hybrid_dequantize_process with --dump_format=txt writes real values"},
      {"input_img_properties", "the model.bin says what its inputs are (qverify compile --input)"},
      {"input_valid_shape", "the model.bin says which shapes its inputs have"},
      {"input_stride", "the model.bin says which strides its inputs have"},
  };
  for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
    if (!qv_option(argc, argv, REFUSED[i][0], NULL) || !qv_flag(argc, argv, REFUSED[i][0])) continue;
    *why = REFUSED[i][1];
    return REFUSED[i][0];
  }
  return NULL;
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
