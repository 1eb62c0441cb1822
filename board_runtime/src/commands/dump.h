/* Files of tensors that qvrt infer writes. */
#ifndef QV_DUMP_H
#define QV_DUMP_H
#include "qvrt.h"

typedef struct {
  const char *folder;
  int aligned, text, binary, precision;
  int real;        /* text of real values: quantized ones times their scale, always the valid elements */
  int text_axis;   /* a line has the elements of the dims from this axis on; the rank, or more: one */
  uint8_t *buffer; /* for the largest tensor */
} qv_dumping;

/* Writes DIR/LABEL_NAME.bin and .txt; the label is unlike any other, the name is cut at 180 bytes, what is not a letter, digit, - or .
   is _. QV_E_IO with the line in model.error. */
qv_status qv_dump(const qv_dumping *d, const qv_session *s, const char *label, int tensor);
#endif
