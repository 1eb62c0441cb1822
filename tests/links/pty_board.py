"""A board with nothing but a console: a shell on a pty, behind a wire of a given speed that may damage what passes, and that
kernel messages are written into."""

from __future__ import annotations

import contextlib
import os
import pty
import random
import selectors
import signal
import subprocess
import threading
import time
import tty
from pathlib import Path

LOGIN = r"""
trap '' INT; while :; do
  printf 'qvboard login: '; read user || exit
  stty -echo; printf 'Password: '; read word; stty echo; echo
  if [ "$user" = root ] && [ "$word" = "$QV_WORD" ]; then (trap - INT; PS1='qvboard# ' ENV= "$@"); else echo 'Login incorrect'; fi
done
"""


class PtyBoard:
    """path: what -b serial:// names. baud: bits a second of the wire, 0 for no limit. kind, probability, seed: of damage
    (flip, drop, insert), a byte at a time. messages: kernel messages that come in between."""

    def __init__(
        self,
        shell: tuple[str, ...] = ("/bin/sh", "-i"),
        baud: int = 0,
        kind: str = "none",
        probability: float = 0.0,
        seed: int = 0,
        messages: tuple[bytes, ...] = (),
        password: str | None = None,
        home: Path | None = None,
    ):
        self._home = home or Path("/tmp")
        self._random, self._kind, self._probability = random.Random(seed), kind, probability
        self._rate, self._messages, self._stop = baud / 10, list(messages), threading.Event()
        self._host, slave = pty.openpty()
        self.path = os.ttyname(slave)
        tty.setraw(slave)
        self._keep = slave  # so that the host may close and open it again
        self._board, board_slave = pty.openpty()
        environment = {"PATH": os.environ["PATH"], "HOME": str(home or "/tmp"), "PS1": "qvboard# ", "TERM": "dumb"}
        command = list(shell)
        if password is not None:
            environment["QV_WORD"] = password
            command = ["/bin/sh", "-c", LOGIN, "login", *shell]
        self.process = subprocess.Popen(
            command,
            stdin=board_slave,
            stdout=board_slave,
            stderr=board_slave,
            env=environment,
            cwd=self._home,
            preexec_fn=lambda: _controlling(board_slave),
        )
        self.board_tty = os.ttyname(board_slave)
        time.sleep(0.3)  # a Ctrl-C before the shell minds it would end it
        os.close(board_slave)
        self.passed = 0
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def _carry(self) -> None:
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._host, selectors.EVENT_READ, self._board)
            waiting.register(self._board, selectors.EVENT_READ, self._host)
            while not self._stop.is_set():
                for key, _ in waiting.select(0.1):
                    try:
                        data = os.read(key.fd, 1024 if self._rate else 65536)
                    except OSError:
                        return
                    if self._rate:
                        time.sleep(len(data) / self._rate)
                    self.passed += len(data)
                    data = self._spoiled(data)
                    if key.fd == self._board and self._messages and self._random.random() < 0.02:
                        data += self._messages.pop(0)
                    self._write(key.data, data)

    def _write(self, to: int, data: bytes) -> None:
        while data and not self._stop.is_set():
            with contextlib.suppress(BlockingIOError):
                data = data[os.write(to, data) :]

    def _spoiled(self, data: bytes) -> bytes:
        if self._kind == "none":
            return data
        found = bytearray()
        for byte in data:
            if self._random.random() >= self._probability:
                found.append(byte)
            elif self._kind == "flip":
                found.append(byte ^ 1 << self._random.randrange(8))
            elif self._kind == "insert":
                found += bytes([byte, self._random.randrange(256)])
        return bytes(found)

    @property
    def address(self) -> str:
        """The address for -b, with a lock of its own, because the machine may run other tests."""
        return f"serial://{self.path}?lock={self._home}/lock"

    def close(self) -> None:
        self._stop.set()
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(5)
        self._thread.join(2)
        for file in (self._host, self._board, self._keep):
            with contextlib.suppress(OSError):
                os.close(file)

    def __enter__(self) -> PtyBoard:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _controlling(slave: int) -> None:
    import fcntl
    import termios

    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
