/* Chooses the instruction set of the kernels: the best one of the CPU, or one by name. */
#include "instructions.h"

enum { MOST = 8 };
static qv_instructions found[MOST];
static int count, chosen;

static void add(const char *name, int is_there, const qv_dots *dots, const qv_products *products, const qv_elementwise *elementwise) {
  qv_instructions i = {name, dots, products, elementwise};
#ifdef QV_WITHOUT_PRODUCTS /* set by scripts/bench kernels, so that the kernels which its bugs edit are the ones that run */
  is_there = is_there && !products;
  i.elementwise = NULL;
#endif
  if (is_there) found[count++] = i;
}

/* Lists the instruction sets of this CPU, the best first. A new one is a line here, before those that are slower.
   Called once only, because CPUID is slow on a virtual machine. */
static void find(void) {
  const qv_dots *avx2 = qv_dots_avx2(), *neon = qv_dots_neon();
  const qv_products *wide = qv_products_avx512_vnni(), *narrow = qv_products_avx_vnni();
  const qv_products *i8mm = qv_products_i8mm(), *dotprod = qv_products_dotprod();
  add("avx512_vnni", wide != NULL, qv_dots_avx512(), wide, qv_elementwise_avx512());
  add("avx_vnni", narrow != NULL, avx2, narrow, qv_elementwise_avx2());
  add("avx2", avx2 != NULL, avx2, NULL, qv_elementwise_avx2());
  add("i8mm", i8mm != NULL, neon, i8mm, qv_elementwise_neon());
  add("dotprod", dotprod != NULL, neon, dotprod, qv_elementwise_neon());
  add("neon", neon != NULL, neon, NULL, qv_elementwise_neon());
  add("portable", 1, &qv_dots_portable, NULL, NULL);
}

int qv_instructions_of_cpu(int place, qv_instructions *i) {
  if (!count) find();
  if (place >= count) return 0;
  *i = found[place];
  return 1;
}

int qv_choose_instructions(const char *name) {
  qv_instructions i;
  for (int place = 0; qv_instructions_of_cpu(place, &i); place++) {
    if (strcmp(i.name, name) != 0) continue;
    chosen = place;
    return 1;
  }
  return 0;
}

qv_instructions qv_chosen_instructions(void) {
  qv_instructions i;
  qv_instructions_of_cpu(chosen, &i);
  return i;
}
