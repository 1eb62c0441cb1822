/* The fast kernels in plain C, and the choice among the instruction sets. */
#include "dot.h"

#include "dot_body.h"

static void panel(const int16_t *w, int64_t stride, const int16_t *columns, int64_t pairs, uint32_t *acc) {
  body_panel(w, stride, columns, pairs, acc);
}
QV_DOTS_FUNCTIONS()

const qv_dots qv_dots_portable = {"portable", panel, taps, row, finish, centre};

const qv_dots *qv_dots_of_cpu(void) {
  const qv_dots *best = qv_dots_avx2();
  if (!best) best = qv_dots_neon();
  return best ? best : &qv_dots_portable;
}
