"""Sends bytes to a board through its console: as text, in pieces. A program of the board checks each piece, and a
damaged piece alone is sent again."""

from __future__ import annotations

import base64
import re

from qverify_agents.console.checksums import CHECKERS
from qverify_agents.console.line import MAX_TRIES, ConsoleLine
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable, LinkTimeout
from qverify_agents.printable import last_line

PIECE_BYTES, MIN_PIECE_BYTES, MAX_FAILURES = 6000, 400, 20  # a piece gets smaller after each failure
LINE_CHARACTERS = 72  # of an encoded line, a multiple of 4; a terminal's line buffer is far longer
WINDOW_LINES = 16  # sent at once; fewer characters than a terminal's buffer of 4096
DECODE_OCTAL = 'while IFS= read -r l && [ "$l" != . ]; do printf "$l" >&3; printf +; done 3>NAME'
FOLDERS = "/tmp /dev/shm /var/tmp ."
NAME = re.compile(rb"<((?:/tmp|/dev/shm|/var/tmp|\.)/\.qv-[0-9]+)>")  # the number is the shell's process id
REMOVE_LEFTOVERS = (
    f'for d in {FOLDERS}; do for f in "$d"/.qv-*; do p=${{f##*/.qv-}}; p=${{p%%.*}}; '
    '[ "$p" != $$ ] && [ -d "/proc/$p" ] || rm -f "$f"; done; done'
)


class Upload:
    """Sends files through a console. Finds out once whether the board can decode base64; else sends octal numbers."""

    def __init__(self, line: ConsoleLine):
        self._line = line
        self._base64: bool | None = None
        self.begun = False  # whether files that were sent may still be on the board

    def clear(self, deadline: Deadline) -> None:
        """Removes the files of this shell and those that shells left which have ended."""
        self._line.run_command(REMOVE_LEFTOVERS, deadline)
        self.begun = False

    def send_file(self, data: bytes, ending: str, deadline: Deadline) -> str:
        """Writes the bytes to a new file on the board and returns its path. Raises BoardUnreachable."""
        line = self._line
        if not line.checker:
            raise BoardUnreachable(
                f"{line.where}: the board has none of {', '.join(CHECKERS)}; wanted one to check the files sent to it"
            )
        if self._base64 is None:
            self._base64 = b"qvb64ok" in line.run_command("printf cXZiNjRvaw== | base64 -d", deadline)[1]
        name, self.begun = f"{self._choose_stem(deadline)}.{ending}", True
        self._send_pieces(data, name, deadline)
        expected, six_digits = CHECKERS[line.checker](data).encode(), "[0-9]" * 6
        for _ in range(MAX_TRIES):
            _, output = line.run_command(f"cat {name}.{six_digits} >{name} && {line.checker} <{name}", deadline, 8.0)
            if expected in output:
                break
        else:
            raise BoardUnreachable(f"{line.where}: {len(data)} bytes could not be put together: {last_line(output)}")
        line.run_command(f"rm -f {name}.{six_digits}", deadline)
        return name

    def _choose_stem(self, deadline: Deadline) -> str:
        """Returns the prefix of the paths of this console's files. No other console of the board has the same."""
        for _ in range(MAX_TRIES):
            _, out = self._line.run_command(
                f'for d in {FOLDERS}; do [ -w $d ] && {{ echo "<$d/.qv-$$>"; break; }}; done', deadline
            )
            if match := NAME.search(out):  # a kernel message may stand around or within it
                return match[1].decode()
        raise BoardUnreachable(f"{self._line.where}: none of {FOLDERS} can be written to: {last_line(out)}")

    def _send_pieces(self, data: bytes, name: str, deadline: Deadline) -> None:
        """Sends the data as files name.000000, name.000001 and so on. The pieces get smaller after each failure."""
        start, number, size, failures = 0, 0, PIECE_BYTES, 0
        while start < len(data):
            piece = data[start : start + size]
            if self._send_piece(piece, f"{name}.{number:06d}", deadline):
                start, number, failures = start + len(piece), number + 1, 0
                continue
            size, failures = max(MIN_PIECE_BYTES, size // 2), failures + 1
            if failures > MAX_FAILURES:
                raise BoardUnreachable(
                    f"{self._line.where}: the wire damages what is sent ({start} of {len(data)} bytes arrived)"
                )

    def _send_piece(self, piece: bytes, name: str, deadline: Deadline) -> bool:
        line, number = self._line, self._line.next_number()
        ready, end = f"qr{number}!", f"qe{number}!"
        decode = f"base64 -d >{name}" if self._base64 else DECODE_OCTAL.replace("NAME", name)
        command = f"printf %s%s\\\\n qr {ready[2:]}; {decode}; {line.checker} <{name}; printf %s%s\\\\n qe {end[2:]}"
        line.port.write(line.guard(command).encode() + b"\r", deadline)
        try:
            line.read_until(ready.encode(), deadline.part(5.0))
            answer = self._send_base64(piece, end, deadline) if self._base64 else self._send_octal(piece, end, deadline)
        except LinkTimeout:
            line.interrupt(deadline)
            return False
        return CHECKERS[line.checker](piece).encode() in answer

    def _send_base64(self, piece: bytes, end: str, deadline: Deadline) -> bytes:
        text = base64.b64encode(piece).decode()
        self._line.port.write(("\r".join(_split_lines(text)) + "\r\x04").encode(), deadline)
        return self._line.read_until(end.encode(), deadline.part(3.0 + len(text) / 500))

    def _send_octal(self, piece: bytes, end: str, deadline: Deadline) -> bytes:
        """Sends a piece in octal to a shell that reads byte by byte: sends a few lines, waits until all of them are
        acknowledged, and so on."""
        port, lines = self._line.port, _split_lines("".join(f"\\{b:03o}" for b in piece))
        for start in range(0, len(lines), WINDOW_LINES):
            window, acknowledged = lines[start : start + WINDOW_LINES], 0
            port.write("".join(f"{line}\r" for line in window).encode(), deadline)
            limit = deadline.part(10.0)
            while acknowledged < len(window):
                acknowledged += port.read(min(0.5, limit.left())).count(b"+")
        port.write(b".\r", deadline)
        return self._line.read_until(end.encode(), deadline.part(10.0))


def _split_lines(text: str) -> list[str]:
    return [text[i : i + LINE_CHARACTERS] for i in range(0, len(text), LINE_CHARACTERS)]
