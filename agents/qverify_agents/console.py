"""A serial console as a Shell: logs in, types command lines, finds their answers between marks, pushes bytes as text."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import zlib
from collections.abc import Callable
from typing import Protocol

from qverify_agents.capabilities import Done
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable, LinkClosed, LinkError, LinkTimeout, ProtocolError
from qverify_agents.printable import last_line
from qverify_agents.protocol.frames import AGAIN, BYE, HELLO, FrameReader, frame_bytes
from qverify_agents.protocol.messages import read_hello

LOGIN = r"(?i)(?:^|[\r\n ])[\w.-]* ?login: ?$"
PASSWORD = r"(?i)password[^\r\n]*: ?$"
PROMPT = r"[#$>%] ?(?:\x1b\[[0-9;]*[a-zA-Z])*$"
PIECE, SMALLEST_PIECE, MOST_FAILURES = (
    6000,
    400,
    20,
)  # bytes of a content in one go; each is checked and sent again alone
AGENT_S, ECHO_S = (
    0.8,
    0.15,
)  # an agent that is on the line answers within this; what a line says comes without such a gap
GO, END, BACK = (
    b"<qvgo",
    b"<qvend",
    b"<qvback",
)  # said before the agent, after it, and once the terminal is the shell's again
LINE = 72  # a multiple of 4; characters a line: a terminal's line buffer is far longer
OCTAL = 'while IFS= read -r l && [ "$l" != . ]; do printf "$l" >&3; printf +; done 3>NAME'
WINDOW = 16  # lines; less than a terminal's buffer of 4096 characters
TRIES, ANSWER_S, MOST_WAKES = 5, 5.0, 12
BLIND = (2, 6)  # after so many unanswered returns a command is tried without a prompt: messages may stand behind it
SANE = b"\x03\nstty sane 2>/dev/null\n"  # to a shell whose terminal was left raw: a return ends no line there
LONGEST = 300  # characters of a typed command; small shells cut lines at 1024
MOST_LOG, MOST_ANSWER = 1 << 16, 1 << 20
DRY = 0.3  # seconds without a byte after which the other end has said what it had to say


class Port(Protocol):
    """A serial port: read gives what came within seconds, perhaps nothing."""

    def read(self, seconds: float) -> bytes: ...
    def write(self, data: bytes, deadline: Deadline) -> None: ...


class ConsoleShell:
    """prompt, login, password: regular expressions of what the console shows. user: to log in as; the password comes from
    QVERIFY_SERIAL_PASSWORD and stands in no log."""

    def __init__(
        self,
        port: Port,
        where: str,
        user: str = "root",
        prompt: str = PROMPT,
        login: str = LOGIN,
        password: str = PASSWORD,
    ):
        self._port, self._where, self._user, self._count = port, where, user, 0
        self._prompt, self._login, self._password = re.compile(prompt), re.compile(login), re.compile(password)
        self._base64: bool | None = None
        self._checker = ""  # the board's program that tells whether a piece arrived whole
        self._logged_in, self._shown = False, ""
        self._log = ""  # what the console said before it was ours: a boot log, perhaps

    def log_in(self, deadline: Deadline) -> None:
        """To a shell prompt that answers; BoardUnreachable with the last line the console showed."""
        self._shown = ""
        try:
            if self._to_a_prompt(deadline):
                self._typed("rm -f /tmp/.qv-* 2>/dev/null", deadline)  # of a session that was cut off
                return
        except LinkTimeout:
            pass
        shown = last_line(self._shown, "none, it is silent")
        raise BoardUnreachable(
            f"{self._where}: no shell prompt on the console (last line: {shown}); "
            "is the board up, the baud rate right? ?prompt=REGEX tells another prompt, ?mode=direct an agent of its own; "
            "the agent of a run that was killed ends by itself after that run's --timeout"
        )

    def _to_a_prompt(self, deadline: Deadline) -> bool:
        asked_password, wakes = False, 0
        self._port.write(b"\x03\r", deadline)
        while wakes < MOST_WAKES:
            heard = self._heard(DRY)
            self._log = (self._log + heard)[-MOST_LOG:]
            self._shown = (self._shown + heard)[-4000:]
            tail = self._shown[-200:]
            if self._password.search(tail) or self._login.search(tail):
                word = bool(self._password.search(tail))
                if word and not self._logged_in:  # of a name that somebody else, or noise, gave
                    self._shown, wakes = "", wakes + 1
                    self._port.write(b"\r", deadline)
                    continue
                if asked_password:
                    raise BoardUnreachable(
                        f"{self._where}: the console refuses user {self._user}; set QVERIFY_SERIAL_PASSWORD, or ?user="
                    )
                asked_password, self._shown, self._logged_in = word, "", True
                answer = os.environ.get("QVERIFY_SERIAL_PASSWORD", "") if word else self._user
                self._port.write(answer.encode() + b"\r", deadline)
            elif (self._prompt.search(tail) or wakes in BLIND) and self._answers(deadline):
                return True
            else:
                wakes += 1
                self._port.write(SANE if wakes in BLIND else b"\r", deadline)
        return False

    def _answers(self, deadline: Deadline) -> bool:
        """A first command, which also quiets echo and line editing."""
        try:
            return (
                self._typed(
                    ': "${qp1=$PS1}" "${qp2=$PS2}" "${qs=$(stty -g)}"; set -o ignoreeof 2>/dev/null; stty -echo 2>/dev/null; PS1=; PS2=',
                    deadline.part(5.0),
                    4.0,
                )[0]
                == 0
            )
        except LinkTimeout:
            return False

    def _heard(self, seconds: float) -> str:
        """What comes until the line is dry."""
        found = bytearray()
        while came := self._port.read(seconds):
            found += came
            if len(found) > 1 << 16:
                break
        return found.decode(errors="replace")

    def _until(self, mark: bytes, deadline: Deadline) -> bytes:
        found = bytearray()
        while mark not in found:
            found += self._port.read(min(0.5, deadline.left()))
            if len(found) > 1 << 20:
                del found[: 1 << 19]
        return bytes(found)

    def _typed(self, command: str, deadline: Deadline, seconds: float = ANSWER_S) -> tuple[int, bytes]:
        """Status and output of one line, typed again when the wire swallowed some of it: it must bear being run twice."""
        for _ in range(TRIES):
            try:
                return self._typed_once(command, deadline.part(seconds))
            except LinkTimeout:
                deadline.left()
                self._port.write(b"\x03\r", deadline)
                self._heard(DRY)
        raise LinkTimeout(f"{self._where}: the console does not answer")

    def _typed_once(self, command: str, deadline: Deadline) -> tuple[int, bytes]:
        """The marks are written so that an echoed line does not hold them."""
        self._count += 1
        begin, end = f"<qv{self._count}", f"qv{self._count}:"
        line = f"printf '%s%s\\n' '<' '{begin[1:]}'; {command}; printf '%s%d>\\n' 'qv{self._count}:' $?\r"
        self._port.write(line.encode(), deadline)
        out = self._until(begin.encode(), deadline)
        out = out[out.index(begin.encode()) + len(begin) :]
        while not (found := re.search(re.escape(end).encode() + rb"(\d+)>", out)):
            out += self._port.read(min(0.5, deadline.left()))
            if len(out) > MOST_ANSWER:
                raise LinkClosed(f"{self._where}: the console does not stop talking")
        return int(found[1]), out[: found.start()].replace(b"\r\n", b"\n").strip(b"\r\n")

    def run(self, command: str, deadline: Deadline, stdin: bytes = b"") -> Done:
        """What is too long for a line, and stdin, go to files on the board first."""
        files = []
        if len(command) > LONGEST or "\n" in command:
            files.append(self._sent(command.encode(), "sh", deadline))
            command = f"sh {files[0]}"
        if stdin:
            files.append(self._sent(stdin, "in", deadline))
            command = f"{command} <{files[-1]}"
        status, out = self._typed(f"{{ {command}; }} 2>&1", deadline, 8.0)
        if files:
            self._typed(f"rm -f {' '.join(files)}", deadline)
        return Done(status, out, out if status else b"")

    def _sent(self, data: bytes, ending: str, deadline: Deadline) -> str:
        """The bytes as a file on the board, piece by piece, each checked by cksum, sent again and smaller where it was wrong."""
        if not self._checker:
            self._checker = self._found_checker(deadline)
        if self._base64 is None:
            self._base64 = b"qvb64ok" in self._typed("printf cXZiNjRvaw== | base64 -d", deadline)[1]
        _, said = self._typed(
            'for d in /tmp /dev/shm /var/tmp .; do [ -w $d ] && { echo "<$d>"; break; }; done', deadline
        )
        folder = re.search(rb"<([/.\w]+)>", said)  # a kernel message may stand beside it
        name = f"{folder[1].decode() if folder else '.'}/.qv-{os.getpid()}.{ending}"
        start, number, size, failures = 0, 0, PIECE, 0
        while start < len(data):
            piece = data[start : start + size]
            if self._piece_sent(piece, f"{name}.{number:06d}", deadline):
                start, number, failures = start + len(piece), number + 1, 0
                continue
            size, failures = max(SMALLEST_PIECE, size // 2), failures + 1
            if failures > MOST_FAILURES:
                raise BoardUnreachable(
                    f"{self._where}: the wire damages what is sent ({start} of {len(data)} bytes arrived)"
                )
        whole, six = CHECKERS[self._checker](data).encode(), "[0-9]" * 6
        for _ in range(TRIES):
            _, out = self._typed(f"cat {name}.{six} >{name} && {self._checker} <{name}", deadline, 8.0)
            if whole in out:
                break
        else:
            raise BoardUnreachable(f"{self._where}: {len(data)} bytes could not be put together: {last_line(out)}")
        self._typed(f"rm -f {name}.[0-9]*", deadline)
        return name

    def _found_checker(self, deadline: Deadline) -> str:
        for name, wanted in CHECKERS.items():
            if wanted(b"qv").encode() in self._typed(f"printf qv | {name} 2>/dev/null", deadline)[1]:
                return name
        raise BoardUnreachable(
            f"{self._where}: the board has none of {', '.join(CHECKERS)}; what is pushed could not be checked"
        )

    def _piece_sent(self, piece: bytes, name: str, deadline: Deadline) -> bool:
        self._count += 1
        ready, end = f"qr{self._count}!", f"qe{self._count}!"
        decode = f"base64 -d >{name}" if self._base64 else OCTAL.replace("NAME", name)
        line = (
            f"printf '%s%s\\n' qr '{ready[2:]}'; {decode}; {self._checker} <{name}; printf '%s%s\\n' qe '{end[2:]}'\r"
        )
        self._port.write(line.encode(), deadline)
        try:
            self._until(ready.encode(), deadline.part(5.0))
            answer = self._in_base64(piece, end, deadline) if self._base64 else self._in_octal(piece, end, deadline)
        except LinkTimeout:
            deadline.left()
            self._port.write(b"\x03\r", deadline)
            self._heard(DRY)
            return False
        return CHECKERS[self._checker](piece).encode() in answer

    def _in_base64(self, piece: bytes, end: str, deadline: Deadline) -> bytes:
        text = base64.b64encode(piece).decode()
        lines = [text[i : i + LINE] for i in range(0, len(text), LINE)]
        self._port.write(("\r".join(lines) + "\r\x04").encode(), deadline)
        return self._until(end.encode(), deadline.part(3.0 + len(text) / 500))

    def _in_octal(self, piece: bytes, end: str, deadline: Deadline) -> bytes:
        """The shell reads a byte at a time; a few lines go out, then as many signs of life are waited for."""
        text = "".join(f"\\{b:03o}" for b in piece)
        lines = [text[i : i + LINE] for i in range(0, len(text), LINE)]
        for first in range(0, len(lines), WINDOW):
            part, signs = lines[first : first + WINDOW], 0
            self._port.write("".join(f"{line}\r" for line in part).encode(), deadline)
            limit = deadline.part(10.0)
            while signs < len(part):
                signs += self._port.read(min(0.5, limit.left())).count(b"+")
        self._port.write(b".\r", deadline)
        return self._until(end.encode(), deadline.part(10.0))

    def start(self, command: str, deadline: Deadline) -> ConsoleLink:
        """The command gets the terminal, raw before we write to it (a byte of a frame may be Ctrl-C); when it ends, however
        it ends, the terminal's settings are put back."""
        command = command.removeprefix("exec ")
        drain = "stty raw -echo min 0 time 4; cat >/dev/null"  # what is still on its way must not reach the shell as commands
        said = [f"printf '%s%s\\n' '{m[:2]}' '{m[2:]}'" for m in (GO.decode(), END.decode(), BACK.decode())]
        line = f's=$(stty -g); stty raw -echo; {said[0]}; {command} 2>/dev/null; {said[1]}; {drain}; stty "$s"; {said[2]}\r'
        for _ in range(3):
            self._port.write(line.encode(), deadline)
            try:
                self._until(GO, deadline.part(4.0))
                break
            except LinkTimeout:  # the line, or only its mark, was damaged; to an agent that runs, another is noise
                deadline.left()
                if agent_there(self._port, deadline) is not None:
                    break
                self._port.write(b"\x03\r", deadline)
        else:
            raise LinkClosed(f"{self._where}: the agent does not start on the console")
        return ConsoleLink(self._port, self._where, self._log)

    def close(self) -> None:
        """The terminal as a person would want to find it."""
        deadline = Deadline(3.0, self._where)
        try:
            self._port.write(
                b'set +o ignoreeof 2>/dev/null; stty "$qs" 2>/dev/null || stty sane; PS1=$qp1; PS2=$qp2; unset qp1 qp2 qs'
                + (b"; exit" if self._logged_in else b"")
                + b"\r",
                deadline,
            )
            self._heard(DRY)
        except LinkError:
            pass  # nothing answers any more


