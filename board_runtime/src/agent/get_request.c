/* Answers GET: sends a range of a tensor's dense bytes after a run. */
#include <stdio.h>
#include <string.h>

#include "agent.h"
#include "lz4.h"

/* Returns the tensor's dense bytes after the last run; NULL if their memory may have been used for another tensor
   since. */
static uint8_t *value(const qv_agent *a, int tensor) {
  const qv_tensor *t = &a->loaded.model.tensors[tensor];
  int lasts = a->loaded.session.keep_all || t->constant || (a->last_unit_node < 0 && (t->flags & QV_OUTPUT));
  if (!lasts && a->last_unit_node >= 0) {
    const qv_node *n = &a->loaded.model.nodes[a->last_unit_node];
    for (int i = 0; i < n->n_outputs; i++) lasts = lasts || n->outputs[i] == tensor;
  }
  return lasts ? qv_data(&a->loaded.session, t) : NULL;
}

/* Sends a range of the `size` bytes as DATA, or as PACKED if `packed` is 1 and that is at least 1/16 shorter. */
static void send_range(qv_agent *a, uint32_t sequence, const uint8_t *data, uint64_t size, uint64_t offset, uint64_t length, int packed) {
  if (length > QV_MAX_PAYLOAD - 16) length = QV_MAX_PAYLOAD - 16;
  if (length > size - offset) length = size - offset;
  uint8_t *p = a->out + QV_FRAME_HEADER;
  qv_put64(p, size);
  qv_put64(p + 8, offset);
  uint32_t shorter = packed && length > 64 ? qv_lz4_pack(data + offset, (uint32_t)length, p + 20, (uint32_t)(length - length / 16)) : 0;
  if (shorter) {
    qv_put32(p + 16, (uint32_t)length);
    qv_agent_send(a, QV_PACKED, sequence, shorter + 20);
    return;
  }
  memcpy(p + 16, data + offset, (size_t)length);
  qv_agent_send(a, QV_DATA, sequence, (uint32_t)length + 16);
}

void qv_agent_get(qv_agent *a, const qv_frame *f) {
  qv_cursor c = qv_payload(f);
  char name[QV_TEXT];
  qv_take_text(&c, name);
  uint64_t offset = qv_take64(&c), length = qv_take32(&c);
  int packed = c.p < c.end && *c.p == 1; /* 1 if the host accepts PACKED */
  int tensor = c.bad || !a->loaded_any || !a->ran ? -1 : qv_find_tensor(&a->loaded.model, name);
  const qv_held *copy = tensor < 0 ? NULL : qv_find_held(&a->copies, tensor);
  uint8_t *live = tensor < 0 || copy ? NULL : value(a, tensor);
  if (!live && !copy) {
    char text[200];
    snprintf(text, sizeof text, "GET of %.80s: %s", name,
             tensor < 0 ? "no such tensor in the model that ran last" : "not kept, for want of memory; name it in RUN");
    qv_agent_error(a, f->sequence, QV_E_NOT_FOUND, text);
    return;
  }
  const qv_tensor *t = &a->loaded.model.tensors[tensor];
  uint64_t size = (uint64_t)t->dense_bytes;
  if (offset > size) {
    char text[200];
    snprintf(text, sizeof text, "GET of %.80s: bytes from %llu on, wanted from %llu at most", name, (unsigned long long)offset,
             (unsigned long long)size);
    qv_agent_error(a, f->sequence, QV_E_PROTOCOL, text);
    return;
  }
  if (live) qv_border_order(live, t->dtype, (size_t)size);
  send_range(a, f->sequence, live ? live : copy->data, size, offset, length, packed);
  if (live) qv_border_order(live, t->dtype, (size_t)size);
}
