"""Runs commands of qverify as on Windows, as far as this host can show it: without the modules and the names that Windows
lacks, and with the branches that are taken there. `python tests/windows_host.py '[["compile", ...], ...]'` prints the exit
status, stdout and stderr of each, in JSON.

What stays is this host's: its files, its processes, its programs. Stand-ins: msvcrt, which locks by fcntl; and Windows' flag
and end of child processes, which other systems do not know."""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import json
import os
import platform
import select
import shutil
import signal
import socket
import subprocess
import sys
import types
from pathlib import Path

LACKS_MODULES = ("fcntl", "pty", "tty", "termios", "resource", "pwd", "grp", "syslog", "readline")
LACKS = {
    os: "fork forkpty getuid geteuid getgid getegid getresuid getgroups setuid setgid setsid getpgid getpgrp setpgid killpg pread"
    " preadv pwrite pwritev mkfifo mknod chown lchown fchown fchmod set_blocking sched_getaffinity sched_setaffinity statvfs"
    " fstatvfs sysconf pathconf uname nice openpty posix_spawn posix_spawnp sendfile getloadavg ttyname ctermid fdatasync sync"
    " posix_fadvise posix_fallocate memfd_create pidfd_open O_NONBLOCK O_NOFOLLOW O_CLOEXEC O_DIRECTORY O_PATH O_NOCTTY O_SYNC"
    " O_DSYNC O_NOATIME O_TMPFILE chroot wait3 wait4 lockf pipe2 splice makedev major minor",
    signal: "SIGHUP SIGKILL SIGALRM SIGQUIT SIGPIPE SIGCHLD SIGUSR1 SIGUSR2 SIGSTOP SIGCONT SIGTSTP SIGWINCH setitimer getitimer"
    " ITIMER_REAL ITIMER_VIRTUAL alarm pause pthread_sigmask pthread_kill sigwait sigwaitinfo sigtimedwait siginterrupt",
    socket: "AF_UNIX AF_NETLINK AF_PACKET MSG_DONTWAIT MSG_NOSIGNAL SCM_RIGHTS send_fds recv_fds SO_PEERCRED",
    select: "poll epoll EPOLLIN EPOLLOUT",
}
ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = "numpy onnx onnxruntime onnxruntime.quantization click xxhash zstandard google_crc32c lz4.frame threadpoolctl paramiko PIL.Image cv2"


def become_windows() -> None:
    """Takes the names away, and imports what of qverify looks at the system as Windows would."""
    for name in LIBRARIES.split():  # they have editions for Windows, which do without
        importlib.import_module(name)
    platform.uname()  # kept
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    shutil._USE_CP_SENDFILE = False  # type: ignore[attr-defined]
    sys.modules["msvcrt"] = _msvcrt(importlib.import_module("fcntl"))
    _stand_in_for_processes()
    for name in LACKS_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # an import raises ImportError
    for module, names in LACKS.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    sys.platform = "win32"
    for path in [*(ROOT / "agents").rglob("*.py"), *(ROOT / "verifier").rglob("*.py")]:
        if "sys.platform" in path.read_text(encoding="utf-8"):
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts[1:]))
    sys.platform = "linux"  # for libraries, which are of this host


def _msvcrt(fcntl: types.ModuleType) -> types.ModuleType:
    """Returns msvcrt with locking(): from the present place of the file, an error of EACCES where another holds it."""
    made = types.ModuleType("msvcrt")

    def locking(descriptor: int, mode: int, size: int) -> None:
        if mode == 0:
            fcntl.lockf(descriptor, fcntl.LOCK_UN, size, 0, os.SEEK_CUR)
            return
        assert mode == 2
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, size, 0, os.SEEK_CUR)
        except BlockingIOError as error:
            raise PermissionError(errno.EACCES, "Permission denied") from error

    made.locking, made.LK_NBLCK, made.LK_UNLCK = locking, 2, 0  # type: ignore[attr-defined]
    return made


def _stand_in_for_processes() -> None:
    subprocess.CREATE_NEW_PROCESS_GROUP = 0  # type: ignore[attr-defined]
    subprocess.Popen.kill = lambda self: self.poll() is None and os.kill(self.pid, 9)  # type: ignore[assignment,method-assign]


def run(words: list[str]) -> tuple[int, str, str]:
    """Returns the exit status of a command, and what it wrote to stdout and stderr."""
    from qverify.cli.main import main

    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = main(words)
    return status, out.getvalue(), err.getvalue()


if __name__ == "__main__":
    become_windows()
    print(json.dumps([run(words) for words in json.loads(sys.argv[1])]))
