/* The qv_dots kernels in portable C. */
#include "dot.h"

#include "dot_body.h"

static void panel(const int16_t *w, int64_t stride, const int16_t *columns, int64_t pairs, uint32_t *acc) {
  body_panel(w, stride, columns, pairs, acc);
}
QV_DOTS_FUNCTIONS()

const qv_dots qv_dots_portable = {"portable", panel, taps, row, finish, centre};
