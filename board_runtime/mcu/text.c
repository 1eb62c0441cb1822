/* snprintf with what the agent's messages use: %s %d %u %x with l, ll, z, .N of texts and 0N of numbers. The C
   library's own takes more flash than the agent. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  char *to;
  size_t room, length;
} writer;

static void put(writer *w, char c) {
  if (w->length + 1 < w->room) w->to[w->length] = c;
  w->length++;
}

static void put_number(writer *w, uint64_t v, unsigned base, unsigned width) {
  char digits[20];
  unsigned n = 0;
  do {
    digits[n++] = "0123456789abcdef"[v % base];
    v /= base;
  } while (v);
  for (; width > n; width--) put(w, '0');
  while (n) put(w, digits[--n]);
}

static uint64_t next_number(va_list *words, unsigned longs, int is_signed) {
  if (longs >= 2) return va_arg(*words, unsigned long long);
  if (longs) return is_signed ? (uint64_t)va_arg(*words, long) : va_arg(*words, unsigned long);
  return is_signed ? (uint64_t)(int64_t)va_arg(*words, int) : va_arg(*words, unsigned);
}

int vsnprintf(char *to, size_t room, const char *format, va_list given) {
  writer w = {to, room, 0};
  va_list words;
  va_copy(words, given);
  for (const char *f = format; *f; f++) {
    if (*f != '%') {
      put(&w, *f);
      continue;
    }
    unsigned width = 0, most = UINT32_MAX, longs = 0;
    for (f++; *f >= '0' && *f <= '9'; f++) width = width * 10 + (unsigned)(*f - '0');
    if (*f == '.')
      for (most = 0, f++; *f >= '0' && *f <= '9'; f++) most = most * 10 + (unsigned)(*f - '0');
    for (; *f == 'l' || *f == 'z'; f++) longs++;
    if (*f == 's') {
      const char *text = va_arg(words, const char *);
      for (; *text && most; text++, most--) put(&w, *text);
    } else if (*f == 'c') {
      put(&w, (char)va_arg(words, int));
    } else if (*f == 'd' || *f == 'u' || *f == 'x') {
      uint64_t v = next_number(&words, longs, *f == 'd');
      if (*f == 'd' && v >> 63) {
        put(&w, '-');
        v = 0 - v;
      }
      put_number(&w, v, *f == 'x' ? 16 : 10, width);
    } else {
      put(&w, *f ? *f : '%');
      if (!*f) break;
    }
  }
  va_end(words);
  if (room) to[w.length < room ? w.length : room - 1] = 0;
  return (int)w.length;
}

int snprintf(char *to, size_t room, const char *format, ...) {
  va_list words;
  va_start(words, format);
  int length = vsnprintf(to, room, format, words);
  va_end(words);
  return length;
}

char *strerror(int number) {
  (void)number;
  return (char *)(uintptr_t)"";
}
