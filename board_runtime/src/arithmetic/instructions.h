/* Chooses the instruction set of the kernels: the best one of the CPU, or one by name. */
#ifndef QV_INSTRUCTIONS_H
#define QV_INSTRUCTIONS_H
#include "dot.h"
#include "elementwise.h"
#include "products.h"

typedef struct {
  const char *name;
  const qv_dots *dots;
  const qv_products *products;       /* NULL: dots are used instead */
  const qv_elementwise *elementwise; /* NULL: the ops use their own loops */
} qv_instructions;

/* Copies instruction set number `place` of those that this CPU has to *i, the best at place 0, the portable one last.
   Returns 0 if there is none at this place, otherwise 1. */
int qv_instructions_of_cpu(int place, qv_instructions *i);
/* Chooses the instruction set for every model loaded from now on. Returns 0 if this CPU has none of that name. */
int qv_choose_instructions(const char *name);
qv_instructions qv_chosen_instructions(void);
#endif
