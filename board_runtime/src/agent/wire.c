/* The agent's connection to the host over stdin and stdout. */
#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

static struct termios before;
static int is_terminal;
static volatile sig_atomic_t silent_s; /* seconds since the last call of qv_wire_alive */
static long most_silent_s;

/* Restores the settings of a terminal when the agent ends. After kill -9 the process that started the agent must do so.
   */
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
  is_terminal = 1;
  atexit(restore);
  for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) signal(ENDS[i], restore_and_die);
  const tcflag_t input = IGNBRK | BRKINT | PARMRK | ISTRIP | INLCR | IGNCR | ICRNL | IXON | IXOFF, output = OPOST;
  const tcflag_t local = ECHO | ECHONL | ICANON | ISIG | IEXTEN, control = CSIZE | PARENB;
  t.c_iflag &= ~input;
  t.c_oflag &= ~output;
  t.c_lflag &= ~local;
  t.c_cflag = (t.c_cflag & ~control) | CS8;
  t.c_cc[VMIN] = 1;
  t.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &t);
}

/* Runs once a second during a run. Ends the process if the other end has closed the connection or, since a node may
   never end and a console does not show that the other end is gone, if qv_wire_alive was not called for most_silent_s
   seconds. */
static void look_for_the_other_end(int number) {
  struct pollfd p = {STDIN_FILENO, POLLIN | POLLRDHUP, 0};
  int before_errno = errno;
  (void)number;
  silent_s++;
  if ((most_silent_s && silent_s > most_silent_s) || (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLRDHUP | POLLERR | POLLNVAL)))) {
    if (is_terminal) tcsetattr(STDIN_FILENO, TCSANOW, &before);
    _exit(0);
  }
  errno = before_errno;
}

void qv_wire_alive(void) { silent_s = 0; }

void qv_wire_watch(int on, long limit_s) {
  struct sigaction action;
  most_silent_s = limit_s;
  silent_s = 0;
  memset(&action, 0, sizeof action);
  action.sa_handler = on ? look_for_the_other_end : SIG_IGN;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  struct itimerval every = {{on, 0}, {on, 0}};
  setitimer(ITIMER_REAL, &every, NULL);
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
