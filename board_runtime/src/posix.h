/* Files, memory and clock: the only POSIX in the runtime. */
#ifndef QV_POSIX_H
#define QV_POSIX_H
#include "qvrt.h"

uint64_t qv_now_ns(void);
int64_t qv_memory_bytes(void);
/* Keeps this process, and threads that it starts from now on, on one processor, from 0; 0 where the system does not. */
int qv_stay_on_processor(int number);
const char *qv_machine(void);
/* Name and release of the system, such as "Linux 6.1.0"; neither quotes nor control characters. */
const char *qv_system(void);
/* Hottest thermal zone in thousandths of a degree Celsius; INT32_MIN where the system tells none. */
int32_t qv_temperature_mc(void);
/* Of the fastest processor now, in kHz; INT32_MIN where the system tells none. */
int32_t qv_frequency_khz(void);
/* The whole file, 64-byte aligned, from malloc; QV_E_IO or QV_E_MEMORY. */
qv_status qv_read_file(const char *path, uint8_t **data, size_t *bytes);
/* Written to PATH.part, then renamed. */
qv_status qv_write_file(const char *path, const void *data, size_t bytes);
void *qv_aligned_alloc(size_t bytes); /* 64-byte aligned, freed with free */
#endif
