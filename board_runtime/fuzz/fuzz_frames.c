/* Fuzzes the frame reader: any bytes, in any portions. libFuzzer entry; with -DQV_FUZZ_FILES a main that takes files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/agent/messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads the payload as every message there is; all of it must stay inside. */
static void read_payload(const qv_frame *f) {
  char name[QV_TEXT];
  qv_cursor c = qv_payload(f);
  qv_take(&c, 32);
  uint32_t count = qv_take16(&c);
  for (uint32_t i = 0; i < count && !c.bad; i++) qv_take_text(&c, name);
  qv_take64(&c);
  if (c.p < f->payload || c.p > f->payload + f->length) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static uint8_t buffer[QV_FRAME_BUFFER];
  qv_frame_reader r = {buffer, 0, 0};
  size_t portion = size ? 1 + data[0] % 64 : 1;
  for (size_t at = 0; at < size;) {
    qv_frame f;
    int found = qv_frame_take(&r, &f);
    if (found == 1) {
      if (f.length > QV_MAX_PAYLOAD || f.payload + f.length > buffer + QV_FRAME_BUFFER) abort();
      read_payload(&f);
    }
    if (found) continue;
    if (r.used == QV_FRAME_BUFFER) abort(); /* no room, no frame: it would stand still for ever */
    size_t bytes = size - at < portion ? size - at : portion;
    if (bytes > QV_FRAME_BUFFER - r.used) bytes = QV_FRAME_BUFFER - r.used;
    memcpy(buffer + r.used, data + at, bytes);
    r.used += (uint32_t)bytes;
    at += bytes;
    if (data[at - 1] == 0xff) qv_frame_give_up(&r);
  }
  return 0;
}

#ifdef QV_FUZZ_FILES
int main(int argc, char **argv) {
  static uint8_t bytes[1 << 21];
  for (int i = 1; i < argc; i++) {
    FILE *file = fopen(argv[i], "rb");
    if (!file) return 2;
    LLVMFuzzerTestOneInput(bytes, fread(bytes, 1, sizeof bytes, file));
    fclose(file);
  }
  return 0;
}
#endif
