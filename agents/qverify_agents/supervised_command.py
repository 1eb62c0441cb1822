"""A command line that runs on a board under supervise.sh: its output line by line, its exit status and its files."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from typing import IO

from qverify_agents.deadline import Deadline
from qverify_agents.errors import LinkClosed, LinkError, LinkTimeout
from qverify_agents.interfaces import Link
from qverify_agents.printable import one_line

MAX_LINE_BYTES = 1 << 16  # of one line of output; a longer line is cut into several
MAX_OUTPUT_BYTES = 64 << 20  # of a command's output; a command that writes more is ended
MAX_FILES_BYTES = 4 << 30  # of the archive of a command's files
MAX_KEPT_LINES = 200  # of the output: half of them from the start, half from the end
CLOSE_S = 10.0
OnLine = Callable[[str], None]


class RunningCommandLine:
    """A command line that was started on a board. supervise.sh reports its progress in marks, lines of output with a
    token that no other command knows.

    Args:
        stream: the link to supervise.sh.
        token: the token in the marks.
        deadline: the deadline for the whole command.
        clean: ends the command and removes its folder over another connection.

    Attributes:
        marks: value by name of each mark that has arrived, "" for a mark without one.
        last_lines: by mark, the last line of output before it and after the mark before it.
        lines: the first and last lines of the output.
        dropped: number of lines between these that were not kept.
        seconds: time from the command's start to its end, including one way over the link.
    """

    def __init__(self, stream: Link, token: str, deadline: Deadline, clean: Callable[[], None]):
        self._stream, self._deadline, self._clean = stream, deadline, clean
        self._mark = re.compile(rf"qverify:{token}:(\w+)(?:=(.*))?")
        self._blank_pending = False  # the last line was empty; it belongs to the mark that may follow
        self._unparsed, self._output_bytes, self._ended, self._folder_removed = bytearray(), 0, False, False
        self.marks: dict[str, str] = {}
        self.last_lines: dict[str, str] = {}
        self._last_line = ""
        self.lines: list[str] = []
        self.dropped = 0
        self.seconds = 0.0
        self._started = time.perf_counter()

    def begin(self) -> str:
        """Waits until the run's folder is ready. Returns the hash of a content that has changed on the board, or "" if
        none has. Raises LinkError if the board cannot make the folder."""
        while "began" not in self.marks:
            data = self._read()
            self._unparsed += data
            self._take_lines(None, last_mark="began")
            if "changed" in self.marks:
                return self.marks["changed"]
            if "nofolder" in self.marks or not data:
                raise LinkClosed(f"the folder of the run cannot be made: {self._failure_text()}")
        return ""

    def wait(self, on_line: OnLine | None = None) -> None:
        """Waits until the command has ended and passes each line of its output to on_line. Raises LinkTimeout at the
        deadline, LinkClosed if the command writes too much or the connection is lost."""
        self._take_lines(on_line)
        while "end" not in self.marks:
            data = self._read()
            if not data:
                raise LinkClosed(self._failure_text())
            self._output_bytes += len(data)
            if self._output_bytes > MAX_OUTPUT_BYTES:
                raise LinkClosed(
                    f"the command wrote more than {MAX_OUTPUT_BYTES} bytes of output, the most that is read"
                )
            self._unparsed += data
            self._take_lines(on_line)
        self._ended = True

    def _read(self) -> bytes:
        try:
            return self._stream.read(self._deadline)
        except LinkTimeout:
            raise
        except LinkClosed as error:
            raise LinkClosed(f"{error}; the command was running") from error

    def _failure_text(self) -> str:
        """Returns the error message for output that ended before the command did."""
        try:
            reason = self._stream.why_closed()
        except LinkError as error:
            reason = str(error)
        return f"the board ended the command: {reason.replace('the agent ', 'its shell ')}"

    def _take_lines(self, on_line: OnLine | None, last_mark: str = "end") -> None:
        """Takes every whole line that has arrived, up to this mark."""
        while last_mark not in self.marks:
            line_end = self._unparsed.find(b"\n")
            if line_end < 0 and len(self._unparsed) <= MAX_LINE_BYTES:
                return
            length = line_end if 0 <= line_end <= MAX_LINE_BYTES else MAX_LINE_BYTES
            line = bytes(self._unparsed[:length]).decode(errors="replace")
            del self._unparsed[: length + (1 if length == line_end else 0)]
            if mark := self._mark.fullmatch(line):
                self.marks[mark[1]], self._blank_pending = (mark[2] or "")[:300], False
                self.last_lines[mark[1]], self._last_line = self._last_line, ""
                self._note_time(mark[1])
                continue
            pending, self._blank_pending = self._blank_pending, not line
            for text in ([""] if pending else []) + ([line] if line else []):
                self._keep_line(text)
                if on_line is not None:
                    on_line(text)

    def _note_time(self, mark: str) -> None:
        if mark == "start":
            self._started = time.perf_counter()
        elif mark == "status":
            self.seconds = time.perf_counter() - self._started

    def _keep_line(self, line: str) -> None:
        if not line.strip():
            return
        self._last_line = one_line(line)[:300]
        self.lines.append(self._last_line)
        if len(self.lines) > MAX_KEPT_LINES:
            del self.lines[MAX_KEPT_LINES // 2]
            self.dropped += 1

    def number(self, mark: str) -> int | None:
        """Returns the value of a mark as a number, or None if it has not arrived or is not a number."""
        text = self.marks.get(mark, "")
        return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None

    def fetch(self, archive: IO[bytes], deadline: Deadline) -> int:
        """Writes a tar archive of the command's files to `archive` and returns its size in bytes. The board then
        removes the run's folder. Raises LinkError, also if the archive is larger than MAX_FILES_BYTES."""
        if (announced := self.number("bytes") or 0) > MAX_FILES_BYTES:
            raise LinkClosed(f"the command left files of {announced} bytes, at most {MAX_FILES_BYTES} are fetched")
        self._stream.write(b"pull\n", deadline)
        size = len(self._unparsed)
        archive.write(self._unparsed)
        self._unparsed.clear()
        while data := self._stream.read(deadline):
            size += len(data)
            if size > MAX_FILES_BYTES:
                raise LinkClosed(
                    f"the command's files have more than {MAX_FILES_BYTES} bytes, the most that is fetched"
                )
            archive.write(data)
        self._folder_removed = True
        return size

    def close(self) -> None:
        """Ends the command if it still runs, and removes its folder."""
        try:
            if not self._folder_removed:
                self._end_command()
        finally:
            self._stream.close()
            if not self._folder_removed:
                self._clean()

    def _end_command(self) -> None:
        """Closes the input of supervise.sh, which then kills all it started, and waits until it has ended."""
        end_of_input = getattr(self._stream, "end_of_input", None)
        if end_of_input is None:
            return
        with contextlib.suppress(LinkError, OSError):
            end_of_input()
            deadline = Deadline(CLOSE_S)
            while self._stream.read(deadline):
                pass
            self._folder_removed = self._ended  # otherwise supervise.sh may itself have been killed
