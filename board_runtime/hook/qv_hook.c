/* The hook: receives requests into one small buffer, and sends answers as they are made. */
#include "qv_hook.h"

#include <stddef.h>

/* Not copied into its callers: flash is scarcer than time. */
#if defined(__GNUC__)
#define ONCE __attribute__((noinline))
#else
#define ONCE
#endif

enum { HEADER = 16, PATIENCE_US = 400000, CONTENT_ID = 32, LARGEST_ANSWER = 0xFFFF0 };
enum { HELLO = 1, HAVE, PUT, RUN, NODE, DONE, GET = 8, DATA, PING, BYE, ERROR, EVENTS, CANCEL, AGAIN };
enum { E_INPUT_CHANGED = -3, E_UNSUPPORTED = -4, E_INPUT = -6, E_PROTOCOL = -8, E_NOT_FOUND = -9, E_INTERNAL = -10 };

typedef struct {
  uint64_t lanes[4];
  uint32_t total;
  uint8_t part[32]; /* the last total % 32 bytes */
} hasher;

/* The fields that are used most come first: their offsets then fit into short instructions. */
static struct {
  const qv_hook_board *board;
  uint32_t used, heard; /* bytes in `in`; time of the last of them */
  uint32_t crc;         /* of the frame that is being sent */
  /* the last run, and the request that inference runs for: 0, RUN, GET or EVENTS */
  uint32_t run_sequence, events, per_iteration, iteration;
  int32_t run_status;
  const char *run_error;
  uint8_t request, ran, digests, found, saying; /* saying: whether HELLO is sent, or only counted */
  /* of that request */
  uint32_t sequence, mark, wanted, offset, length;
  const uint8_t *wanted_name;
  uint32_t wanted_name_length;
  /* the tensor that passes; name is NULL if none does */
  const char *name;
  uint32_t size, at, elapsed_us, said; /* said: the length of HELLO so far */
  hasher hash;
  struct {
    uint64_t digest;
    uint32_t held; /* how many bytes of the input with this digest have arrived */
  } inputs[QV_HOOK_INPUTS];
  uint8_t in[HEADER + QV_HOOK_PAYLOAD + 4];
} h;

