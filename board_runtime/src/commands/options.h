/* --name=value and --name value options of the command line. */
#ifndef QV_OPTIONS_H
#define QV_OPTIONS_H
#include <stddef.h>

const char *qv_option(int argc, char **argv, const char *name, const char *fallback);
int qv_flag(int argc, char **argv, const char *name); /* present, and not false or 0 */
/* 0 and a line on stderr: not one in range. */
int qv_number(int argc, char **argv, const char *name, long fallback, long low, long high, long *value);
const char *qv_unknown_option(int argc, char **argv, const char *const *known); /* the first not in a NULL-ended list, or NULL */
/* --threads=N; 0 and a line on stderr: not 1 to 64. 1 and a line on stderr: the system starts fewer. */
int qv_take_threads(int argc, char **argv);
int qv_take_instructions(int argc, char **argv); /* --instructions=NAME; 0 and a line on stderr: not one of this CPU's */
/* The names of those that this CPU runs, the best first, with spaces between. */
void qv_list_instructions(char *text, size_t size);
const char *qv_instructions_name(void); /* of those that are used */
int qv_infer_main(int argc, char **argv);
int qv_model_info_main(int argc, char **argv);
int qv_perf_main(int argc, char **argv);
int qv_agent_main(int argc, char **argv);
int qv_lock_main(int argc, char **argv);
int qv_sha256_main(int argc, char **argv);
#endif
