"""Boards behind a console: a shell on a pty, slow, noisy, with a login; the terminal is found again as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify_agents.connect import connect
from qverify_agents.console.checksums import cksum
from qverify_agents.deadline import Deadline

from tests.links.pty_board import PtyBoard

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def run(digits: Path, board: PtyBoard, options: str = "", *words: str) -> int:
    return main(["-m", str(digits / "digits_quant.onnx"), "-b", f"{board.address}&{options}".rstrip("&"), "-r", *words])


def settings(tty: str) -> str:
    return subprocess.run(["stty", "-g", "-F", tty], capture_output=True, text=True, check=True, timeout=10).stdout


@pytest.mark.parametrize(
    ("kind", "probability", "seed"),
    [("none", 0, 0), ("flip", 1e-5, 1), ("drop", 1e-5, 2), ("insert", 1e-5, 3)],
)
def test_verified_over_a_console(kind, probability, seed, digits, tmp_path):
    with PtyBoard(kind=kind, probability=probability, seed=seed, home=tmp_path) as board:
        report = tmp_path / "r.json"
        for _ in range(2):
            assert run(digits, board, "", "--json", str(report)) == 0
        link = json.loads(report.read_text())["link"]
        assert link["cached_bytes"] > 9000
        assert board.process.poll() is None
        assert not [p for p in Path("/tmp").glob(".qv-*") if str(board.process.pid) in p.name]


def test_the_terminal_is_found_again_as_it_was(digits, tmp_path):
    with PtyBoard(home=tmp_path) as board:
        assert run(digits, board) == 0
        first = settings(board.board_tty)
        assert (
            "-icanon"
            not in subprocess.run(
                ["stty", "-a", "-F", board.board_tty], capture_output=True, text=True, timeout=10
            ).stdout
        )
        assert run(digits, board) == 0
        assert settings(board.board_tty) == first


def test_a_terminal_that_was_left_raw(digits, tmp_path):
    """Where noise took the command that puts it back: a return ends no line there."""
    with PtyBoard(home=tmp_path) as board:
        assert run(digits, board) == 0
        subprocess.run(["stty", "raw", "-echo", "-F", board.board_tty], check=True, timeout=10)
        assert run(digits, board) == 0
        told = subprocess.run(["stty", "-a", "-F", board.board_tty], capture_output=True, text=True, timeout=10).stdout
        assert "-icanon" not in told


def test_a_killed_agent_gives_the_console_back_and_nothing_sent_becomes_a_command(digits, tmp_path):
    with PtyBoard(home=tmp_path) as board:
        agent = connect(board.address, 30)
        try:
            before = sorted(p.name for p in tmp_path.iterdir())
            subprocess.run(["pkill", "-9", "-f", f"{tmp_path}/.cache/qverify/bin"], check=True, timeout=10)
            agent._link.write(b"\n:>typed\n:>typed-again\r", Deadline(5))  # as the rest of a frame on its way
            agent.ping()  # on a connection made anew
            assert agent.generation == 1
        finally:
            agent.close()
        assert run(digits, board) == 0
        assert sorted(p.name for p in tmp_path.iterdir()) == before


@pytest.mark.parametrize("ends", ["killed", "gives up"])
def test_a_node_that_never_ends_gives_the_console_back(ends, digits, tmp_path):
    """A console does not tell the board that its host has gone: the agent ends by itself."""
    with PtyBoard(home=tmp_path) as board:
        assert run(digits, board) == 0
        hung = f"faulty:{board.address}&fault=hang@relu2_QuantizeLinear_Output"
        words = ["-m", str(digits / "digits_quant.onnx"), "-b", hung, "--timeout", "6"]
        with subprocess.Popen([sys.executable, "-m", "qverify", *words], env=ENVIRONMENT) as host:
            if ends == "gives up":
                assert host.wait(60) == 3
            else:
                wait_for(lambda: agents_of(tmp_path))
                time.sleep(1.0)
                host.kill()
        wait_for(lambda: not agents_of(tmp_path))
        assert run(digits, board) == 0


def test_what_is_no_run_pushes_nothing(digits, tmp_path, capsys):
    with PtyBoard(home=tmp_path, baud=115200) as board:
        assert main(["boards", "break", board.address]) == 0
        assert "it is not locked" in capsys.readouterr().out
        assert main(["boards", "clean", board.address]) == 0
        assert not list(tmp_path.rglob("qvrt*"))


def test_a_board_is_cleaned_though_a_killed_host_left_its_agent_there(digits, tmp_path, capsys):
    with PtyBoard(home=tmp_path) as board:
        words = [sys.executable, "-c", HOLDS, board.address]
        with subprocess.Popen(words, env=ENVIRONMENT, stdout=subprocess.PIPE) as host:
            assert host.stdout is not None and host.stdout.readline() == b"up\n"
            host.kill()
        assert agents_of(tmp_path)
        assert main(["boards", "clean", board.address]) == 0, capsys.readouterr().err
        assert not list(tmp_path.rglob("qvrt*"))


HOLDS = """
import sys, time
from qverify_agents.connect import connect
agent = connect(sys.argv[1], 60)
print("up", flush=True)
time.sleep(100)
"""


def wait_for(happened, seconds: float = 60.0) -> None:
    """Asked once at a time: what is seen once has happened, whatever comes after."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def agents_of(home: Path) -> list[str]:
    words = ["pgrep", "-f", f"{home}/.cache/qverify/bin/[q]vrt"]
    return subprocess.run(words, capture_output=True, text=True, timeout=10, check=False).stdout.split()


