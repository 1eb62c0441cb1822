"""Types command lines at a console and finds their answers between marks."""

from __future__ import annotations

import re
from typing import Protocol

from qverify_agents.console.checksums import CHECKERS
from qverify_agents.deadline import Deadline
from qverify_agents.errors import LinkClosed, LinkTimeout

TRIES, ANSWER_S = 5, 5.0
DRY = 0.3  # seconds without a byte after which the other end has finished its output
MOST_ANSWER = 1 << 20
DAMAGED = 253  # status of a line that did not arrive as it was sent


class Port(Protocol):
    """A serial port: read returns what came within seconds, perhaps nothing."""

    def read(self, seconds: float) -> bytes: ...
    def write(self, data: bytes, deadline: Deadline) -> None: ...


class ConsoleLine:
    """A console's line. port: its port. where: its name for messages. checker: the board's program (CHECKERS) that
    checks whether a command or a piece of a file arrived undamaged; empty until one was found, and commands then run as
    they arrive."""

    def __init__(self, port: Port, where: str):
        self.port, self.where, self.checker, self._count = port, where, "", 0

    def find_checker(self, deadline: Deadline) -> None:
        """Finds a checker, with commands that are harmless if damaged. Raises LinkTimeout."""
        for name, wanted in CHECKERS.items():
            if wanted(b"qv").encode() in self.typed(f"printf qv | {name} 2>/dev/null", deadline)[1]:
                self.checker = name
                return

    def guarded(self, command: str) -> str:
        """Returns the command guarded so that the shell runs it only if every character arrived: a lost letter names
        another file."""
        if not self.checker:
            return command
        wanted = CHECKERS[self.checker](command.encode())
        checksum = f'"$(printf %s "$qc" | {self.checker})"'
        quoted = command.replace("'", "'\\''")
        return f"qc='{quoted}'; case {checksum} in '{wanted}'*) eval \"$qc\";; *) (exit {DAMAGED});; esac"

    def number(self) -> int:
        """Returns a new number for marks at every call."""
        self._count += 1
        return self._count

    def heard(self, deadline: Deadline) -> str:
        """Returns what the line sends until it falls silent or the deadline is over: a console may never stop
        printing."""
        received = bytearray()
        while not deadline.over and (chunk := self.port.read(DRY)):
            received += chunk
            if len(received) > 1 << 16:
                break
        return received.decode(errors="replace")

    def until(self, mark: bytes, deadline: Deadline) -> bytes:
        """Returns what comes, up to the mark and perhaps more. Raises LinkTimeout."""
        received = bytearray()
        while mark not in received:
            received += self.port.read(min(0.5, deadline.left()))
            if len(received) > MOST_ANSWER:
                del received[: MOST_ANSWER // 2]
        return bytes(received)

    def interrupt(self, deadline: Deadline) -> None:
        """Interrupts the shell's command and discards an incomplete line."""
        deadline.left()
        self.port.write(b"\x03\r", deadline)
        self.heard(deadline)

    def typed(self, command: str, deadline: Deadline, seconds: float = ANSWER_S) -> tuple[int, bytes]:
        """Returns status and output of one command, typed again if the wire damaged it, so every command must be
        idempotent. Raises LinkTimeout."""
        for _ in range(TRIES):
            try:
                status, out = self._once(command, deadline.part(seconds))
                if status != DAMAGED:
                    return status, out
            except LinkTimeout:
                self.interrupt(deadline)
        raise LinkTimeout(f"{self.where}: the console does not answer")

    def _once(self, command: str, deadline: Deadline) -> tuple[int, bytes]:
        """Types a command once and returns its status and output. The marks are written so that an echoed line does not
        contain them."""
        number = self.number()
        begin, end = f"<qv{number}", f"qv{number}:"
        line = f"printf '%s%s\\n' '<' '{begin[1:]}'; {self.guarded(command)}; printf '%s%d>\\n' 'qv{number}:' $?\r"
        self.port.write(line.encode(), deadline)
        out = self.until(begin.encode(), deadline)
        out = out[out.index(begin.encode()) + len(begin) :]
        while not (ended := re.search(re.escape(end).encode() + rb"(\d+)>", out)):
            out += self.port.read(min(0.5, deadline.left()))
            if len(out) > MOST_ANSWER:
                raise LinkClosed(f"{self.where}: the console does not stop printing")
        return int(ended[1]), out[: ended.start()].replace(b"\r\n", b"\n").strip(b"\r\n")
