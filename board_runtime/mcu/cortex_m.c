/* A Cortex-M with the UART of Arm's CMSDK, as the boards MPS2 and MPS3 have it: start-up, serial line, SysTick as the
   clock. UART and CLOCK_HZ may be defined for other places and clocks. */
#include "hal.h"

#ifndef UART
#define UART 0x40004000u
#endif
#ifndef CLOCK_HZ
#define CLOCK_HZ 25000000u
#endif
#define WORD_AT(address) (*(volatile uint32_t *)(uintptr_t)(address))

enum { DATA = 0, STATE = 4, CONTROL = 8, DIVISOR = 16, TX_FULL = 1, RX_FULL = 2, TX_AND_RX = 3 };
enum { TICKS = 0x1000000, UNUSED = 0x5AA55AA5 };
#define SYSTICK 0xE000E010u
#define COPROCESSORS 0xE000ED88u

extern uint32_t qv_data_load[], qv_data_begin[], qv_data_end[], qv_bss_begin[], qv_bss_end[], qv_stack_begin[], qv_stack_end[];
int main(void);
void qv_reset(void);
static volatile uint32_t wraps;

static void on_tick(void) { wraps++; }

/* An exception that nothing handles: says so on the line, and stays. */
static void on_fault(void) {
  static const char TEXT[] = "\r\nerror: the processor took a fault\r\n";
  qv_hal_write(TEXT, sizeof TEXT - 1);
  for (;;) {
  }
}

static void fill(uint32_t *from, const uint32_t *end, uint32_t value) {
  while (from < end) *from++ = value;
}

void qv_reset(void) {
#if defined(__ARM_FP)
  WORD_AT(COPROCESSORS) |= 0xFu << 20; /* the floating-point unit is off after a reset */
  __asm__ volatile("dsb\n isb" ::: "memory");
#endif
#if defined(QV_FLUSH_DENORMALS) /* a mistake of some start-up files, for the test of the canary */
  __asm__ volatile("vmsr fpscr, %0" ::"r"(1u << 24));
#endif
  const uint32_t *load = qv_data_load;
  for (uint32_t *to = qv_data_begin; to < qv_data_end;) *to++ = *load++;
  fill(qv_bss_begin, qv_bss_end, 0);
  fill(qv_stack_begin, (uint32_t *)__builtin_frame_address(0) - 64, UNUSED);
  main();
  on_fault();
}

typedef void (*handler)(void);
__attribute__((section(".vectors"), used)) static const union {
  handler run;
  uint32_t *stack;
} VECTORS[16] = {{.stack = qv_stack_end},
                 {qv_reset},
                 {on_fault},
                 {on_fault},
                 {on_fault},
                 {on_fault},
                 {on_fault},
                 {on_fault},
                 {0},
                 {0},
                 {0},
                 {on_fault},
                 {on_fault},
                 {0},
                 {on_fault},
                 {on_tick}};

void qv_hal_open(void) {
  WORD_AT(UART + DIVISOR) = CLOCK_HZ / 115200 < 16 ? 16 : CLOCK_HZ / 115200;
  WORD_AT(UART + CONTROL) = TX_AND_RX;
  WORD_AT(SYSTICK + 4) = TICKS - 1;
  WORD_AT(SYSTICK + 8) = 0;
  WORD_AT(SYSTICK) = 7; /* on, with its interrupt, at the processor's clock */
}

int qv_hal_read(void) { return WORD_AT(UART + STATE) & RX_FULL ? (int)(WORD_AT(UART + DATA) & 255) : -1; }

void qv_hal_write(const void *data, uint32_t bytes) {
  const uint8_t *p = data;
  for (; bytes; bytes--) {
    while (WORD_AT(UART + STATE) & TX_FULL) {
    }
    WORD_AT(UART + DATA) = *p++;
  }
}

uint64_t qv_hal_now_ns(void) {
  uint32_t before, left;
  do {
    before = wraps;
    left = WORD_AT(SYSTICK + 8);
  } while (before != wraps);
  return ((uint64_t)before * TICKS + (TICKS - 1 - left)) * (1000000000u / CLOCK_HZ);
}

void qv_hal_watchdog(long limit_s) { (void)limit_s; }

uint32_t qv_hal_stack_used(void) {
  const uint32_t *p = qv_stack_begin;
  while (p < qv_stack_end && *p == UNUSED) p++;
  return (uint32_t)(qv_stack_end - p) * 4;
}
