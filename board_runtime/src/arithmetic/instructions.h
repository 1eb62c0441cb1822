/* The instruction set that the kernels use: the best of the CPU, or one by name. */
#ifndef QV_INSTRUCTIONS_H
#define QV_INSTRUCTIONS_H
#include "dot.h"
#include "elementwise.h"
#include "products.h"

typedef struct {
  const char *name;
  const qv_dots *dots;
  const qv_products *products;       /* NULL: dots serve */
  const qv_elementwise *elementwise; /* NULL: the ops' own loops */
} qv_instructions;

/* Those that this CPU runs, the best at place 0, the portable ones last; 0 beyond. */
int qv_instructions_of_cpu(int place, qv_instructions *i);
/* Of every model loaded from now on; 0: this CPU has none of that name. */
int qv_choose_instructions(const char *name);
qv_instructions qv_chosen_instructions(void);
#endif
