"""What a wire makes of a typed command never runs: the shell checks it first."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from qverify_agents.address import parse
from qverify_agents.connect import connect
from qverify_agents.console.line import DAMAGED_STATUS, ConsoleLine
from qverify_agents.console.link import END_MARK, SHELL_MARK, ConsoleLink
from qverify_agents.console.shell import ConsoleShell
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BadAddress, BoardBusy, BoardUnreachable, LinkError, LinkTimeout
from qverify_agents.links.serial_line import SerialPort

from tests.links.pty_board import PtyBoard


class OnceDamaged:
    """A Port whose next write has one character dropped, flipped or preceded by a blank, `at` counted from where."""

    def __init__(self, port: SerialPort):
        self.port, self.where, self.at, self.kind = port, b"", 0, ""

    def read(self, seconds: float) -> bytes:
        return self.port.read(seconds)

    def write(self, data: bytes, deadline: Deadline) -> None:
        if self.kind:
            start = data.index(self.where) + self.at
            middle = {"drop": b"", "flip": bytes([data[start] ^ 4]), "insert": b" " + data[start : start + 1]}
            data, self.kind = data[:start] + middle[self.kind] + data[start + 1 :], ""
        self.port.write(data, deadline)


@pytest.mark.parametrize("kind", ["drop", "flip", "insert"])
@pytest.mark.parametrize("command", [": >kept/new", "rm -f kept/o*.qv"])
def test_a_damaged_command_does_nothing_and_is_typed_again(command: str, kind: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    with PtyBoard(home=tmp_path) as board:
        port = OnceDamaged(SerialPort(parse(board.address)))
        shell = ConsoleShell(port, "here")
        shell.log_in(Deadline(20))
        line = shell._line
        assert line.checker == "cksum"
        for at in range(len(command)):
            for path in tmp_path.rglob("*new*"):
                path.unlink()
            for path in (kept / "old.qv", kept / "other.txt", tmp_path / "mine"):
                path.touch()
            port.where, port.at, port.kind = command.encode(), at, kind
            assert line._run_once(command, Deadline(20))[0] == DAMAGED_STATUS
            assert names(tmp_path) == ["kept", "kept/old.qv", "kept/other.txt", "mine"], at
            port.where, port.at, port.kind = command.encode(), at, kind
            assert line.run_command(command, Deadline(20))[0] == 0
            found = ["kept/new", "kept/old.qv"] if "new" in command else []
            assert names(tmp_path) == ["kept", *found, "kept/other.txt", "mine"], at
        shell.close()
        port.port.close()


def names(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def test_a_board_without_a_checker_still_runs_commands() -> None:
    assert ConsoleLine(None, "here").guard("it's") == "it's"  # type: ignore[arg-type]


def test_a_console_leaves_another_ones_files_alone(tmp_path: Path) -> None:
    """A file is taken away where the shell it names has ended."""
    with PtyBoard(home=tmp_path) as one, PtyBoard(home=tmp_path) as two:
        theirs = Path(f"/tmp/.qv-{two.process.pid}.in")
        ours, ended = Path(f"/tmp/.qv-{one.process.pid}.in"), Path("/tmp/.qv-99999999.sh")
        for path in (ours, theirs, ended):
            path.write_text("x")
        try:
            port = SerialPort(parse(one.address))
            shell = ConsoleShell(port, "here")
            shell.log_in(Deadline(20))
            assert [p.exists() for p in (ours, theirs, ended)] == [False, True, False]
            assert shell._upload.send_file(b"hello", "in", Deadline(20)) == str(ours)
            assert ours.read_bytes() == b"hello"
            shell.close()
            port.close()
        finally:
            for path in (ours, theirs, ended):
                path.unlink(missing_ok=True)


class Readings:
    """A Port that has come to these readings and takes whatever is written."""

    def __init__(self, *readings: bytes):
        self.left = list(readings)

    def read(self, seconds: float) -> bytes:
        return self.left.pop(0) if self.left else b""

    def write(self, data: bytes, deadline: Deadline) -> None:
        pass


LAST = b"the agent's last frames"


@pytest.mark.parametrize(
    "readings",
    [
        (LAST + END_MARK + b"\n" + SHELL_MARK + b"# ",),
        (LAST + SHELL_MARK,),  # a mark was damaged
        (LAST, END_MARK + b"\n", SHELL_MARK),
        (LAST[:5], LAST[5:] + END_MARK[:3], END_MARK[3:] + b"\n# " + SHELL_MARK),
        (LAST + END_MARK[:1], END_MARK[1:], b"# ", SHELL_MARK),
    ],
)
def test_what_the_agent_said_last_is_read_and_nothing_of_the_shell(readings: tuple[bytes, ...]) -> None:
    link, came = ConsoleLink(Readings(*readings), "here"), b""
    while data := link.read(Deadline(2)):
        came += data
    assert came in (LAST, LAST + END_MARK[:3], LAST + END_MARK[:1])  # a mark that is not whole may be anything
    assert link.read(Deadline(2)) == b""


def test_a_push_that_is_cut_off_leaves_nothing(tmp_path: Path) -> None:
    with PtyBoard(home=tmp_path, baud=115200) as board:
        with pytest.raises(LinkError):
            connect(f"{board.address}&cache={tmp_path}/c", 5.0)
        assert not list(Path("/tmp").glob(f".qv-{board.process.pid}.*"))
        assert not list((tmp_path / "c" / "bin").iterdir())


def test_an_echoed_password_is_in_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QVERIFY_SERIAL_PASSWORD", "s3cret")
    ask = "printf 'login: '; read u; printf 'Password: '; read p; echo got $p"
    login = f"trap '' INT; while [ \"$p\" != s3cret ]; do {ask}; done; trap - INT; exec sh -i"
    with PtyBoard(shell=("/bin/sh", "-c", login), home=tmp_path) as board:
        port = SerialPort(parse(board.address))
        shell = ConsoleShell(port, "here")
        shell.log_in(Deadline(20))
        assert "got ***" in shell._log and "s3cret" not in shell._log + shell._shown
        port.close()


def test_a_port_that_is_open_elsewhere_is_busy_and_may_be_waited_for(tmp_path: Path) -> None:
    with PtyBoard(home=tmp_path) as board:
        first = SerialPort(parse(board.address))
        with pytest.raises(BoardBusy, match="another program"):
            SerialPort(parse(board.address))
        threading.Timer(0.5, first.close).start()
        SerialPort(parse(f"{board.address}&wait=10")).close()


def test_the_lines_settings_are_the_ports(tmp_path: Path) -> None:
    with PtyBoard(home=tmp_path) as board:
        port = SerialPort(parse(f"{board.address}&parity=E&flow=rtscts&dtr=0&rts=1"))
        assert (port._serial.parity, port._serial.rtscts, port._serial.dtr, port._serial.rts) == (
            "E",
            True,
            False,
            True,
        )
        port.close()
        with pytest.raises(BadAddress, match="wanted one of none, rtscts"):
            parse(f"{board.address}&flow=xon")


class Chatty(Readings):
    """A console that never stops printing; readings: how many; late: those begun after the deadline."""

    def __init__(self, text: bytes, deadline: Deadline):
        self.text, self.deadline, self.readings, self.late = text, deadline, 0, 0

    def read(self, seconds: float) -> bytes:
        self.late += self.deadline.over
        self.readings += 1
        time.sleep(0.002)
        return self.text


@pytest.mark.parametrize("text", [b"[ 12.3] usb 1-1: not accepting address 5\r\n", b"still here\r\nboard# "])
def test_a_console_that_never_stops_printing_has_no_more_time_than_any(text: bytes) -> None:
    deadline = Deadline(0.5)
    port = Chatty(text, deadline)
    with pytest.raises(BoardUnreachable, match="no shell prompt on the console"):
        ConsoleShell(port, "chatty").log_in(deadline)
    assert port.late <= 1


def test_an_agent_that_is_lost_in_what_the_console_prints_is_not_waited_for() -> None:
    port = Chatty(b"kernel: nothing of the agent's\r\n", Deadline(60))
    link = ConsoleLink(port, "chatty")
    for _ in range(3):
        link.write(b"anyone?", Deadline(1))
        with pytest.raises(LinkTimeout):
            deadline = Deadline(0.01)
            while True:
                link.read(deadline)
    before = port.readings
    link.close()
    assert port.readings - before < 1000  # of 2 ms or more each: a machine that is slow reads less
