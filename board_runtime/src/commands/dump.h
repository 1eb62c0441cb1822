/* The dump files of tensors that qvrt infer writes. */
#ifndef QV_DUMP_H
#define QV_DUMP_H
#include "qvrt.h"

typedef struct {
  const char *folder;
  int aligned, text, binary, precision;
  int real;        /* 1: text has the real values, (q - zero point) * scale, of the valid elements */
  int text_axis;   /* a line of text has the elements of the dims from this axis on; one element if it is the rank or more */
  uint8_t *buffer; /* at least as large as the largest tensor */
} qv_dumping;

/* Writes FOLDER/LABEL_NAME.bin and .txt. The caller gives each tensor a different label, because the name of the tensor
   is cut to 180 bytes, and all but letters, digits, "-" and "." in it becomes "_". Returns QV_E_IO, with a message in
   the model's error, on failure. */
qv_status qv_dump(const qv_dumping *d, const qv_session *s, const char *label, int tensor);
#endif
