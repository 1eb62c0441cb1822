/* The agent's connection to the host over stdin and stdout. */
#ifndef QV_WIRE_H
#define QV_WIRE_H
#include "qvrt.h"

/* If stdin is a terminal, sets it to raw mode (8 bits, no echo, no flow control by characters) until the process ends.
   */
void qv_wire_open(void);
/* Returns the bytes read; 0 if none arrived within wait_ms milliseconds (-1: no limit); -1 if the other end closed the
   connection. */
int64_t qv_wire_read(uint8_t *to, size_t room, int wait_ms);
int qv_wire_write(const uint8_t *data, size_t bytes); /* returns 0, or -1 if the connection is closed */
/* While on is 1, checks once a second, even while a node is computed, and ends the process if the other end closed the
   connection or qv_wire_alive was not called for limit_s seconds (0: no limit). */
void qv_wire_watch(int on, long limit_s);
void qv_wire_alive(void);
#endif
