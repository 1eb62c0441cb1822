/* Files, memory, clock and processor of the operating system. */
#ifndef QV_POSIX_H
#define QV_POSIX_H
#include "qvrt.h"

uint64_t qv_now_ns(void);
int64_t qv_memory_bytes(void);
/* Keeps this process, and threads that it starts from now on, on one processor (counted from 0). Returns 0 if the
   system refuses. */
int qv_stay_on_processor(int number);
const char *qv_machine(void);
/* Returns the name and release of the system, such as "Linux 6.1.0", without quotes and control characters. */
const char *qv_system(void);
/* Returns the temperature of the hottest thermal zone in thousandths of a degree Celsius; INT32_MIN if it is unknown.
   */
int32_t qv_temperature_mc(void);
/* Returns the current frequency of the fastest processor in kHz; INT32_MIN if it is unknown. */
int32_t qv_frequency_khz(void);
/* Maps a whole regular file into memory, which qv_unmap_file frees and which can be written to without changing the
   file. Where there is no such mapping it is read. Returns QV_E_IO or QV_E_MEMORY on failure. */
qv_status qv_map_file(const char *path, uint8_t **data, size_t *bytes);
/* How the bytes of a file are in memory: allocated by qv_aligned_alloc, mapped by qv_map_file, or lent by their owner. */
enum { QV_OWNED, QV_MAPPED, QV_LENT };
/* Lets the system take back the memory of a part of a mapped file that nothing was written to; it is read again where it
   is used again. Without effect where constants are written to, to convert their byte order. Never for other memory. */
void qv_release_file(const void *data, size_t bytes);
void qv_unmap_file(uint8_t *data, size_t bytes);
/* Reads a whole regular file of at most 2 GiB into 64-byte aligned memory, which the caller frees. Returns QV_E_IO or
   QV_E_MEMORY on failure. */
qv_status qv_read_file(const char *path, uint8_t **data, size_t *bytes);
/* Writes PATH.part, then renames it to PATH. Returns QV_E_IO on failure. */
qv_status qv_write_file(const char *path, const void *data, size_t bytes);
void *qv_aligned_alloc(size_t bytes); /* 64-byte aligned, freed with free */
#endif
