/* The command qvrt agent: answers the messages of PROTOCOL.md on stdin and stdout. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../commands/options.h"
#include "../posix.h"
#include "agent.h"
#include "wire.h"

int qv_agent_main(int argc, char **argv) {
  static qv_agent a;
  if (!qv_number(argc, argv, "idle", 0, 0, 1000000, &a.idle_s)) return 2;
  if (!qv_number(argc, argv, "node_limit", 0, 0, 1000000, &a.node_limit_s) || !qv_take_instructions(argc, argv) ||
      !qv_take_threads(argc, argv))
    return 2;
  a.lock_path = qv_option(argc, argv, "lock", NULL);
  a.lock.file = -1;
  int64_t half = qv_memory_bytes() / 2;
  a.store.folder = qv_option(argc, argv, "store", NULL);
  a.memory_limit = strtoll(qv_option(argc, argv, "memory", "0"), NULL, 10);
  if (a.memory_limit <= 0) a.memory_limit = half > 0 ? half : (int64_t)64 << 20;
  a.store.limit_bytes = strtoull(qv_option(argc, argv, "store_limit", "0"), NULL, 10);
  if (!a.store.limit_bytes) a.store.limit_bytes = a.store.folder ? (uint64_t)4 << 30 : (uint64_t)a.memory_limit;
  if (a.store.folder && strlen(a.store.folder) > 700) {
    fprintf(stderr, "qvrt agent: the store's path has %lu bytes, wanted at most 700. Next: --store=DIR with a shorter one\n",
            (unsigned long)strlen(a.store.folder));
    return 2;
  }
  a.in.buffer = qv_aligned_alloc(QV_FRAME_BUFFER);
  a.out = qv_aligned_alloc(QV_FRAME_BUFFER);
  if (!a.in.buffer || !a.out) {
    fprintf(stderr, "qvrt agent: not enough memory for two frames of %d bytes\n", (int)QV_FRAME_BUFFER);
    return 3;
  }
  qv_wire_open();
  qv_agent_serve(&a, a.idle_s ? (int)a.idle_s * 1000 : -1);
  qv_agent_forget(&a);
  qv_store_close(&a.store);
  free(a.in.buffer);
  free(a.out);
  return 0;
}
