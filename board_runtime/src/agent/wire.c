/* stdin and stdout as the agent's wire. */
#define _POSIX_C_SOURCE 200809L
#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

static struct termios before;

/* A console gets its settings back however the agent ends; only kill -9 leaves that to who started it. */
static void restore(void) { tcsetattr(STDIN_FILENO, TCSANOW, &before); }

static void restore_and_die(int number) {
  tcsetattr(STDIN_FILENO, TCSANOW, &before);
  signal(number, SIG_DFL);
  raise(number);
}

void qv_wire_open(void) {
  static const int ENDS[] = {SIGTERM, SIGHUP, SIGINT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
  struct termios t;
  if (tcgetattr(STDIN_FILENO, &t) != 0) return;
  before = t;
  atexit(restore);
  for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) signal(ENDS[i], restore_and_die);
  t.c_iflag &= (tcflag_t)~(unsigned)(IGNBRK | BRKINT | PARMRK | ISTRIP | INLCR | IGNCR | ICRNL | IXON | IXOFF);
  t.c_oflag &= (tcflag_t)~(unsigned)OPOST;
  t.c_lflag &= (tcflag_t)~(unsigned)(ECHO | ECHONL | ICANON | ISIG | IEXTEN);
  t.c_cflag = (t.c_cflag & (tcflag_t)~(unsigned)(CSIZE | PARENB)) | CS8;
  t.c_cc[VMIN] = 1;
  t.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &t);
}

int64_t qv_wire_read(uint8_t *to, size_t room, int wait_ms) {
  struct pollfd p = {STDIN_FILENO, POLLIN, 0};
  int ready = poll(&p, 1, wait_ms);
  if (ready == 0 || (ready < 0 && errno == EINTR)) return 0;
  ssize_t got = ready < 0 ? -1 : read(STDIN_FILENO, to, room);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return 0;
  return got > 0 ? got : -1;
}

int qv_wire_write(const uint8_t *data, size_t bytes) {
  while (bytes) {
    ssize_t wrote = write(STDOUT_FILENO, data, bytes);
    if (wrote < 0 && errno == EAGAIN) {
      struct pollfd p = {STDOUT_FILENO, POLLOUT, 0};
      poll(&p, 1, -1);
    } else if (wrote < 0 && errno != EINTR) {
      return -1;
    } else if (wrote > 0) {
      data += wrote;
      bytes -= (size_t)wrote;
    }
  }
  return 0;
}
