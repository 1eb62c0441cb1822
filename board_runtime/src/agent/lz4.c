/* LZ4 blocks; the packer finds matches of four bytes or more with one hash table and takes the first one (greedy). */
#include "lz4.h"

#include <string.h>

#ifndef QV_LZ4_BITS
#define QV_LZ4_BITS 12 /* fewer bits need less memory and find fewer matches */
#endif
enum { MATCH = 4, LAST_LITERALS = 5, NO_MATCH_WITHIN = 12, TABLE_BITS = QV_LZ4_BITS, FARTHEST = 65535 };

typedef struct {
  uint8_t *out;
  uint32_t at, room;
  int full;
} writer;

static uint32_t load32(const uint8_t *p) {
  uint32_t v;
  memcpy(&v, p, 4);
  return v;
}

static void put(writer *w, const uint8_t *data, uint32_t bytes) {
  if (w->full || bytes > w->room - w->at) {
    w->full = 1;
    return;
  }
  memcpy(w->out + w->at, data, bytes);
  w->at += bytes;
}

static void put_byte(writer *w, uint32_t value) {
  uint8_t byte = (uint8_t)value;
  put(w, &byte, 1);
}

/* Writes the part of a length from 15 on, which does not fit into its nibble of the token. */
static void put_rest(writer *w, uint32_t length) {
  if (length < 15) return;
  for (length -= 15; length >= 255 && !w->full; length -= 255) put_byte(w, 255);
  put_byte(w, length);
}

/* Writes one sequence: `count` literals and a match of `match` bytes; if match is 0, literals only, which end the
   block. */
static void put_sequence(writer *w, const uint8_t *literals, uint32_t count, uint32_t offset, uint32_t match) {
  uint32_t low = match ? match - MATCH : 0;
  put_byte(w, (count < 15 ? count : 15) << 4 | (low < 15 ? low : 15));
  put_rest(w, count);
  put(w, literals, count);
  if (!match) return;
  put_byte(w, offset & 255);
  put_byte(w, offset >> 8);
  put_rest(w, low);
}

uint32_t qv_lz4_pack(const uint8_t *data, uint32_t size, uint8_t *out, uint32_t room) {
  static uint32_t table[1 << TABLE_BITS]; /* position of the last four bytes with this hash */
  writer w = {out, 0, room, 0};
  uint32_t start = 0, at = 0, last = size > NO_MATCH_WITHIN ? size - NO_MATCH_WITHIN : 0,
           match_end = size > LAST_LITERALS ? size - LAST_LITERALS : 0;
  memset(table, 0xff, sizeof table);
  while (at < last && !w.full) {
    uint32_t four = load32(data + at), *slot = &table[(four * 2654435761u) >> (32 - TABLE_BITS)], before = *slot;
    *slot = at;
    if (before == UINT32_MAX || at - before > FARTHEST || load32(data + before) != four) {
      at++;
      continue;
    }
    uint32_t length = MATCH;
    while (at + length < match_end && data[before + length] == data[at + length]) length++;
    put_sequence(&w, data + start, at - start, at - before, length);
    start = at += length;
  }
  put_sequence(&w, data + start, size - start, 0, 0);
  return w.full ? 0 : w.at;
}

static int take_rest(const uint8_t *block, uint32_t length, uint32_t *at, uint32_t *value) {
  if (*value != 15) return 1;
  for (;;) {
    if (*at >= length || *value > 1u << 24) return 0;
    uint32_t more = block[(*at)++];
    *value += more;
    if (more != 255) return 1;
  }
}

int qv_lz4_unpack(const uint8_t *block, uint32_t length, uint8_t *out, uint32_t size) {
  uint32_t at = 0, made = 0;
  while (at < length) {
    uint32_t token = block[at++], literals = token >> 4, match = token & 15;
    if (!take_rest(block, length, &at, &literals) || literals > length - at || literals > size - made) return 0;
    memcpy(out + made, block + at, literals);
    at += literals;
    made += literals;
    if (at == length) return made == size && match == 0;
    if (length - at < 2) return 0;
    uint32_t offset = (uint32_t)block[at] | (uint32_t)block[at + 1] << 8;
    at += 2;
    if (!take_rest(block, length, &at, &match) || offset == 0 || offset > made || match + MATCH > size - made) return 0;
    for (uint32_t end = made + match + MATCH; made < end; made++) out[made] = out[made - offset];
  }
  return 0;
}
