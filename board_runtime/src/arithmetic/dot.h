/* Fast integer kernels on int16 operands from which the zero point is already subtracted ("centred"). Their results are
   bit-identical to those of the plain loops. Sums wrap in uint32. */
#ifndef QV_DOT_H
#define QV_DOT_H
#include "requantize.h"

/* A panel contains QV_PANEL columns (pixels). Two steps of the depth lie side by side:
   panel[(k/2)*2*QV_PANEL + 2*column + k%2]. */
enum { QV_PANEL = 16, QV_TILE = 64, QV_ROWS = 4 };

typedef struct {
  const int16_t *line[3]; /* three input lines, padding included */
  const int16_t *weights; /* 9 weights, row by row */
  int64_t stride, dilation;
} qv_taps;

typedef struct {
  const char *name;
  /* acc[r*QV_TILE + c] = sum over k < 2*pairs of w[r*stride + k] * panel column c, for QV_ROWS rows and QV_PANEL columns. */
  void (*panel)(const int16_t *w, int64_t stride, const int16_t *panel, int64_t pairs, uint32_t *acc);
  void (*taps)(const qv_taps *t, uint32_t *acc, int64_t count);        /* acc[j] = sum of the 3 x 3 taps at column j*stride */
  uint32_t (*row)(const int16_t *x, const int16_t *w, int64_t length); /* returns a dot product */
  /* to[j] = requantize(acc[j] + bias) with the channel's scale; `to` is 8-bit, or float32 if r->real is 1. */
  void (*finish)(const qv_requantizer *r, int64_t channel, uint32_t bias, const uint32_t *acc, int64_t count, uint8_t *to);
  /* to[i*step] = from[i] - zero. */
  void (*centre)(const uint8_t *from, int is_signed, int32_t zero, int64_t count, int64_t step, int16_t *to);
} qv_dots;

extern const qv_dots qv_dots_portable;
const qv_dots *qv_dots_avx512(void);
const qv_dots *qv_dots_avx2(void); /* each returns NULL if this CPU lacks the instructions */
const qv_dots *qv_dots_neon(void);

static inline int64_t qv_pairs(int64_t depth) { return (depth + 1) / 2; }
/* Returns the int16 elements of QV_TILE columns of `pairs` pairs. */
static inline int64_t qv_tile_elements(int64_t pairs) { return pairs * 2 * QV_TILE; }
static inline int64_t qv_padded64(int64_t bytes) { return (bytes + 63) / 64 * 64; }
#endif
