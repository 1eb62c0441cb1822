/* qvrt: infer, model_info and perf for people at the board's shell; agent for qverify. */
#include <stdio.h>
#include <string.h>

#include "commands/options.h"

static const char HELP[] =
    "qvrt: runs qverify's model.bin on this machine\n"
    "  qvrt infer      --model_file=M --input_file=A[,B] [--enable_dump] [--dump_format=bin|txt] [--dump_path=DIR]\n"
    "                  [--dump_intermediate=0|1|2|3] [--dump_precision=9] [--remove_padding_process] [--digests] [--frame_count=1]\n"
    "  qvrt model_info --model_file=M\n"
    "  qvrt perf       --model_file=M [--frame_count=20] [--plain]\n"
    "  qvrt agent      --store=DIR          framed protocol on stdin and stdout (PROTOCOL.md)\n"
    "  qvrt --version\n"
    "dump_intermediate: 1 bin aligned, 2 bin and txt aligned, 3 bin and txt valid. Exit status: 0 done, 2 wrong file or usage, 3 the run failed.\n";

int main(int argc, char **argv) {
  const char *face = argc > 1 ? argv[1] : "--help";
  if (strcmp(face, "infer") == 0) return qv_infer_main(argc - 1, argv + 1);
  if (strcmp(face, "model_info") == 0) return qv_model_info_main(argc - 1, argv + 1);
  if (strcmp(face, "perf") == 0) return qv_perf_main(argc - 1, argv + 1);
  if (strcmp(face, "agent") == 0) return qv_agent_main(argc - 1, argv + 1);
  if (strcmp(face, "--version") == 0 || strcmp(face, "-v") == 0) {
    puts("qvrt 0.1.0");
    return 0;
  }
  fputs(HELP, strcmp(face, "--help") == 0 || strcmp(face, "-h") == 0 ? stdout : stderr);
  return strcmp(face, "--help") == 0 || strcmp(face, "-h") == 0 ? 0 : 2;
}
