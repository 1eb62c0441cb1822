/* One processor, which has one set of kernels: no threads. */
#include "../src/arithmetic/instructions.h"
#include "../src/commands/options.h"
#include "../src/threads.h"

const char *qv_instructions_name(void) { return qv_chosen_instructions().name; }

int qv_threads(void) { return 1; }
int qv_workers(int64_t parts, int64_t work) {
  (void)parts;
  (void)work;
  return 1;
}
void qv_for_parts(qv_part part, void *user, int64_t parts, int64_t work) {
  (void)work;
  for (int64_t i = 0; i < parts; i++) part(user, i, 0);
}