def test_a_login_with_its_password_in_no_output(digits, tmp_path, monkeypatch, capsys):
    with PtyBoard(password="s3cret", home=tmp_path) as board:
        monkeypatch.setenv("QVERIFY_SERIAL_PASSWORD", "wrong")
        assert run(digits, board) == 3
        assert "refuses user root" in capsys.readouterr().err
    with PtyBoard(password="s3cret", home=tmp_path) as board:
        monkeypatch.setenv("QVERIFY_SERIAL_PASSWORD", "s3cret")
        assert run(digits, board) == 0
        printed = capsys.readouterr()
        assert "s3cret" not in printed.out + printed.err


def test_kernel_messages_are_quoted(digits, tmp_path, capsys):
    line = b"\r\n[   12.345] npu0: DMA error -110\r\n"
    with PtyBoard(home=tmp_path) as board:
        connect(board.address, 30).close()
        board._messages += [line] * 400
        board._random.random = lambda: 0.0  # every reading of the board's side brings one
        assert run(digits, board, "", "--json", str(tmp_path / "r.json")) == 0
    assert "npu0: DMA error -110" in (tmp_path / "r.json").read_text()


def test_the_boot_log_of_a_board_that_comes_up_is_quoted(digits, tmp_path):
    """It comes up once the host has sent it something."""
    failed = "echo '[    0.7] npu0: probe failed with error -22'"
    boot = f"trap '' INT; read sent; {failed}; sleep 0.5; trap - INT; exec sh -i"
    with PtyBoard(shell=("/bin/sh", "-c", boot), home=tmp_path) as board:
        assert run(digits, board, "", "--json", str(tmp_path / "r.json")) == 0
    assert "npu0: probe failed with error -22" in (tmp_path / "r.json").read_text()


def test_a_board_without_base64(digits, tmp_path, monkeypatch):
    bare = tmp_path / "bin"
    bare.mkdir()
    for tool in ("sh", "stty", "cat", "cksum", "rm", "mkdir", "chmod", "mv", "uname", "id", "sleep", "ls"):
        for folder in ("/bin", "/usr/bin"):
            if Path(folder, tool).exists():
                (bare / tool).symlink_to(Path(folder, tool))
                break
    monkeypatch.setenv("PATH", f"{bare}")
    with PtyBoard(home=tmp_path) as board:
        assert run(digits, board) == 0


def test_an_agent_that_owns_the_line(digits, tmp_path):
    from qverify_agents.binaries import host_architecture, runtime_path

    qvrt = runtime_path(host_architecture())
    line = f'mkdir -p {tmp_path}/s && stty -F "$(tty)" 115200 && exec {qvrt} agent --store={tmp_path}/s <"$(tty)" >"$(tty)"'
    with PtyBoard(shell=("/bin/sh", "-c", line), home=tmp_path) as board:
        assert run(digits, board, "mode=direct") == 0
        assert run(digits, board) == 0  # found there without being told
        assert board.process.poll() is None


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("serial:///dev/no-such-tty", 3, "no such device"),
        ("serial:///dev/null?baud=fast", 2, "baud=fast"),
        ("serial:///dev/null?bps=9600", 2, "unknown option 'bps'"),
    ],
)
def test_what_cannot_be_opened_is_one_line(digits, capsys, address, status, said):
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", address]) == status
    error = capsys.readouterr().err
    assert said in error and len(error.strip().splitlines()) == 1


def test_a_silent_console(digits, tmp_path, capsys):
    with PtyBoard(shell=("/bin/sh", "-c", "stty -echo; exec sleep 100"), home=tmp_path) as board:
        assert run(digits, board, "", "--timeout", "12") == 3
    assert "no shell prompt on the console" in capsys.readouterr().err


@pytest.mark.parametrize("data", [b"", b"hello world\n", bytes(range(256)) * 300], ids=len)
def test_cksum_is_posix(data):
    wanted = subprocess.run(["cksum"], input=data, capture_output=True, check=True, timeout=10).stdout.split()[0]
    assert cksum(data) == int(wanted)