class ConsoleLink:
    """A Link: the agent on the terminal."""

    piece_bytes = 3000
    patience_s = 1.5
    packs = True
    ahead = 0

    def __init__(self, port: Port, where: str, said_before: str = ""):
        self._port, self._where, self._tail, self.said_before = port, where, b"", said_before
        self._over = self._back = self._closed = False  # the agent has ended; the terminal is the shell's again

    def _taken(self, seconds: float) -> bytes:
        """What came; marks may be spread over readings."""
        data = self._port.read(seconds)
        window = self._tail + data
        self._back = self._back or BACK in window
        self._over = self._over or self._back or END in window
        self._tail = window[-len(BACK) :]
        return data

    def read(self, deadline: Deadline) -> bytes:
        while True:
            data = self._taken(min(0.5, deadline.left()))
            if self._over:
                return b""
            if data:
                return data

    def write(self, data: bytes, deadline: Deadline) -> None:
        if self._over:
            raise LinkClosed(self.why_closed())  # the shell would take it for commands
        self._port.write(data, deadline)

    def why_closed(self) -> str:
        return "the agent ended on the console"

    def close(self) -> None:
        """The agent is asked to end; the shell then puts the terminal back."""
        if self._closed:
            return
        self._closed, deadline = True, Deadline(6.0, self._where)
        try:
            if not self._over:
                self._port.write(frame_bytes(BYE, 0, b""), deadline)
            while not self._back:
                self._taken(min(0.3, deadline.left()))
        except LinkError:
            pass  # nothing answers any more


