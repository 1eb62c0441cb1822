/* Conversion between the machine's byte order and little-endian. */
#include "elements.h"

int qv_little_endian(void) {
  const uint16_t one = 1;
  return *(const uint8_t *)&one == 1;
}

void qv_border_order(void *data, int32_t dtype, size_t bytes) {
  size_t item = qv_dtype_size(dtype);
  uint8_t *p = data;
  if (item < 2 || qv_little_endian()) return;
  for (size_t at = 0; at + item <= bytes; at += item)
    for (size_t i = 0; i < item / 2; i++) {
      uint8_t held = p[at + i];
      p[at + i] = p[at + item - 1 - i];
      p[at + item - 1 - i] = held;
    }
}
