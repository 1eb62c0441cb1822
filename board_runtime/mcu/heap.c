/* Blocks of one static arena, first fit, each 64-byte aligned with a header of 64 bytes before it. */
#include "heap.h"

#include <stdlib.h>
#include <string.h>

#include "hal.h"
#include "../src/posix.h"

enum { STEP = 64, FREE = 0, USED = 1, LENT = 2 };

typedef struct {
  size_t bytes; /* of the block with this header */
  int state;
} header;

static size_t in_use, most;

static header *header_at(uint8_t *p) { return (header *)(void *)p; }
static uint8_t *first(void) { return qv_heap_begin; }
static uint8_t *last(void) { return first() + qv_heap_bytes(); }

/* The linker script gives the begin and the end; QV_HEAP_LIMIT makes the arena smaller. */
size_t qv_heap_bytes(void) {
  size_t bytes = (size_t)(qv_heap_end - qv_heap_begin) & ~(size_t)(STEP - 1);
#ifdef QV_HEAP_LIMIT
  if (bytes > QV_HEAP_LIMIT) bytes = QV_HEAP_LIMIT & ~(size_t)(STEP - 1);
#endif
  return bytes;
}
size_t qv_heap_most(void) { return most; }

/* Joins a free block with the free ones behind it. */
static void join(uint8_t *p) {
  header *h = header_at(p);
  while (p + h->bytes < last() && header_at(p + h->bytes)->state == FREE) h->bytes += header_at(p + h->bytes)->bytes;
}

void *qv_aligned_alloc(size_t bytes) {
  static int open;
  if (!open) {
    header_at(first())->bytes = qv_heap_bytes();
    header_at(first())->state = FREE;
    open = 1;
  }
  if (bytes > qv_heap_bytes()) return NULL;
  size_t need = STEP + (bytes + STEP - 1) / STEP * STEP;
  for (uint8_t *p = first(); p < last(); p += header_at(p)->bytes) {
    header *h = header_at(p);
    if (h->state != FREE) continue;
    join(p);
    if (h->bytes < need) continue;
    if (h->bytes > need) {
      header_at(p + need)->bytes = h->bytes - need;
      header_at(p + need)->state = FREE;
      h->bytes = need;
    }
    h->state = USED;
    in_use += need;
    if (in_use > most) most = in_use;
    return p + STEP;
  }
  return NULL;
}

static header *block_of(void *p) {
  uint8_t *at = p;
  return at > first() && at < last() ? header_at(at - STEP) : NULL; /* not of a content in flash */
}

void qv_heap_lend(void *p, int on) {
  header *h = block_of(p);
  if (h) h->state = on ? LENT : USED;
}

void *malloc(size_t bytes) { return qv_aligned_alloc(bytes); }

void *calloc(size_t count, size_t each) {
  if (each && count > SIZE_MAX / each) return NULL;
  void *p = qv_aligned_alloc(count * each);
  if (p) memset(p, 0, count * each);
  return p;
}

void free(void *p) {
  header *h = block_of(p);
  if (!h || h->state != USED) return;
  h->state = FREE;
  in_use -= h->bytes;
}