static uint32_t get16(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static uint32_t get32(const uint8_t *p) { return get16(p) | get16(p + 2) << 16; }
static uint64_t get64(const uint8_t *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }
static uint32_t length_of(const char *text) {
  uint32_t n = 0;
  while (text[n]) n++;
  return n;
}
static uint32_t now(void) { return h.board->microseconds ? h.board->microseconds() : 0; }

/* CRC-32C, half a byte at a time. crc: 0, or that of the bytes before. */
static uint32_t crc32c(uint32_t crc, const void *data, uint32_t bytes) {
  static const uint32_t HALF[16] = {0,          0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3, 0x61C69362, 0x7198540D,
                                    0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9, 0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75};
  const uint8_t *p = data;
  for (crc = ~crc; bytes; bytes--) {
    crc ^= *p++;
    crc = crc >> 4 ^ HALF[crc & 15];
    crc = crc >> 4 ^ HALF[crc & 15];
  }
  return ~crc;
}

/* XXH64 with seed 0, of a stream. */
static const uint64_t P[6] = {0, 0x9E3779B185EBCA87u, 0xC2B2AE3D27D4EB4Fu, 0x165667B19E3779F9u, 0x85EBCA77C2B2AE63u, 0x27D4EB2F165667C5u};
static ONCE uint64_t turn(uint64_t x, unsigned bits) { return x << bits | x >> (-bits & 63); }
static ONCE uint64_t mixed(uint64_t lane, uint64_t word) { return turn(lane + word * P[2], 31) * P[1]; }
static void hash_begin(hasher *c) {
  c->lanes[0] = P[1] + P[2];
  c->lanes[1] = P[2];
  c->lanes[2] = 0;
  c->lanes[3] = 0 - P[1];
  c->total = 0;
}
static void hash_add(hasher *c, const uint8_t *p, uint32_t bytes) {
  for (; bytes; bytes--) {
    uint32_t fill = c->total++ & 31;
    c->part[fill] = *p++;
    if (fill != 31) continue;
    for (int i = 0; i < 4; i++) c->lanes[i] = mixed(c->lanes[i], get64(c->part + 8 * i));
  }
}
/* The steps that end a digest, for words of 8, 4 and 1 bytes and after them: bits, and indices of P for the factors and
   the term. */
enum { OF_8, OF_4, OF_1, OF_LANE, LAST_2, LAST_3 };
static ONCE uint64_t folded(uint64_t x, uint64_t word, unsigned step) {
  static const uint8_t STEPS[6][3] = {{27, 1, 4}, {23, 2, 3}, {11, 1, 0}, {0, 1, 4}, {0, 2, 0}, {0, 3, 0}};
  const uint8_t *s = STEPS[step];
  return turn(x ^ word, s[0]) * P[s[1]] + P[s[2]];
}
static uint64_t hash_end(const hasher *c) {
  static const uint8_t TURNS[4] = {1, 7, 12, 18};
  uint64_t x = P[5];
  const uint8_t *p = c->part;
  uint32_t left = c->total & 31;
  if (c->total >= 32) {
    x = 0;
    for (unsigned i = 0; i < 4; i++) x += turn(c->lanes[i], TURNS[i]);
    for (unsigned i = 0; i < 4; i++) x = folded(x, mixed(0, c->lanes[i]), OF_LANE);
  }
  x += c->total;
  while (left) {
    unsigned step = left >= 8 ? OF_8 : left >= 4 ? OF_4 : OF_1, bytes = step == OF_8 ? 8 : step == OF_4 ? 4 : 1;
    uint64_t word = step == OF_8 ? mixed(0, get64(p)) : step == OF_4 ? get32(p) * P[1] : *p * P[5];
    x = folded(x, word, step);
    p += bytes;
    left -= bytes;
  }
  x = folded(x, x >> 33, LAST_2);
  x = folded(x, x >> 29, LAST_3);
  return x ^ x >> 32;
}

/* A frame is sent as send_header, its payload in any number of parts, and send32(h.crc). */
static ONCE void send(const void *data, uint32_t bytes) {
  h.crc = crc32c(h.crc, data, bytes);
  h.board->write(data, bytes);
}
static ONCE void send32(uint32_t v) {
  uint8_t bytes[4];
  for (int i = 0; i < 4; i++, v >>= 8) bytes[i] = (uint8_t)v;
  send(bytes, 4);
}
static ONCE void send64(uint64_t v) {
  send32((uint32_t)v);
  send32((uint32_t)(v >> 32));
}
static ONCE void send_header(uint32_t type, uint32_t sequence, uint32_t length) {
  h.crc = 0;
  send32(0x015651 | type << 24);
  send32(sequence);
  send32(length);
  send32(h.crc);
}
static void send_length(uint32_t length) {
  const uint8_t size[2] = {(uint8_t)length, (uint8_t)(length >> 8)};
  send(size, 2);
}
static ONCE void send_text(const char *text) {
  uint32_t length = length_of(text);
  send_length(length);
  send(text, length);
}
static void answer(uint32_t type, uint32_t sequence, const void *payload, uint32_t bytes) {
  send_header(type, sequence, bytes);
  send(payload, bytes);
  send32(h.crc);
}
static ONCE void refuse(uint32_t sequence, int32_t status, const char *text) {
  send_header(ERROR, sequence, 6 + length_of(text));
  send32((uint32_t)status);
  send_text(text);
  send32(h.crc);
}

/* HELLO. Its JSON is said twice: first to count its bytes, then to send them. */
#define QUOTED(number) #number
#define NUMBER(number) QUOTED(number)
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define ENDIAN "big"
#else
#define ENDIAN "little"
#endif
static const char HELLO_TEXT[] = "\",\"protocol\":1,\"endian\":\"" ENDIAN
                                 "\",\"features\":[\"finals\",\"per_node\",\"digests\"],"
                                 "\"max_payload\":" NUMBER(QV_HOOK_PAYLOAD) ",\"inputs\":[";
static ONCE void say(const char *text) {
  uint32_t length = length_of(text);
  h.said += length;
  if (h.saying) send(text, length);
}
static void say_hello(void) {
  static const char *const PARTS[] = {"{\"version\":\"", "\",\"arch\":\"", "\",\"own_model\":\""};
  const qv_hook_board *b = h.board;
  h.said = 0;
  for (int i = 0; i < 3; i++) {
    say(PARTS[i]);
    say(i == 0 ? b->runtime : i == 1 ? b->arch : b->model);
  }
  say(HELLO_TEXT);
  for (uint32_t i = 0; i < b->input_count; i++) {
    say(i ? "\",\"" : "\"");
    say(b->inputs[i].name);
  }
  say(b->input_count ? "\"]}" : "]}");
}
static void hello(uint32_t sequence) {
  h.saying = h.ran = 0;
  say_hello();
  send_header(HELLO, sequence, h.said + 2);
  send_length(h.said);
  h.saying = 1;
  say_hello();
  send32(h.crc);
}

/* Contents are inputs: XXH64 of the bytes, u16 index of the input, zeros. Returns the index; QV_HOOK_INPUTS if it is
   not one of this board. */
static uint32_t input_of(const uint8_t id[CONTENT_ID]) {
  uint32_t index = get16(id + 8);
  return index < h.board->input_count && index < QV_HOOK_INPUTS ? index : QV_HOOK_INPUTS;
}
/* Returns how many bytes of a content are in its input's buffer. Once it is whole, its digest is computed each time, as
   inference may have overwritten it. */
static ONCE uint32_t held_in(uint32_t i) {
  if (h.inputs[i].held == h.board->inputs[i].bytes) {
    hash_begin(&h.hash);
    hash_add(&h.hash, h.board->inputs[i].data, h.inputs[i].held);
    if (hash_end(&h.hash) != h.inputs[i].digest) h.inputs[i].held = 0;
  }
  return h.inputs[i].held;
}
static ONCE uint32_t held_of(const uint8_t id[CONTENT_ID]) {
  uint32_t i = input_of(id);
  return i == QV_HOOK_INPUTS || h.inputs[i].digest != get64(id) ? 0 : held_in(i);
}
static void have(uint32_t sequence, const uint8_t *ids, uint32_t count) {
  send_header(HAVE, sequence, 8 * count);
  for (; count; count--, ids += CONTENT_ID) send64(held_of(ids));
  send32(h.crc);
}
static void put(uint32_t sequence, const uint8_t *p, uint32_t bytes) {
  uint32_t i = bytes < 48 ? QV_HOOK_INPUTS : input_of(p);
  if (i == QV_HOOK_INPUTS || get64(p + 32) != h.board->inputs[i].bytes) {
    refuse(sequence, E_INPUT, "no input of this size");
    return;
  }
  if (h.inputs[i].digest != get64(p) || (get64(p + 40) == 0 && h.inputs[i].held < h.board->inputs[i].bytes)) {
    h.inputs[i].digest = get64(p);
    h.inputs[i].held = 0;
  }
  bytes -= 48;
  if (get64(p + 40) == h.inputs[i].held && bytes <= h.board->inputs[i].bytes - h.inputs[i].held) {
    uint8_t *to = (uint8_t *)h.board->inputs[i].data + h.inputs[i].held;
    for (uint32_t k = 0; k < bytes; k++) to[k] = p[48 + k];
    h.inputs[i].held += bytes;
  }
  send_header(PUT, sequence, 8);
  send64(h.inputs[i].held);
  send32(h.crc);
}

static const char OVERWRITTEN[] = "inference overwrote an input", NOT_ENDED[] = "a tensor was not ended",
                  OTHER_SIZE[] = "a tensor has another size";

/* Runs inference for a request. Returns 0, or a status; the reason is in h.run_error. */
static ONCE int32_t infer(uint32_t request, uint32_t sequence) {
  h.request = (uint8_t)request;
  h.sequence = sequence;
  h.name = NULL;
  h.mark = now();
  h.run_error = "";
  int failed = h.board->infer(h.board->user);
  if (h.name && !h.run_error[0]) h.run_error = NOT_ENDED;
  if (failed) h.run_error = "inference failed";
  h.request = 0;
  h.name = NULL;
  return h.run_error[0] ? E_INTERNAL : 0;
}
static ONCE void done(void) {
  static const uint8_t YES = 1;
  send_header(DONE, h.run_sequence, 19 + length_of(h.run_error));
  send32((uint32_t)h.run_status);
  send_text(h.run_error);
  send64(0);
  send32(h.events);
  send(&YES, 1); /* every tensor's value can be had */
  send32(h.crc);
}
static void run(uint32_t sequence, const uint8_t *p, uint32_t bytes) {
  if (h.ran && h.run_sequence == sequence) {
    done();
    return;
  }
  uint32_t count = bytes < 39 ? 0 : get16(p + 37);
  if (bytes < 43 + CONTENT_ID * count || count != h.board->input_count || get32(p + 39 + CONTENT_ID * count)) {
    refuse(sequence, E_UNSUPPORTED, "other inputs than the firmware's");
    return;
  }
  uint32_t repeat = get32(p + 33);
  h.run_sequence = sequence;
  h.digests = p[32] & 1;
  h.events = h.iteration = 0;
  h.run_status = 0;
  h.run_error = "";
  do {
    uint32_t before = h.events;
    for (uint32_t i = 0; i < count; i++)
      if (held_of(p + 39 + CONTENT_ID * i) != h.board->inputs[i].bytes) {
        h.run_status = h.iteration ? E_INPUT_CHANGED : E_NOT_FOUND;
        h.run_error = h.iteration ? OVERWRITTEN : "an input was not sent";
      }
    if (!h.run_status) h.run_status = infer(RUN, sequence);
    h.per_iteration = h.events - before;
  } while (++h.iteration < repeat && !h.run_status);
  h.ran = 1;
  done();
}
/* Returns whether inference can run again on the inputs of the last run; otherwise answers with an error. */
static int can_repeat(uint32_t sequence) {
  const char *why = h.ran ? NULL : "there was no run";
  for (uint32_t i = 0; i < h.board->input_count; i++)
    if (held_in(i) != h.board->inputs[i].bytes) why = OVERWRITTEN;
  if (why) refuse(sequence, E_INPUT_CHANGED, why);
  return !why;
}
/* Runs inference again to answer GET or EVENTS, whose answer is sent when the tensor passes. */
static void repeat(uint32_t request, uint32_t sequence, const char *absent) {
  const char *last_error = h.run_error;
  h.found = 0;
  infer(request, sequence);
  h.run_error = last_error;
  if (!h.found) refuse(sequence, E_NOT_FOUND, absent);
}
static void get(uint32_t sequence, const uint8_t *p, uint32_t bytes) {
  h.wanted_name_length = bytes < 14 ? 0 : get16(p);
  if (bytes < 14 + h.wanted_name_length || get32(p + h.wanted_name_length + 6)) {
    refuse(sequence, E_PROTOCOL, "GET is cut short");
    return;
  }
  h.wanted_name = p + 2;
  h.offset = get32(p + 2 + h.wanted_name_length);
  h.length = get32(p + 10 + h.wanted_name_length);
  if (h.length > LARGEST_ANSWER) h.length = LARGEST_ANSWER;
  if (can_repeat(sequence)) repeat(GET, sequence, "no such tensor");
}
static void events(uint32_t sequence, const uint8_t *p, uint32_t bytes) {
  if (bytes != 4 || !h.ran) {
    refuse(sequence, E_PROTOCOL, "there was no run");
    return;
  }
  h.wanted = get32(p);
  uint32_t first = h.wanted;
  if (first >= h.events || !h.per_iteration) {
    answer(EVENTS, sequence, NULL, 0);
    return;
  }
  uint32_t total = h.events;
  h.iteration = first / h.per_iteration;
  h.events = h.iteration * h.per_iteration;
  if (can_repeat(sequence)) repeat(EVENTS, sequence, "no such event");
  h.events = total;
}

static int is_wanted(const char *name) {
  uint32_t i = 0;
  while (i < h.wanted_name_length && name[i] && (uint8_t)name[i] == h.wanted_name[i]) i++;
  return i == h.wanted_name_length && !name[i];
}
void qv_hook_begin(const char *name, uint32_t bytes) {
  if (!h.request) return;
  if (h.name) h.run_error = NOT_ENDED;
  h.name = NULL;
  h.size = bytes;
  h.at = 0;
  if (h.request == GET) {
    if (h.found || !is_wanted(name)) return;
    h.found = 1;
    if (h.offset > bytes) h.offset = bytes;
    if (h.length > bytes - h.offset) h.length = bytes - h.offset;
    send_header(DATA, h.sequence, 16 + h.length);
    send64(bytes);
    send64(h.offset);
  } else {
    if (h.request == EVENTS && h.events != h.wanted) {
      h.events++;
      return;
    }
    h.elapsed_us = now() - h.mark;
    hash_begin(&h.hash);
  }
  h.name = name;
}
void qv_hook_add(const void *data, uint32_t bytes) {
  const uint8_t *p = data;
  if (!h.name) return;
  if (bytes > h.size - h.at) {
    h.run_error = OTHER_SIZE;
    bytes = h.size - h.at;
  }
  if (h.request == GET) {
    uint32_t from = h.at < h.offset ? h.offset - h.at : 0, end = h.offset + h.length > h.at ? h.offset + h.length - h.at : 0;
    if (end > bytes) end = bytes;
    if (from < end) send(p + from, end - from);
  } else if (h.digests) {
    hash_add(&h.hash, p, bytes);
  }
  h.at += bytes;
}
void qv_hook_end(void) {
  if (!h.name) return;
  if (h.at != h.size) h.run_error = OTHER_SIZE;
  if (h.request == GET) {
    if (h.at != h.size) h.crc = ~h.crc; /* the host must not take it */
    send32(h.crc);
  } else {
    send_header(h.request == RUN ? NODE : EVENTS, h.sequence, 26 + length_of(h.name));
    send32(h.events++);
    send32(h.iteration);
    send64(h.digests ? hash_end(&h.hash) : 0);
    send64((uint64_t)h.elapsed_us * 1000);
    send_text(h.name);
    send32(h.crc);
    h.found = 1;
  }
  h.name = NULL;
  h.mark = now();
}
void qv_hook_tensor(const char *name, const void *data, uint32_t bytes) {
  qv_hook_begin(name, bytes);
  qv_hook_add(data, bytes);
  qv_hook_end();
}
void qv_hook_channels_last(const char *name, const void *data, uint32_t pixels, uint32_t channels, uint32_t element_bytes) {
  qv_hook_begin(name, pixels * channels * element_bytes);
  for (uint32_t c = 0; c < channels && h.name; c++)
    for (uint32_t i = 0; i < pixels; i++) qv_hook_add((const uint8_t *)data + (i * channels + c) * element_bytes, element_bytes);
  qv_hook_end();
}

static void take(uint32_t type, uint32_t sequence, const uint8_t *payload, uint32_t bytes) {
  switch (type) {
    case HELLO: hello(sequence); break;
    case HAVE: have(sequence, payload, bytes / CONTENT_ID); break;
    case PUT: put(sequence, payload, bytes); break;
    case RUN: run(sequence, payload, bytes); break;
    case GET: get(sequence, payload, bytes); break;
    case EVENTS: events(sequence, payload, bytes); break;
    case PING:
    case CANCEL:
    case BYE: answer(type, sequence, payload, bytes < 64 ? bytes : 64); break;
    default: refuse(sequence, E_UNSUPPORTED, "not for a firmware's own model"); break;
  }
}
static void drop(uint32_t bytes) {
  for (uint32_t i = bytes; i < h.used; i++) h.in[i - bytes] = h.in[i];
  h.used -= bytes;
}
/* Handles one whole frame. Returns 0 if more bytes are needed. */
static int frame(void) {
  const uint8_t *p = h.in;
  if (h.used < HEADER) return 0;
  uint32_t bytes = get32(p + 8);
  if (p[0] != 0x51 || p[1] != 0x56 || p[2] != 1 || bytes > QV_HOOK_PAYLOAD || crc32c(0, p, 12) != get32(p + 12)) {
    drop(1);
    return 1;
  }
  if (h.used < HEADER + bytes + 4) return 0;
  if (crc32c(0, p, HEADER + bytes) != get32(p + HEADER + bytes)) {
    answer(AGAIN, get32(p + 4), NULL, 0);
    drop(1);
    return 1;
  }
  take(p[3], get32(p + 4), p + HEADER, bytes);
  drop(HEADER + bytes + 4);
  return 1;
}
void qv_hook_open(const qv_hook_board *board) { h.board = board; }
int qv_hook_poll(void) {
  int any = 0, byte;
  while (h.used < sizeof h.in && (byte = h.board->read()) >= 0) {
    h.in[h.used++] = (uint8_t)byte;
    any = 1;
    if (h.used >= HEADER && frame()) break;
  }
  if (any) h.heard = now();
  else if (h.used && h.board->microseconds && now() - h.heard > PATIENCE_US) drop(1);
  while (frame());
  return any;
}
