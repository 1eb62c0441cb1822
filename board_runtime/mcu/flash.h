/* Contents that are linked into the program: models in flash. */
#ifndef QV_FLASH_H
#define QV_FLASH_H
#include <stdint.h>

typedef struct {
  uint8_t hash[32];
  const uint8_t *data, *end;
} qv_flash_content;

extern const qv_flash_content qv_flash[]; /* the last entry has data NULL */
#endif
