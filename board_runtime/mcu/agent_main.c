/* The agent as the only program of a machine: it has the line for itself and never ends. */
#include "../src/agent/agent.h"
#include "../src/agent/wire.h"
#include "heap.h"

int main(void) {
  static qv_agent a;
  static uint8_t in[QV_FRAME_BUFFER], out[QV_FRAME_BUFFER];
  qv_wire_open();
  a.lock.file = -1;
  a.in.buffer = in;
  a.out = out;
  a.memory_limit = (int64_t)(qv_heap_bytes() / 2);
  a.store.limit_bytes = qv_heap_bytes();
  for (;;) qv_agent_serve(&a, -1);
}
