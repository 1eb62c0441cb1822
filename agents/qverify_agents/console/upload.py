"""Sends bytes to a board through its console: as text, in pieces, each checked by a program of the board and sent again
alone."""

from __future__ import annotations

import base64
import re

from qverify_agents.console.checksums import CHECKERS
from qverify_agents.console.line import TRIES, ConsoleLine
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable, LinkTimeout
from qverify_agents.printable import last_line

PIECE, SMALLEST_PIECE, MOST_FAILURES = 6000, 400, 20  # bytes of a piece
CHARACTERS = 72  # per line, a multiple of 4; a terminal's line buffer is far longer
WINDOW = 16  # lines; less than a terminal's buffer of 4096 characters
OCTAL = 'while IFS= read -r l && [ "$l" != . ]; do printf "$l" >&3; printf +; done 3>NAME'
FOLDERS = "/tmp /dev/shm /var/tmp ."
NAME = re.compile(rb"<((?:/tmp|/dev/shm|/var/tmp|\.)/\.qv-[0-9]+)>")  # the shell's process
LEFT = (
    f'for d in {FOLDERS}; do for f in "$d"/.qv-*; do p=${{f##*/.qv-}}; p=${{p%%.*}}; '
    '[ "$p" != $$ ] && [ -d "/proc/$p" ] || rm -f "$f"; done; done'
)


class Upload:
    """Sends files through a console. Which encoding the board can decode is determined once."""

    def __init__(self, line: ConsoleLine):
        self._line = line
        self._base64: bool | None = None
        self.begun = False  # a file of ours may be on the board

    def clear(self, deadline: Deadline) -> None:
        """Removes files that interrupted sessions left: those of this shell, and of shells that have ended."""
        self._line.typed(LEFT, deadline)
        self.begun = False

    def sent(self, data: bytes, ending: str, deadline: Deadline) -> str:
        """Writes these bytes to a file on the board and returns its name. Raises BoardUnreachable."""
        line = self._line
        if not line.checker:
            raise BoardUnreachable(
                f"{line.where}: the board has none of {', '.join(CHECKERS)}; wanted one to check the files sent to it"
            )
        if self._base64 is None:
            self._base64 = b"qvb64ok" in line.typed("printf cXZiNjRvaw== | base64 -d", deadline)[1]
        name, self.begun = f"{self._stem(deadline)}.{ending}", True
        self._pieces_sent(data, name, deadline)
        whole, six = CHECKERS[line.checker](data).encode(), "[0-9]" * 6
        for _ in range(TRIES):
            _, out = line.typed(f"cat {name}.{six} >{name} && {line.checker} <{name}", deadline, 8.0)
            if whole in out:
                break
        else:
            raise BoardUnreachable(f"{line.where}: {len(data)} bytes could not be put together: {last_line(out)}")
        line.typed(f"rm -f {name}.{six}", deadline)
        return name

    def _stem(self, deadline: Deadline) -> str:
        """Returns the path prefix of this console's files, which differs from those of other consoles of the board."""
        for _ in range(TRIES):
            _, out = self._line.typed(
                f'for d in {FOLDERS}; do [ -w $d ] && {{ echo "<$d/.qv-$$>"; break; }}; done', deadline
            )
            if match := NAME.search(out):  # a kernel message may be beside it, or within it
                return match[1].decode()
        raise BoardUnreachable(f"{self._line.where}: none of {FOLDERS} can be written to: {last_line(out)}")

    def _pieces_sent(self, data: bytes, name: str, deadline: Deadline) -> None:
        """Sends the pieces as name.000000 and so on; the pieces get smaller after one that failed."""
        start, number, size, failures = 0, 0, PIECE, 0
        while start < len(data):
            piece = data[start : start + size]
            if self._piece_sent(piece, f"{name}.{number:06d}", deadline):
                start, number, failures = start + len(piece), number + 1, 0
                continue
            size, failures = max(SMALLEST_PIECE, size // 2), failures + 1
            if failures > MOST_FAILURES:
                raise BoardUnreachable(
                    f"{self._line.where}: the wire damages what is sent ({start} of {len(data)} bytes arrived)"
                )

    def _piece_sent(self, piece: bytes, name: str, deadline: Deadline) -> bool:
        line, number = self._line, self._line.number()
        ready, end = f"qr{number}!", f"qe{number}!"
        decode = f"base64 -d >{name}" if self._base64 else OCTAL.replace("NAME", name)
        whole = f"printf %s%s\\\\n qr {ready[2:]}; {decode}; {line.checker} <{name}; printf %s%s\\\\n qe {end[2:]}"
        line.port.write(line.guarded(whole).encode() + b"\r", deadline)
        try:
            line.until(ready.encode(), deadline.part(5.0))
            answer = self._in_base64(piece, end, deadline) if self._base64 else self._in_octal(piece, end, deadline)
        except LinkTimeout:
            line.interrupt(deadline)
            return False
        return CHECKERS[line.checker](piece).encode() in answer

    def _in_base64(self, piece: bytes, end: str, deadline: Deadline) -> bytes:
        text = base64.b64encode(piece).decode()
        self._line.port.write(("\r".join(_lines(text)) + "\r\x04").encode(), deadline)
        return self._line.until(end.encode(), deadline.part(3.0 + len(text) / 500))

    def _in_octal(self, piece: bytes, end: str, deadline: Deadline) -> bytes:
        """Sends a piece in octal to a shell that reads byte by byte: sends a few lines, then waits for as many
        acknowledgements."""
        port, lines = self._line.port, _lines("".join(f"\\{b:03o}" for b in piece))
        for first in range(0, len(lines), WINDOW):
            part, signs = lines[first : first + WINDOW], 0
            port.write("".join(f"{line}\r" for line in part).encode(), deadline)
            limit = deadline.part(10.0)
            while signs < len(part):
                signs += port.read(min(0.5, limit.left())).count(b"+")
        port.write(b".\r", deadline)
        return self._line.until(end.encode(), deadline.part(10.0))


def _lines(text: str) -> list[str]:
    return [text[i : i + CHARACTERS] for i in range(0, len(text), CHARACTERS)]
