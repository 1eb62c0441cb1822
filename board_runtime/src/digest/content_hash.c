/* SHA-256 (FIPS 180-4) of a stream of bytes. */
#include <string.h>

#include "qvrt.h"

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t right(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

/* One of the 64 rounds. The caller rotates the names of the eight words from round to round, so that none is moved. */
#define ROUND(a, b, c, d, e, f, g, h, i) \
  do { \
    uint32_t t = h + (right(e, 6) ^ right(e, 11) ^ right(e, 25)) + (g ^ (e & (f ^ g))) + K[i] + w[(i) & 15]; \
    d += t; \
    h = t + (right(a, 2) ^ right(a, 13) ^ right(a, 22)) + ((a & b) | (c & (a | b))); \
  } while (0)

static uint32_t next_word(const uint32_t w[16], int i) {
  uint32_t far = w[(i + 1) & 15], near = w[(i + 14) & 15];
  return w[i & 15] + (right(far, 7) ^ right(far, 18) ^ (far >> 3)) + w[(i + 9) & 15] + (right(near, 17) ^ right(near, 19) ^ (near >> 10));
}

static void compress(uint32_t s[8], const uint8_t *p) {
  uint32_t w[16], a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
  for (int i = 0; i < 16; i++) w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
  for (int i = 0; i < 64; i += 8) {
    for (int k = 0; k < 8 && i >= 16; k++) w[(i + k) & 15] = next_word(w, i + k);
    ROUND(a, b, c, d, e, f, g, h, i);
    ROUND(h, a, b, c, d, e, f, g, i + 1);
    ROUND(g, h, a, b, c, d, e, f, i + 2);
    ROUND(f, g, h, a, b, c, d, e, i + 3);
    ROUND(e, f, g, h, a, b, c, d, i + 4);
    ROUND(d, e, f, g, h, a, b, c, i + 5);
    ROUND(c, d, e, f, g, h, a, b, i + 6);
    ROUND(b, c, d, e, f, g, h, a, i + 7);
  }
  s[0] += a;
  s[1] += b;
  s[2] += c;
  s[3] += d;
  s[4] += e;
  s[5] += f;
  s[6] += g;
  s[7] += h;
}

void qv_sha256_init(qv_sha256 *c) {
  static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memset(c, 0, sizeof *c);
  memcpy(c->h, start, sizeof start);
}

void qv_sha256_add(qv_sha256 *c, const void *data, size_t bytes) {
  const uint8_t *p = data;
  c->bytes += bytes;
  while (bytes) {
    if (c->fill == 0 && bytes >= 64) {
      compress(c->h, p);
      p += 64;
      bytes -= 64;
      continue;
    }
    size_t take = 64 - c->fill < bytes ? 64 - c->fill : bytes;
    memcpy(c->block + c->fill, p, take);
    c->fill += (uint32_t)take;
    p += take;
    bytes -= take;
    if (c->fill == 64) {
      compress(c->h, c->block);
      c->fill = 0;
    }
  }
}

void qv_sha256_end(qv_sha256 *c, uint8_t out[32]) {
  uint64_t bits = c->bytes * 8;
  uint8_t tail[72] = {0x80};
  size_t pad = (c->fill < 56 ? 56 : 120) - c->fill;
  for (size_t i = 0; i < 8; i++) tail[pad + i] = (uint8_t)(bits >> (56 - 8 * i));
  qv_sha256_add(c, tail, pad + 8);
  for (int i = 0; i < 32; i++) out[i] = (uint8_t)(c->h[i / 4] >> (24 - 8 * (i % 4)));
}

int qv_sha256_is(const uint8_t hash[32], const void *data, size_t bytes) {
  uint8_t found[32];
  qv_sha256 c;
  qv_sha256_init(&c);
  qv_sha256_add(&c, data, bytes);
  qv_sha256_end(&c, found);
  return memcmp(found, hash, 32) == 0;
}
