/* XXH64 of a byte range, written from its public specification; words are loaded byte by byte as little-endian. */
#include "qvrt.h"

static const uint64_t P1 = 0x9E3779B185EBCA87ULL, P2 = 0xC2B2AE3D27D4EB4FULL, P3 = 0x165667B19E3779F9ULL, P4 = 0x85EBCA77C2B2AE63ULL,
                      P5 = 0x27D4EB2F165667C5ULL;

static uint64_t rotate(uint64_t x, int r) { return (x << r) | (x >> (64 - r)); }
static uint32_t load32(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }
static uint64_t load64(const uint8_t *p) { return load32(p) | (uint64_t)load32(p + 4) << 32; }
static uint64_t lane(uint64_t acc, uint64_t input) { return rotate(acc + input * P2, 31) * P1; }
static uint64_t merge(uint64_t h, uint64_t acc) { return (h ^ lane(0, acc)) * P1 + P4; }

uint64_t qv_xxh64(const void *data, size_t bytes, uint64_t seed) {
  const uint8_t *p = data, *end = p + bytes;
  uint64_t h;
  if (bytes >= 32) {
    uint64_t a = seed + P1 + P2, b = seed + P2, c = seed, d = seed - P1;
    for (; end - p >= 32; p += 32) {
      a = lane(a, load64(p));
      b = lane(b, load64(p + 8));
      c = lane(c, load64(p + 16));
      d = lane(d, load64(p + 24));
    }
    h = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
    h = merge(merge(merge(merge(h, a), b), c), d);
  } else {
    h = seed + P5;
  }
  h += (uint64_t)bytes;
  for (; end - p >= 8; p += 8) h = rotate(h ^ lane(0, load64(p)), 27) * P1 + P4;
  if (end - p >= 4) {
    h = rotate(h ^ ((uint64_t)load32(p) * P1), 23) * P2 + P3;
    p += 4;
  }
  for (; p < end; p++) h = rotate(h ^ (*p * P5), 11) * P1;
  h = (h ^ (h >> 33)) * P2;
  h = (h ^ (h >> 29)) * P3;
  return h ^ (h >> 32);
}
