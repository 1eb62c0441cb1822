/* QEMU's RISC-V machine `virt` in machine mode: start-up, serial line (NS16550), the CLINT's timer as the clock. */
#include "hal.h"

#define BYTE_AT(address) (*(volatile uint8_t *)(uintptr_t)(address))
#define WORD_AT(address) (*(volatile uint32_t *)(uintptr_t)(address))

enum { UART = 0x10000000, TIME = 0x0200BFF8, TICK_NS = 100, FIFO = 2, LINE_STATE = 5, RX_READY = 1, TX_EMPTY = 0x20 };
static const uint32_t UNUSED = 0x5AA55AA5;

extern uint32_t qv_bss_begin[], qv_bss_end[], qv_stack_begin[], qv_stack_end[];
int main(void);
void qv_start_c(void);
void qv_start(void);

__attribute__((naked, section(".start"), used)) void qv_start(void) {
  __asm__ volatile(
#if defined(__riscv_flen)
      "li t0, 0x6000\n csrs mstatus, t0\n fscsr x0\n" /* the floating-point unit is off after a reset */
#endif
      "la sp, qv_stack_end\n call qv_start_c\n 1: j 1b\n");
}

static void fill(uint32_t *from, const uint32_t *end, uint32_t value) {
  while (from < end) *from++ = value;
}

void qv_start_c(void) {
  fill(qv_bss_begin, qv_bss_end, 0);
  fill(qv_stack_begin, (uint32_t *)__builtin_frame_address(0) - 64, UNUSED);
  main();
}

void qv_hal_open(void) { BYTE_AT(UART + FIFO) = 7; /* on, and emptied */ }

int qv_hal_read(void) { return BYTE_AT(UART + LINE_STATE) & RX_READY ? BYTE_AT(UART) : -1; }

void qv_hal_write(const void *data, uint32_t bytes) {
  const uint8_t *p = data;
  for (; bytes; bytes--) {
    while (!(BYTE_AT(UART + LINE_STATE) & TX_EMPTY)) {
    }
    BYTE_AT(UART) = *p++;
  }
}

uint64_t qv_hal_now_ns(void) {
  uint32_t high, low;
  do {
    high = WORD_AT(TIME + 4);
    low = WORD_AT(TIME);
  } while (high != WORD_AT(TIME + 4));
  return ((uint64_t)high << 32 | low) * TICK_NS;
}

void qv_hal_watchdog(long limit_s) { (void)limit_s; }

uint32_t qv_hal_stack_used(void) {
  const uint32_t *p = qv_stack_begin;
  while (p < qv_stack_end && *p == UNUSED) p++;
  return (uint32_t)(qv_stack_end - p) * 4;
}
