/* SHA-256 (FIPS 180-4) of a stream of bytes. */
#include <string.h>

#include "qvrt.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

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

static void compress_plainly(uint32_t s[8], const uint8_t *p) {
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

#if defined(__x86_64__)
/* Returns whether the processor has the instructions of compress_by_four. */
static int has_instructions(void) {
  static int known; /* 1 no, 2 yes */
  unsigned a, b, c, d, b1, c1;
  if (known) return known == 2;
  int has = __get_cpuid(1, &a, &b1, &c1, &d) && (c1 & 1u << 9) && (c1 & 1u << 19); /* SSSE3, SSE4.1 */
  has = has && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 29);
  known = has ? 2 : 1;
  return has;
}

/* Adds blocks of 64 bytes, four rounds at a time. The instructions want the eight words as two vectors: f e b a and
   h g d c, from the lowest element on. */
__attribute__((target("sha,sse4.1,ssse3"))) static void compress_by_four(uint32_t s[8], const uint8_t *p, size_t blocks) {
  const __m128i order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i *state = (__m128i *)(void *)s;
  __m128i low = _mm_shuffle_epi32(_mm_loadu_si128(state), 0xb1), high = _mm_shuffle_epi32(_mm_loadu_si128(state + 1), 0x1b);
  __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0), w[4];
  for (; blocks; blocks--, p += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    for (int i = 0; i < 16; i++) {
      if (i < 4) {
        w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i)), order);
      } else {
        __m128i last = w[(i + 3) & 3], far = _mm_sha256msg1_epu32(w[i & 3], w[(i + 1) & 3]);
        w[i & 3] = _mm_sha256msg2_epu32(_mm_add_epi32(far, _mm_alignr_epi8(last, w[(i + 2) & 3], 4)), last);
      }
      __m128i t = _mm_add_epi32(w[i & 3], _mm_loadu_si128((const __m128i *)(const void *)(K + 4 * i)));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, t);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(t, 0x0e));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  low = _mm_shuffle_epi32(abef, 0x1b);
  high = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(state, _mm_blend_epi16(low, high, 0xf0));
  _mm_storeu_si128(state + 1, _mm_alignr_epi8(high, low, 8));
}
#endif

static void compress(uint32_t s[8], const uint8_t *p, size_t blocks) {
#if defined(__x86_64__)
  if (has_instructions()) {
    compress_by_four(s, p, blocks);
    return;
  }
#endif
  for (; blocks; blocks--, p += 64) compress_plainly(s, p);
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
      compress(c->h, p, bytes / 64);
      p += bytes / 64 * 64;
      bytes %= 64;
      continue;
    }
    size_t take = 64 - c->fill < bytes ? 64 - c->fill : bytes;
    memcpy(c->block + c->fill, p, take);
    c->fill += (uint32_t)take;
    p += take;
    bytes -= take;
    if (c->fill == 64) {
      compress(c->h, c->block, 1);
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
