"""Whatever a runner does (it forks, hangs, floods, is killed, changes its model) and however the host ends, nothing of it is left
on the board: no process, no folder."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from qverify_agents.command_board import CommandBoard, CommandLine
from qverify_agents.deadline import Deadline
from qverify_agents.errors import LinkClosed, LinkError, LinkTimeout
from qverify_agents.supervised_command import RunningCommandLine
from qverify_agents.this_user import cache_folder

from tests.board_kinds import Place

ROOT = Path(__file__).resolve().parents[2]
PLACES = ["local", "openssh", "dropbear", "openssh-backend", "container", "qemu-ssh"]


@pytest.fixture
def mark() -> str:
    """A number that no other process of the machine names."""
    return f"9{secrets.randbelow(10**9):09d}"


def started_by(there: Place, mark: str) -> str:
    """The command lines of living processes of the board with the mark in them."""
    assert there.there is not None
    lines = there.there("for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null && echo; done").splitlines()
    return "\n".join(line for line in lines if f"sleep {mark}" in line and "tr " not in line)


def runs_left(there: Place) -> str:
    assert there.there is not None
    runs = f"{there.cache}/runs" if there.name != "local" else str(Path(there.cache).with_name("runs"))
    return there.there(f"ls -A {runs} 2>/dev/null").strip()


def wait_until_gone(there: Place, mark: str) -> None:
    end = time.monotonic() + (60 if "qemu" in there.name else 15)
    while (left := started_by(there, mark) + runs_left(there)) and time.monotonic() < end:
        time.sleep(0.1)
    assert left == ""


def files_of(started: RunningCommandLine) -> dict[str, bytes]:
    """The regular files that the command left; closes it."""
    archive = io.BytesIO()
    started.fetch(archive, Deadline(30))
    started.close()
    archive.seek(0)
    with tarfile.open(fileobj=archive) as files:
        found = {m.name: files.extractfile(m) for m in files if m.isreg()}
        return {n: f.read() for n, f in found.items() if f}


def test_a_command_runs_and_its_files_come(where: Place) -> None:
    board = CommandBoard(where.address, 60)
    try:
        sent = secrets.token_bytes(100_000)
        run, sha256 = board.new_run_folder(), board.put(sent)
        line = f"cat {board.placed_path(run, 'x.bin')} >copy; mkdir a; printf $A >a/b; pwd; echo bad >&2; exit 5"
        started = board.start(CommandLine(line, {"x.bin": sha256}, {"A": "value"}), run)
        started.wait()
        assert started.lines == [f"{run}/out", "bad"] and started.number("status") == 5
        assert files_of(started) == {"./copy": sent, "./a/b": b"value"}
    finally:
        board.close()
    if where.there is not None:
        assert runs_left(where) == ""


@pytest.mark.thorough_at("local", "openssh", "dropbear", elsewhere="sleep MARK & sleep MARK")
@pytest.mark.parametrize(
    "line",
    [
        "sleep MARK & sleep MARK",
        "(sleep MARK &) & setsid sleep MARK & sh -c 'sleep MARK & sleep MARK &' ; exit 0",
        "trap '' TERM HUP INT; sleep MARK & cd /; setsid sleep MARK >/dev/null 2>&1 & while :; do sleep MARK; done",
        "kill -9 $PPID; sleep MARK",
        "while :; do echo 0123456789012345678901234567890123456789; done & sleep MARK",
        "chmod 0 .; sleep MARK",
    ],
)
def test_what_forks_and_hangs_is_ended_at_the_deadline(where: Place, mark: str, line: str) -> None:
    if where.there is None:
        pytest.skip("a container is removed with all that runs in it")
    board = CommandBoard(where.address, 60)
    try:
        started = board.start(CommandLine(line.replace("MARK", mark)))
        started._deadline = Deadline(4 if "qemu" in where.name else 2)  # of the command alone, once it runs
        try:
            with contextlib.suppress(LinkError):
                started.wait()
        finally:
            started.close()
    finally:
        board.close()
    wait_until_gone(where, mark)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_the_host_is_killed(where: Place, mark: str, how: signal.Signals) -> None:
    if where.there is None:
        pytest.skip("a container is removed with all that runs in it")
    script = (
        "import sys\nfrom qverify_agents.command_board import CommandBoard, CommandLine\n"
        "board = CommandBoard(sys.argv[1], 60)\n"
        "running = board.start(CommandLine('sleep ' + sys.argv[2] + ' & setsid sleep ' + sys.argv[2] + ' & echo up; wait'))\n"
        "try:\n    running.wait(lambda line: print(line, flush=True))\nfinally:\n    running.close()\n    board.close()\n"
    )
    words = [sys.executable, "-c", script, where.address, mark]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as host:
        assert host.stdout is not None and host.stdout.readline() == b"up\n"
        assert started_by(where, mark)
        host.send_signal(how)
        host.wait(30)
    wait_until_gone(where, mark)


def test_a_flood_ends_the_command(where: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from qverify_agents import supervised_command

    most = 1 << (16 if "qemu" in where.name else 20)  # an emulated processor encrypts slowly
    monkeypatch.setattr(supervised_command, "MAX_OUTPUT_BYTES", most)
    board = CommandBoard(where.address, 60)
    try:
        started = board.start(CommandLine("while :; do echo 0123456789012345678901234567890123456789; done"))
        try:
            with pytest.raises(LinkClosed, match=f"more than {most} bytes of output"):
                started.wait()
            assert len(started.lines) <= supervised_command.MAX_KEPT_LINES
        finally:
            started.close()
    finally:
        board.close()


def test_a_model_that_a_run_changed_is_sent_anew(where: Place) -> None:
    if where.name in ("container", "docker"):
        pytest.skip("its contents end with it")
    model = secrets.token_bytes(999)
    seen = []
    for spoil in (": >", "echo spoilt >", "cat /proc/version >>", ""):
        board = CommandBoard(where.address, 60)
        try:
            run, sha256 = board.new_run_folder(), board.put(model)
            path = board.placed_path(run, "m")
            spoils = f"; chmod u+w $(readlink -f {path}); {spoil}{path}" if spoil else ""
            started = board.start(CommandLine(f"cp {path} m{spoils}", {"m": sha256}), run)
            started.wait()
            seen.append(files_of(started)["./m"])
        finally:
            board.close()
    assert seen == [model] * 4


def test_a_folder_that_is_not_empty_is_not_read(where: Place) -> None:
    board = CommandBoard(where.address, 60)
    try:
        started = board.start(CommandLine("echo ran", collect="/etc", setup="echo before"))
        started.wait()
        started.close()
        assert started.lines == ["before"] and "notempty" in started.marks and "status" not in started.marks
    finally:
        board.close()


def test_a_deadline_is_one_line(tmp_path: Path) -> None:
    board = CommandBoard("local", 1)
    try:
        started = board.start(CommandLine("sleep 60"))
        try:
            with pytest.raises(LinkTimeout, match="local: no answer within 1 s"):
                started.wait()
        finally:
            started.close()
    finally:
        board.close()
    assert not [*(cache_folder() / "runners" / "runs").iterdir()]
