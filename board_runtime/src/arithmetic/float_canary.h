/* Tells whether the compiler, its library and the processor compute floats as NUMERICS.md wants them. */
#ifndef QV_FLOAT_CANARY_H
#define QV_FLOAT_CANARY_H

/* Returns "exact" or, in a few words, the first operation that is not that of IEEE 754 with subnormals, to nearest even,
   each operation rounded by itself. */
const char *qv_float_canary(void);
#endif
