/* The command qvrt sha256 FILE: prints the hash of a file, to check a copied file on boards without sha256sum. */
#include <stdio.h>

#include "options.h"
#include "qvrt.h"

int qv_sha256_main(int argc, char **argv) {
  static unsigned char block[1 << 16];
  unsigned char hash[32];
  FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  if (!file) {
    fprintf(stderr, "qvrt sha256: wanted one readable file, got %.200s\n", argc == 2 ? argv[1] : argc < 2 ? "none" : "several");
    return 2;
  }
  qv_sha256 c;
  qv_sha256_init(&c);
  for (size_t got; (got = fread(block, 1, sizeof block, file)) > 0;) qv_sha256_add(&c, block, got);
  int bad = ferror(file);
  fclose(file);
  if (bad) {
    fprintf(stderr, "qvrt sha256: %s cannot be read\n", argv[1]);
    return 2;
  }
  qv_sha256_end(&c, hash);
  for (int i = 0; i < 32; i++) printf("%02x", hash[i]);
  printf("\n");
  return 0;
}
