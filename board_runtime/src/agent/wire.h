/* stdin and stdout as the agent's wire. */
#ifndef QV_WIRE_H
#define QV_WIRE_H
#include "qvrt.h"

/* A terminal is made raw (8 bit, no echo, no flow control by characters); anything else is left alone. */
void qv_wire_open(void);
/* Bytes read; 0: nothing within wait_ms (-1: for ever); -1: the other end is gone. */
int64_t qv_wire_read(uint8_t *to, size_t room, int wait_ms);
int qv_wire_write(const uint8_t *data, size_t bytes); /* 0, or -1 when the other end is gone */
/* While on, once a second: the agent ends where the other end has gone, whatever it is computing, or where qv_wire_alive was
   not called for limit_s (0: for ever). */
void qv_wire_watch(int on, long limit_s);
void qv_wire_alive(void);
#endif
