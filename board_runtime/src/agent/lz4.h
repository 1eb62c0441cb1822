/* LZ4 blocks, from the format's public description: what crosses a slow wire. */
#ifndef QV_LZ4_H
#define QV_LZ4_H
#include "qvrt.h"

/* Bytes written, or 0 when the block would not be shorter than room. size at most 1 MiB. */
uint32_t qv_lz4_pack(const uint8_t *data, uint32_t size, uint8_t *out, uint32_t room);
/* 1 when the block gives exactly size bytes. */
int qv_lz4_unpack(const uint8_t *block, uint32_t length, uint8_t *out, uint32_t size);
#endif
