/* The command qvrt perf: measures the mean latency of the model and of each node, on inputs of zeros. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../arithmetic/instructions.h"
#include "../loaded.h"
#include "../posix.h"
#include "../threads.h"
#include "options.h"

typedef struct {
  uint64_t total_ns, least_ns, most_ns;
} node_time;

static int on_node(void *user, const qv_session *s, int index, uint64_t elapsed_ns) {
  node_time *t = (node_time *)user + index;
  (void)s;
  t->total_ns += elapsed_ns;
  if (!t->least_ns || elapsed_ns < t->least_ns) t->least_ns = elapsed_ns;
  if (elapsed_ns > t->most_ns) t->most_ns = elapsed_ns;
  return 0;
}

/* Writes profiler.csv or profiler.log with the milliseconds of each node. Returns 0 if it cannot be written. */
static int write_profile(const char *folder, const char *file_name, const qv_model *m, const node_time *times, long frames) {
  char path[1100];
  int csv = strstr(file_name, ".csv") != NULL;
  snprintf(path, sizeof path, "%.1000s/%s", folder, file_name);
  FILE *file = fopen(path, "w");
  if (!file) return 0;
  if (csv) fprintf(file, "node,op,name,mean_ms,least_ms,most_ms\n");
  else fprintf(file, "qvrt perf: %ld frames, %d nodes, milliseconds\n", frames, m->n_nodes);
  for (int i = 0; i < m->n_nodes; i++) {
    const qv_node *n = &m->nodes[i];
    double mean = (double)times[i].total_ns / 1e6 / (double)frames;
    fprintf(file, csv ? "%d,%s,\"%s\",%.6f,%.6f,%.6f\n" : "node %d %s %s: mean %.6f, least %.6f, most %.6f\n", i, n->op->stem,
            m->tensors[n->outputs[0]].name, mean, (double)times[i].least_ns / 1e6, (double)times[i].most_ns / 1e6);
  }
  int good = !ferror(file);
  return fclose(file) == 0 && good;
}

/* Reads --perf_time=MINUTES, which may be a fraction. Returns 0, after a message on stderr, if it is not
   a valid time. */
static int take_minutes(int argc, char **argv, double *minutes) {
  const char *text = qv_option(argc, argv, "perf_time", "0");
  char *end = NULL;
  *minutes = strtod(text, &end);
  if (*text && !*end && *minutes >= 0 && *minutes <= 100000) return 1;
  fprintf(stderr, "qvrt perf: --perf_time=%.40s: wanted minutes from 0 to 100000\n", text);
  return 0;
}

static void report(const qv_loaded *l, long frames, double ms) {
  printf("frame count: %ld\naverage latency: %.3f ms\nFPS: %.2f\narena bytes: %ld\ninstructions: %s\nthreads: %d\n", frames, ms,
         1000.0 / ms, (long)l->session.arena_bytes, l->session.plain_only ? "plain" : qv_chosen_instructions().name, qv_threads());
}

int qv_perf_main(int argc, char **argv) {
  const char *path = qv_option(argc, argv, "model_file", NULL), *profile = qv_option(argc, argv, "profile_path", NULL);
  long wanted, frames = 0;
  double minutes;
  if (!qv_number(argc, argv, "frame_count", 20, 1, 1000000, &wanted) || !take_minutes(argc, argv, &minutes) || !qv_take_core(argc, argv) ||
      !qv_take_instructions(argc, argv) || !qv_take_threads(argc, argv))
    return 2;
  qv_loaded l;
  if (!path) {
    fprintf(stderr, "qvrt perf: wanted --model_file=model.bin\n");
    return 2;
  }
  qv_status status = qv_load_path(&l, path, 0);
  l.session.plain_only = qv_flag(argc, argv, "plain");
  node_time *times = status == QV_OK && profile ? calloc((size_t)l.model.n_nodes + 1, sizeof *times) : NULL;
  if (status == QV_OK && profile && !times) status = QV_E_MEMORY;
  qv_run_hooks hooks = {on_node, times, qv_now_ns};
  if (status == QV_OK) status = qv_run(&l.session, NULL);
  uint64_t start = qv_now_ns(), until = start + (uint64_t)(minutes * 60e9);
  while (status == QV_OK && (minutes > 0 ? qv_now_ns() < until || !frames : frames < wanted)) {
    status = qv_run(&l.session, times ? &hooks : NULL);
    frames++;
  }
  double ms = (double)(qv_now_ns() - start) / 1e6 / (double)(frames ? frames : 1);
  int code = status == QV_OK ? 0 : status == QV_E_IO || status == QV_E_FORMAT || status == QV_E_CRC ? 2 : 3;
  if (status != QV_OK) fprintf(stderr, "qvrt perf: %s: %s\n", qv_status_phrase(status), l.model.error);
  else report(&l, frames, ms);
  if (code == 0 && times &&
      (!write_profile(profile, "profiler.log", &l.model, times, frames) ||
       !write_profile(profile, "profiler.csv", &l.model, times, frames))) {
    fprintf(stderr, "qvrt perf: --profile_path=%.200s: cannot be written: %s\n", profile, strerror(errno));
    code = 2;
  }
  free(times);
  qv_unload(&l);
  return code;
}
