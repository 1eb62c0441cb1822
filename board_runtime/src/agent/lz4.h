/* LZ4 blocks, written from the public description of the format; used for data on slow connections. */
#ifndef QV_LZ4_H
#define QV_LZ4_H
#include "qvrt.h"

/* Returns the bytes written, or 0 if the block does not fit into `room` bytes. size: at most 1 MiB. */
uint32_t qv_lz4_pack(const uint8_t *data, uint32_t size, uint8_t *out, uint32_t room);
/* Returns 1 if the block is valid and unpacks to exactly `size` bytes, otherwise 0. */
int qv_lz4_unpack(const uint8_t *block, uint32_t length, uint8_t *out, uint32_t size);
#endif
