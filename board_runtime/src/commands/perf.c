/* qvrt perf: mean latency over frames of zeros. */
#include <stdio.h>

#include "../arithmetic/instructions.h"
#include "../loaded.h"
#include "../posix.h"
#include "../threads.h"
#include "options.h"

int qv_perf_main(int argc, char **argv) {
  const char *path = qv_option(argc, argv, "model_file", NULL);
  long frames;
  if (!qv_number(argc, argv, "frame_count", 20, 1, 1000000, &frames) || !qv_take_instructions(argc, argv) || !qv_take_threads(argc, argv))
    return 2;
  qv_loaded l;
  if (!path) {
    fprintf(stderr, "qvrt perf: wanted --model_file=model.bin\n");
    return 2;
  }
  qv_status status = qv_load_path(&l, path, 0);
  l.session.plain_only = qv_flag(argc, argv, "plain");
  if (status == QV_OK) status = qv_run(&l.session, NULL);
  uint64_t start = qv_now_ns();
  for (long i = 0; i < frames && status == QV_OK; i++) status = qv_run(&l.session, NULL);
  if (status != QV_OK) {
    fprintf(stderr, "qvrt perf: %s: %s\n", qv_status_phrase(status), l.model.error);
    qv_unload(&l);
    return status == QV_E_IO || status == QV_E_FORMAT || status == QV_E_CRC ? 2 : 3;
  }
  double ms = (double)(qv_now_ns() - start) / 1e6 / (double)frames;
  printf("frame count: %ld\naverage latency: %.3f ms\nFPS: %.2f\narena bytes: %ld\ninstructions: %s\nthreads: %d\n", frames, ms,
         1000.0 / ms, (long)l.session.arena_bytes, l.session.plain_only ? "plain" : qv_chosen_instructions().name, qv_threads());
  qv_unload(&l);
  return 0;
}