def agent_there(port: Port, deadline: Deadline) -> dict[str, object] | None:
    """The HELLO of an agent that has the line already. A shell that echoes what it is sent is told apart at once."""
    reader, end, heard, asked = FrameReader(), deadline.part(AGENT_S), False, _harmless_hello()
    try:
        port.write(asked, deadline)
        while True:
            data = port.read(min(ECHO_S if heard else 0.1, end.left()))
            reader.feed(data)
            frame = reader.next()
            if frame is not None and frame.type == HELLO:
                return _said(frame.payload)
            if frame is not None and frame.type == AGAIN:
                port.write(asked, deadline)
            elif heard and not data:
                return None
            heard = heard or bool(data)
    except LinkTimeout:
        deadline.left()
        return None


def _harmless_hello() -> bytes:
    """Without a byte that a terminal takes for the end of a line or an interrupt."""
    numbered = (frame_bytes(HELLO, number, b"") for number in range(1, 1000))
    return next(frame for frame in numbered if not set(frame) & set(b"\r\n\x03\x04\x11\x13\x1a\x1c"))


def _said(payload: bytes) -> dict[str, object]:
    try:
        return dict(read_hello(payload))
    except ProtocolError:
        return {"idle_s": 1}  # of another protocol: nothing we could go on with


def _cksum(data: bytes) -> int:
    """POSIX cksum: CRC-32 (polynomial 04C11DB7, most significant bit first) of the bytes and their number."""
    length, more = len(data), bytearray()
    while length:
        more.append(length & 255)
        length >>= 8
    return _forward_crc(bytes(data) + bytes(more))


_MIRROR = bytes(int(f"{i:08b}"[::-1], 2) for i in range(256))


def _forward_crc(data: bytes) -> int:
    """zlib's CRC is the same one with every byte, and the result, mirrored; started at all ones, which cksum does not."""
    crc = zlib.crc32(data.translate(_MIRROR), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{crc:032b}"[::-1], 2) ^ 0xFFFFFFFF


CHECKERS: dict[str, Callable[[bytes], str]] = {
    "cksum": lambda data: f"{_cksum(data)} {len(data)}",
    "md5sum": lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest(),
    "sha256sum": lambda data: hashlib.sha256(data).hexdigest(),
    "sha1sum": lambda data: hashlib.sha1(data, usedforsecurity=False).hexdigest(),
}
