/* Reads options of the command line of the form --name=value or --name value. */
#ifndef QV_OPTIONS_H
#define QV_OPTIONS_H
#include <stddef.h>

#include "../loaded.h"

/* Returns the value of an option ("true" if it has none, the last value if it is repeated), or `fallback` if it is absent. */
const char *qv_option(int argc, char **argv, const char *name, const char *fallback);
int qv_flag(int argc, char **argv, const char *name); /* 1 if the option is there and is neither false nor 0 */
/* Sets *value to the number that an option has. Returns 0, after a message on stderr, if it is no number from
   low to high. */
int qv_number(int argc, char **argv, const char *name, long fallback, long low, long high, long *value);
/* Returns the first option that is not in `known`, a list that ends in NULL; NULL if there is none. */
const char *qv_unknown_option(int argc, char **argv, const char *const *known);
/* Returns an option of hrt_model_exec that qvrt does not support, and sets *why to the reason; NULL if
   there is none. */
const char *qv_refused_option(int argc, char **argv, const char **why);
/* Applies --core_id=N: 0 allows any processor, N keeps the process on the Nth. Returns 0, after a message on stderr,
   if that fails. */
int qv_take_core(int argc, char **argv);
/* Sets the inputs of the model from `files`, raw files separated by commas; if roi is not NULL, sets those that
   are parts for a resizer from it ("left,top,right,bottom;..."). Returns QV_E_INPUT, with a message in
   model.error, on failure. */
qv_status qv_feed(qv_loaded *l, const char *files, const char *roi);
/* Applies --threads=N or --thread_num=N. Returns 0, after a message on stderr, if N is not 1 to 64. If the system
   starts fewer threads, prints a message and returns 1. */
int qv_take_threads(int argc, char **argv);
/* Applies --instructions=NAME. Returns 0, after a message on stderr, if this CPU has no such instruction set. */
int qv_take_instructions(int argc, char **argv);
/* Writes the names of the instruction sets that this CPU has, the best first, separated by spaces. */
void qv_list_instructions(char *text, size_t size);
const char *qv_instructions_name(void); /* name of the one in use */
int qv_infer_main(int argc, char **argv);
int qv_model_info_main(int argc, char **argv);
int qv_perf_main(int argc, char **argv);
int qv_agent_main(int argc, char **argv);
int qv_lock_main(int argc, char **argv);
int qv_sha256_main(int argc, char **argv);
#endif
