"""A command line that runs on a board under supervise.sh: its output line by line, its end, and the files it wrote."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from typing import IO

from qverify_agents.capabilities import Link
from qverify_agents.deadline import Deadline
from qverify_agents.errors import LinkClosed, LinkError, LinkTimeout
from qverify_agents.printable import one_line

MOST_LINE = 1 << 16  # bytes of one line of output that are looked at
MOST_OUTPUT = 64 << 20  # bytes of a command's output; more ends the command
MOST_FILES = 4 << 30  # bytes of all its files
KEPT_LINES = 200  # of its output: the first and the last
CLOSE_S = 10.0
OnLine = Callable[[str], None]


class RunningLine:
    """A command line that was started. token: of its marks. clean: ends it by another way."""

    def __init__(self, stream: Link, token: str, deadline: Deadline, clean: Callable[[], None]):
        self._stream, self._deadline, self._clean = stream, deadline, clean
        self._mark = re.compile(rf"qverify:{token}:(\w+)(?:=(.*))?")
        self._blank = False  # the last line is empty, as is the one before a mark
        self._rest, self._came, self._ended, self._left = bytearray(), 0, False, False
        self.marks: dict[str, str] = {}
        self.last_lines: dict[str, str] = {}  # by mark, what was said last between the mark before and this one
        self._last_line = ""
        self.lines: list[str] = []
        self.dropped = 0  # lines of the middle that were not kept
        self.seconds = 0.0  # from its start to its end, with one way over the link

    def begin(self) -> str:
        """Waits until the command's folder is ready. Returns the hash of a content that is not what was sent, "" where
        all are. Raises LinkError where the board cannot make the folder."""
        while "began" not in self.marks:
            data = self._read()
            self._rest += data
            self._take(None, until="began")
            if "changed" in self.marks:
                return self.marks["changed"]
            if "nofolder" in self.marks or not data:
                raise LinkClosed(f"the folder of the run cannot be made: {self._why()}")
        return ""

    def wait(self, on_line: OnLine | None = None) -> None:
        """Waits until the command has ended, and passes on each line of its output. Raises LinkTimeout, which ends the
        command, or LinkClosed where it writes too much or the board is gone."""
        start = time.perf_counter()
        self._take(on_line)
        while "end" not in self.marks:
            data = self._read()
            if not data:
                raise LinkClosed(self._why())
            self._came += len(data)
            if self._came > MOST_OUTPUT:
                raise LinkClosed(f"the command wrote more than {MOST_OUTPUT} bytes of output, the most that is read")
            self._rest += data
            self._take(on_line)
            if "start" in self.marks and "status" not in self.marks and not self.seconds:
                start, self.seconds = time.perf_counter(), 1e-9
            elif "status" in self.marks and self.seconds == 1e-9:
                self.seconds = time.perf_counter() - start
        self._ended = True

    def _read(self) -> bytes:
        try:
            return self._stream.read(self._deadline)
        except LinkTimeout:
            raise
        except LinkClosed as error:
            raise LinkClosed(f"{error}; the command was running") from error

    def _why(self) -> str:
        """Returns why the output ended before the command did."""
        try:
            said = self._stream.why_closed()
        except LinkError as error:
            said = str(error)
        return f"the board ended the command: {said.replace('the agent ', 'its shell ')}"

    def _take(self, on_line: OnLine | None, until: str = "end") -> None:
        """Takes every whole line that came, up to this mark."""
        while until not in self.marks:
            at = self._rest.find(b"\n")
            if at < 0 and len(self._rest) <= MOST_LINE:
                return
            cut = at if 0 <= at <= MOST_LINE else MOST_LINE
            line = bytes(self._rest[:cut]).decode(errors="replace")
            del self._rest[: cut + (1 if cut == at else 0)]
            if found := self._mark.fullmatch(line):
                self.marks[found[1]], self._blank = (found[2] or "")[:300], False
                self.last_lines[found[1]], self._last_line = self._last_line, ""
                continue
            before, self._blank = self._blank, not line
            for text in ([""] if before else []) + ([line] if line else []):
                self._keep(text)
                if on_line is not None:
                    on_line(text)

    def _keep(self, line: str) -> None:
        if not line.strip():
            return
        self._last_line = one_line(line)[:300]
        self.lines.append(self._last_line)
        if len(self.lines) > KEPT_LINES:
            del self.lines[KEPT_LINES // 2]
            self.dropped += 1

    def number(self, name: str) -> int | None:
        """Returns the number of a mark; None where it did not come, or is none."""
        text = self.marks.get(name, "")
        return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None

    def fetch(self, archive: IO[bytes], deadline: Deadline) -> int:
        """Writes the files that the command left, as a tar archive, to `archive`, and returns the archive's size. The
        board removes the run's folder then. Raises LinkError, also where there are more than MOST_FILES bytes."""
        if (there := self.number("bytes") or 0) > MOST_FILES:
            raise LinkClosed(f"the command left files of {there} bytes, at most {MOST_FILES} are fetched")
        self._stream.write(b"pull\n", deadline)
        size = len(self._rest)
        archive.write(self._rest)
        self._rest.clear()
        while data := self._stream.read(deadline):
            size += len(data)
            if size > MOST_FILES:
                raise LinkClosed(f"the command's files have more than {MOST_FILES} bytes, the most that is fetched")
            archive.write(data)
        self._left = True
        return size

    def close(self) -> None:
        """Ends the command, however it stands, and removes its folder."""
        try:
            if not self._left:
                self._end()
        finally:
            self._stream.close()
            if not self._left:
                self._clean()

    def _end(self) -> None:
        """Ends the shell's input, upon which it kills what it started, and waits for its end."""
        end_of_input = getattr(self._stream, "end_of_input", None)
        if end_of_input is None:
            return
        with contextlib.suppress(LinkError, OSError):
            end_of_input()
            deadline = Deadline(CLOSE_S)
            while self._stream.read(deadline):
                pass
            self._left = self._ended  # else its shell may be one of those that were killed
