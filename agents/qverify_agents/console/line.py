"""Types command lines at a console and finds their output, which is enclosed in marks."""

from __future__ import annotations

import re
from typing import Protocol

from qverify_agents.console.checksums import CHECKERS
from qverify_agents.deadline import Deadline
from qverify_agents.errors import LinkClosed, LinkTimeout

MAX_TRIES, ANSWER_S = 5, 5.0  # attempts of a command; seconds for each
SILENCE_S = 0.3  # without a byte, after which the other end has finished its output
MAX_ANSWER_BYTES = 1 << 20
DAMAGED_STATUS = 253  # of a command line that did not arrive as it was sent


class Port(Protocol):
    """A serial port. `read` returns what arrives within so many seconds, perhaps nothing."""

    def read(self, seconds: float) -> bytes: ...
    def write(self, data: bytes, deadline: Deadline) -> None: ...


class ConsoleLine:
    """A console at which command lines are typed.

    Attributes:
        port: the serial port.
        where: name of the console for messages.
        checker: the board's program (a key of CHECKERS) that checks whether a command or a piece of a file arrived
            undamaged, or "" until one is found. Without one, commands run as they arrive.
    """

    def __init__(self, port: Port, where: str):
        self.port, self.where, self.checker, self._count = port, where, "", 0

    def find_checker(self, deadline: Deadline) -> None:
        """Looks for a checker on the board, with commands that are harmless even if they are damaged. Raises
        LinkTimeout."""
        for name, expected in CHECKERS.items():
            if expected(b"qv").encode() in self.run_command(f"printf qv | {name} 2>/dev/null", deadline)[1]:
                self.checker = name
                return

    def guard(self, command: str) -> str:
        """Returns a command line that runs the command only if every character of it has arrived: a lost letter could
        name another file."""
        if not self.checker:
            return command
        expected = CHECKERS[self.checker](command.encode())
        checksum = f'"$(printf %s "$qc" | {self.checker})"'
        quoted = command.replace("'", "'\\''")
        return f"qc='{quoted}'; case {checksum} in '{expected}'*) eval \"$qc\";; *) (exit {DAMAGED_STATUS});; esac"

    def next_number(self) -> int:
        """Returns a number that no earlier mark has."""
        self._count += 1
        return self._count

    def read_until_silent(self, deadline: Deadline) -> str:
        """Returns what arrives until the console falls silent or the deadline has passed, at most 64 KiB: a console may
        never stop printing."""
        received = bytearray()
        while not deadline.over and (chunk := self.port.read(SILENCE_S)):
            received += chunk
            if len(received) > 1 << 16:
                break
        return received.decode(errors="replace")

    def read_until(self, mark: bytes, deadline: Deadline) -> bytes:
        """Returns what arrives, up to the mark and perhaps beyond. Raises LinkTimeout."""
        received = bytearray()
        while mark not in received:
            received += self.port.read(min(0.5, deadline.left()))
            if len(received) > MAX_ANSWER_BYTES:
                del received[: MAX_ANSWER_BYTES // 2]
        return bytes(received)

    def interrupt(self, deadline: Deadline) -> None:
        """Interrupts the command that the shell runs, and discards an incomplete line."""
        deadline.left()
        self.port.write(b"\x03\r", deadline)
        self.read_until_silent(deadline)

    def run_command(self, command: str, deadline: Deadline, seconds: float = ANSWER_S) -> tuple[int, bytes]:
        """Runs a command and returns its exit status and output. Types it again if the wire damaged it, so every
        command must be idempotent. seconds: limit of one attempt. Raises LinkTimeout."""
        for _ in range(MAX_TRIES):
            try:
                status, out = self._run_once(command, deadline.part(seconds))
                if status != DAMAGED_STATUS:
                    return status, out
            except LinkTimeout:
                self.interrupt(deadline)
        raise LinkTimeout(f"{self.where}: the console does not answer")

    def _run_once(self, command: str, deadline: Deadline) -> tuple[int, bytes]:
        """Types a command once and returns its exit status and output. The marks are spelled so that the echo of the
        command line does not contain them."""
        number = self.next_number()
        begin, end = f"<qv{number}", f"qv{number}:"
        line = f"printf '%s%s\\n' '<' '{begin[1:]}'; {self.guard(command)}; printf '%s%d>\\n' 'qv{number}:' $?\r"
        self.port.write(line.encode(), deadline)
        output = self.read_until(begin.encode(), deadline)
        output = output[output.index(begin.encode()) + len(begin) :]
        while not (match := re.search(re.escape(end).encode() + rb"(\d+)>", output)):
            output += self.port.read(min(0.5, deadline.left()))
            if len(output) > MAX_ANSWER_BYTES:
                raise LinkClosed(f"{self.where}: the console does not stop printing")
        return int(match[1]), output[: match.start()].replace(b"\r\n", b"\n").strip(b"\r\n")
