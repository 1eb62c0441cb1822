/* The memory of the agent: one static arena. malloc, calloc and free are part of it. */
#ifndef QV_HEAP_H
#define QV_HEAP_H
#include <stddef.h>
#include <stdint.h>

size_t qv_heap_bytes(void);         /* size of the arena */
size_t qv_heap_most(void);          /* the most bytes that were ever in use */
void qv_heap_lend(void *p, int on); /* with on 1, free() leaves this block until it is called with on 0 */
#endif
