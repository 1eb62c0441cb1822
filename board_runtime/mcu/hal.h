/* What a bare-metal program needs of its machine: a serial line by polling, a clock, and memory. */
#ifndef QV_HAL_H
#define QV_HAL_H
#include <stdint.h>

void qv_hal_open(void);                              /* sets up the line and the clock */
int qv_hal_read(void);                               /* a byte that was received, or -1 */
void qv_hal_write(const void *data, uint32_t bytes); /* returns once the line has taken every byte */
uint64_t qv_hal_now_ns(void);                        /* time since qv_hal_open */
/* Resets the machine unless it is called again within limit_s seconds; 0: never. Does nothing where the machine has no
   watchdog. */
void qv_hal_watchdog(long limit_s);
uint32_t qv_hal_stack_used(void);              /* the most bytes of the stack that were ever in use */
extern uint8_t qv_heap_begin[], qv_heap_end[]; /* memory that no variable uses, from the linker script */
#endif
