/* The example firmware: an inference engine of its own with qv_hook beside it. Five lines make it a board: the inputs,
   the board, qv_hook_open, qv_hook_poll, and a call for each layer. */
#include <stddef.h>

#include "../../mcu/hal.h"
#include "../qv_hook.h"
#include "layers.h"

#ifndef EXAMPLE_MODEL
#define EXAMPLE_MODEL "example"
#endif
#ifndef QV_ARCH
#define QV_ARCH "unknown"
#endif

static int infer(void *user) {
  (void)user;
#ifdef EXAMPLE_OVERWRITES_INPUT /* a mistake, for the tests: the arena of many engines has the input, too */
  static float noise;
  network_input[0] += noise += 1.0f;
#endif
  for (int32_t i = 0; i < network_layers; i++) {
    const layer *l = &network[i];
    run_layer(l);
    qv_hook_channels_last(l->name, arena + l->out, (uint32_t)(l->out_h * l->out_w), (uint32_t)l->out_c, output_element_bytes(l));
  }
  return 0;
}

static uint32_t microseconds(void) { return (uint32_t)(qv_hal_now_ns() / 1000); }

int main(void) {
  const qv_hook_input input = {network_input_name, network_input, (uint32_t)network_input_elements * 4};
  const qv_hook_board board = {qv_hal_read, qv_hal_write, microseconds, infer, NULL, &input, 1, EXAMPLE_MODEL, "example engine 1", QV_ARCH};
  qv_hal_open();
  qv_hook_open(&board);
  for (;;) qv_hook_poll();
}
