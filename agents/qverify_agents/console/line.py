"""Command lines typed at a console, and their answers found between marks."""

from __future__ import annotations

import re
from typing import Protocol

from qverify_agents.console.checksums import CHECKERS
from qverify_agents.deadline import Deadline
from qverify_agents.errors import LinkClosed, LinkTimeout

TRIES, ANSWER_S = 5, 5.0
DRY = 0.3  # seconds without a byte after which the other end has said what it had to say
MOST_ANSWER = 1 << 20
DAMAGED = 253  # status of a line that did not arrive as it was sent


class Port(Protocol):
    """A serial port: read gives what came within seconds, perhaps nothing."""

    def read(self, seconds: float) -> bytes: ...
    def write(self, data: bytes, deadline: Deadline) -> None: ...


class ConsoleLine:
    """port: the console's. where: it, for messages. checker: the board's program (CHECKERS) that tells whether a command or
    a piece of a file arrived whole; empty before one was found, and commands then run as they arrive."""

    def __init__(self, port: Port, where: str):
        self.port, self.where, self.checker, self._count = port, where, "", 0

    def find_checker(self, deadline: Deadline) -> None:
        """Looks for a checker, with commands that do no harm however they arrive. LinkTimeout."""
        for name, wanted in CHECKERS.items():
            if wanted(b"qv").encode() in self.typed(f"printf qv | {name} 2>/dev/null", deadline)[1]:
                self.checker = name
                return

    def guarded(self, command: str) -> str:
        """The command as the shell runs it only if every character arrived: a letter lost of a name is another file."""
        if not self.checker:
            return command
        wanted = CHECKERS[self.checker](command.encode())
        told = f'"$(printf %s "$qc" | {self.checker})"'
        quoted = command.replace("'", "'\\''")
        return f"qc='{quoted}'; case {told} in '{wanted}'*) eval \"$qc\";; *) (exit {DAMAGED});; esac"

    def number(self) -> int:
        """For marks: another one every time."""
        self._count += 1
        return self._count

    def heard(self, deadline: Deadline) -> str:
        """Returns what the line sends until it falls silent or the deadline is over: a console may never stop printing."""
        found = bytearray()
        while not deadline.over and (came := self.port.read(DRY)):
            found += came
            if len(found) > 1 << 16:
                break
        return found.decode(errors="replace")

    def until(self, mark: bytes, deadline: Deadline) -> bytes:
        """What comes, up to the mark and perhaps more."""
        found = bytearray()
        while mark not in found:
            found += self.port.read(min(0.5, deadline.left()))
            if len(found) > MOST_ANSWER:
                del found[: MOST_ANSWER // 2]
        return bytes(found)

    def interrupt(self, deadline: Deadline) -> None:
        """Whatever the shell is at, and half a line that it holds, are given up."""
        deadline.left()
        self.port.write(b"\x03\r", deadline)
        self.heard(deadline)

    def typed(self, command: str, deadline: Deadline, seconds: float = ANSWER_S) -> tuple[int, bytes]:
        """Status and output of one line, typed again when the wire swallowed some of it: it must bear being run twice."""
        for _ in range(TRIES):
            try:
                status, out = self._once(command, deadline.part(seconds))
                if status != DAMAGED:
                    return status, out
            except LinkTimeout:
                self.interrupt(deadline)
        raise LinkTimeout(f"{self.where}: the console does not answer")

    def _once(self, command: str, deadline: Deadline) -> tuple[int, bytes]:
        """The marks are written so that an echoed line does not hold them."""
        number = self.number()
        begin, end = f"<qv{number}", f"qv{number}:"
        line = f"printf '%s%s\\n' '<' '{begin[1:]}'; {self.guarded(command)}; printf '%s%d>\\n' 'qv{number}:' $?\r"
        self.port.write(line.encode(), deadline)
        out = self.until(begin.encode(), deadline)
        out = out[out.index(begin.encode()) + len(begin) :]
        while not (found := re.search(re.escape(end).encode() + rb"(\d+)>", out)):
            out += self.port.read(min(0.5, deadline.left()))
            if len(out) > MOST_ANSWER:
                raise LinkClosed(f"{self.where}: the console does not stop talking")
        return int(found[1]), out[: found.start()].replace(b"\r\n", b"\n").strip(b"\r\n")
