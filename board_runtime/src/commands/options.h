/* --name=value and --name value options of the command line. */
#ifndef QV_OPTIONS_H
#define QV_OPTIONS_H
#include <stddef.h>

#include "../loaded.h"

const char *qv_option(int argc, char **argv, const char *name, const char *fallback);
int qv_flag(int argc, char **argv, const char *name); /* present, and not false or 0 */
/* 0 and a line on stderr: not one in range. */
int qv_number(int argc, char **argv, const char *name, long fallback, long low, long high, long *value);
const char *qv_unknown_option(int argc, char **argv, const char *const *known); /* the first not in a NULL-ended list, or NULL */
/* An option of hrt_model_exec that qvrt cannot mean, and the reason; NULL without one. */
const char *qv_refused_option(int argc, char **argv, const char **why);
/* --core_id=N: 0 any processor, N the Nth; 0 and a line on stderr where this process cannot stay there. */
int qv_take_core(int argc, char **argv);
/* The comma list of raw files, and with roi "left,top,right,bottom;..." the parts of resizer inputs; QV_E_INPUT with the line in
   model.error. */
qv_status qv_feed(qv_loaded *l, const char *files, const char *roi);
/* --threads=N, or --thread_num=N; 0 and a line on stderr: not 1 to 64. 1 and a line on stderr: the system starts fewer. */
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
