/* qv_hook: makes a firmware a board of qverify. The firmware keeps its own runtime and model; it names each tensor when
   it has its value, and calls qv_hook_poll in its main loop. Tensors are never stored: a digest of each is sent, and the
   values of one on request, for which inference runs again. No operating system, no allocation, no library.
   The protocol is agents/PROTOCOL.md, part "Firmware with a model of its own". */
#ifndef QV_HOOK_H
#define QV_HOOK_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Largest payload that the hook receives, in bytes; the host sends nothing larger. At least 160. */
#ifndef QV_HOOK_PAYLOAD
#define QV_HOOK_PAYLOAD 512
#endif
/* Largest number of inputs. */
#ifndef QV_HOOK_INPUTS
#define QV_HOOK_INPUTS 4
#endif

/* An input of the network. name: as in the model that the host judges by. data: a buffer that inference reads and does
   not overwrite (an interpreter's own input tensor is often overwritten: copy from this buffer to it). */
typedef struct {
  const char *name;
  void *data;
  uint32_t bytes;
} qv_hook_input;

/* What the hook needs of the firmware.
   read: returns a byte that was received, or -1 if there is none. On a real UART, an interrupt should fill a queue of
   at least QV_HOOK_PAYLOAD + 20 bytes from which this function takes them.
   write: sends bytes; returns once they are taken.
   microseconds: a clock that may wrap; NULL if there is none: nodes then have no times, and half a frame is waited for
   without end.
   infer: runs the whole network on the inputs, calls qv_hook_tensor for its tensors, and returns 0, or an error number.
   model, runtime, arch: texts that reports show, without quotes and backslashes; model: the name or hash of the model. */
typedef struct {
  int (*read)(void);
  void (*write)(const void *data, uint32_t bytes);
  uint32_t (*microseconds)(void);
  int (*infer)(void *user);
  void *user;
  const qv_hook_input *inputs;
  uint32_t input_count;
  const char *model, *runtime, *arch;
} qv_hook_board;

/* Sets the board, which must stay where it is. */
void qv_hook_open(const qv_hook_board *board);
/* Answers requests that have arrived; runs inference if one asks for it. Call it in the main loop. Returns whether a
   byte had arrived. */
int qv_hook_poll(void);

/* Called by infer: the tensor has its value now. data: its dense elements, little-endian, in the order of axes of the
   host's model. Outside a request of the host it does nothing. */
void qv_hook_tensor(const char *name, const void *data, uint32_t bytes);
/* As qv_hook_tensor, for a tensor in several pieces: begin with its whole size, add pieces in order, end. */
void qv_hook_begin(const char *name, uint32_t bytes);
void qv_hook_add(const void *data, uint32_t bytes);
void qv_hook_end(void);
/* As qv_hook_tensor, for a tensor with its channels last in memory (pixels x channels elements) that has them first in
   the host's model. */
void qv_hook_channels_last(const char *name, const void *data, uint32_t pixels, uint32_t channels, uint32_t element_bytes);

#ifdef __cplusplus
}
#endif
#endif
