/* Main function of qvrt: the commands infer, model_info and perf for people at the board's shell, and agent for
   qverify. */
#include <stdio.h>
#include <string.h>

#include "commands/options.h"

static const char HELP[] =
    "qvrt: runs qverify's model.bin on this machine\n"
    "  qvrt infer      --model_file=M --input_file=A[,B] [--enable_dump] [--dump_format=bin|txt] [--dump_path=DIR]\n"
    "                  [--dump_intermediate=0|1|2|3] [--dump_precision=9] [--remove_padding_process] [--digests] [--frame_count=1] [--plain]\n"
    "                  [--hybrid_dequantize_process] [--dump_txt_axis=N] [--roi_infer --roi=\"left,top,right,bottom;...\"]\n"
    "                  [--core_id=0] [--instructions=NAME] [--threads=1]\n"
    "  qvrt model_info --model_file=M\n"
    "  qvrt perf       --model_file=M [--frame_count=20] [--perf_time=MINUTES] [--profile_path=DIR] [--plain] [--core_id=0]\n"
    "                  [--instructions=NAME] [--threads=1]\n"
    "  qvrt agent      [--store=DIR] [--store_limit=BYTES] [--memory=BYTES] [--lock=auto|FILE] [--idle=SECONDS] [--node_limit=SECONDS]\n"
    "                  [--instructions=NAME] [--threads=1]\n"
    "                  framed protocol on stdin and stdout (PROTOCOL.md)\n"
    "  qvrt lock       show|break [--path=FILE]   who uses this board\n"
    "  qvrt sha256     FILE\n"
    "  qvrt --version\n"
    "plain: without the vectorised kernels; the bits are the same. instructions: the kernels of one instruction set (qvrt --version names them). dump_intermediate: 1 bin aligned, 2 bin and txt aligned, 3 bin and txt valid. dump_txt_axis: a line of text has the elements of the dims from this axis on. hybrid_dequantize_process: outputs as real values, in txt. core_id: 0 any processor, N the Nth. dump_dir and thread_num are dump_path and threads. Of an option given twice the last counts. Exit status: 0 done, 2 wrong file or usage, 3 the run failed.\n";

typedef struct {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *options[22]; /* the last one is NULL */
} qv_face;

static const qv_face FACES[] = {
    {"infer",
     qv_infer_main,
     {"model_file",
      "input_file",
      "enable_dump",
      "dump_format",
      "dump_path",
      "dump_intermediate",
      "dump_precision",
      "remove_padding_process",
      "digests",
      "frame_count",
      "plain",
      "instructions",
      "threads",
      "thread_num",
      "dump_dir",
      "core_id",
      "hybrid_dequantize_process",
      "dump_txt_axis",
      "roi_infer",
      "roi",
      NULL}},
    {"model_info", qv_model_info_main, {"model_file", NULL}},
    {"perf",
     qv_perf_main,
     {"model_file", "frame_count", "plain", "instructions", "threads", "thread_num", "perf_time", "profile_path", "core_id", NULL}},
    {"agent", qv_agent_main, {"store", "store_limit", "memory", "lock", "idle", "node_limit", "instructions", "threads", NULL}},
    {"lock", qv_lock_main, {"path", NULL}},
    {"sha256", qv_sha256_main, {NULL}},
};

static int asks_for_help(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return 1;
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-v") == 0)) {
    char names[200];
    qv_list_instructions(names, sizeof names);
    printf("qvrt 0.2.0\ninstructions of this processor: %s\n", names);
    return 0;
  }
  int help = argc < 2 || asks_for_help(argc, argv);
  for (size_t i = 0; !help && i < sizeof FACES / sizeof *FACES; i++) {
    if (strcmp(argv[1], FACES[i].name) != 0) continue;
    const char *why = NULL, *refused = i < 3 ? qv_refused_option(argc - 1, argv + 1, &why) : NULL;
    if (refused) {
      fprintf(stderr, "qvrt %s: --%s: %s\n", argv[1], refused, why);
      return 2;
    }
    const char *unknown = qv_unknown_option(argc - 1, argv + 1, FACES[i].options);
    if (!unknown) return FACES[i].run(argc - 1, argv + 1);
    fprintf(stderr, "qvrt %s: unknown option %.60s. Next: qvrt --help\n", argv[1], unknown);
    return 2;
  }
  fputs(HELP, help ? stdout : stderr);
  return help ? 0 : 2;
}
