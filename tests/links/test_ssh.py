"""Boards behind SSH, OpenSSH and dropbear: verified, blamed, cleaned; and what is no such board."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest
from qverify.cli.main import main
from qverify_agents.connect import connect
from qverify_agents.errors import BoardUnreachable, LinkError

from tests.links.servers import no_agents_of
from tests.links.ssh_boards import OPENSSH, run


@pytest.mark.parametrize("backend", ["paramiko", "openssh"])
def test_verified_and_the_second_time_nothing_is_pushed(server, backend, digits, tmp_path, capsys):
    import json

    reports = []
    for _ in range(2):
        path = tmp_path / "r.json"
        assert run(digits, f"{server.board}&backend={backend}", "--json", str(path)) == 0
        reports.append(json.loads(path.read_text()))
    assert "Quanti.onnx and Arm result Strict check PASSED" in capsys.readouterr().out
    assert reports[0]["link"]["cached_bytes"] == 0 and reports[1]["link"]["cached_bytes"] > 9000
    assert reports[1]["link"]["bytes_sent"] < 1000
    assert reports[1]["link"]["bytes_received"] < 4096 + 48 * 8 + 40 + 256
    agents = list((server.cache / "bin").iterdir())
    assert len(agents) == 1 and not agents[0].name.endswith(".part")
    assert no_agents_of(server.cache)


def test_a_fault_of_the_board_is_blamed(server, digits, capsys):
    assert run(digits, f"faulty:{server.board}&fault=bitflip@relu2_QuantizeLinear_Output") == 1
    assert "blame: board at relu2_QuantizeLinear_Output" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("board", "said"),
    [
        ("127.0.0.1:1", "Connection refused"),
        ("no-such-host.invalid", "qverify boards list shows the boards that have names"),
        ("127.0.0.1?ssh_config=/nonexistent", "no such file"),
    ],
)
def test_what_cannot_be_reached_is_one_line(digits, capsys, board, said):
    assert run(digits, board, "--timeout", "10") in (2, 3)
    error = capsys.readouterr().err
    assert said in error and len(error.strip().splitlines()) == 1


@OPENSSH
@pytest.mark.parametrize("folder", ["/proc/qv", "/sys/qv"])
def test_a_folder_that_cannot_hold_the_agent_is_passed_over(openssh, digits, folder, monkeypatch):
    monkeypatch.setenv("HOME", str(openssh.folder))
    assert run(digits, openssh.board.replace(str(openssh.cache), folder)) == 0


def test_a_damaged_agent_on_the_board_is_replaced(server):
    connect(server.board, 30).close()
    (agent,) = (server.cache / "bin").iterdir()
    agent.write_bytes(agent.read_bytes()[:5000])
    connect(server.board, 30).close()
    assert agent.stat().st_size > 100_000


def test_a_silent_server_is_a_timeout(tmp_path):
    import socket

    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        start = time.monotonic()
        with pytest.raises(LinkError):
            connect(f"127.0.0.1:{deaf.getsockname()[1]}", 3)
        assert time.monotonic() - start < 15


def test_something_that_is_no_ssh_server(tmp_path):
    import socket

    with socket.socket() as web:
        web.bind(("127.0.0.1", 0))
        web.listen()

        def answer() -> None:
            one, _ = web.accept()
            one.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            one.close()

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(BoardUnreachable):
            connect(f"127.0.0.1:{web.getsockname()[1]}", 5)


def test_clean_removes_what_was_put_there_and_never_under_somebody(server, capsys, monkeypatch):
    monkeypatch.setenv("HOME", str(server.folder))  # where an agent of `boards clean` itself would go
    with connect(server.board, 30):
        assert main(["boards", "clean", server.board]) == 3
        assert "is in use" in capsys.readouterr().err
    assert (server.cache / "bin").is_dir()
    mine = server.cache / "store" / "precious"
    mine.write_text("of somebody else")
    assert main(["boards", "clean", server.board]) == 0
    assert [p for p in server.cache.rglob("*") if p.is_file()] == [mine]


@OPENSSH
def test_boards_ssh_goes_the_way_of_a_run(openssh, tmp_path):
    """The inventory's name gives its address, key and pin; another pin is refused by ssh itself."""
    key, other = (" ".join((tmp_path / f"{name}.pub").read_text().split()[:2]) for name in ("host", "client"))
    openssh.known.write_text("")
    uri = f"ssh://127.0.0.1:{openssh.port}?identity={openssh.key}"
    text = "".join(f'[boards.{n}]\nuri = "{uri}"\nhost_key = "{k}"\n' for n, k in (("desk", key), ("odd", other)))
    (tmp_path / "boards.toml").write_text(text + '[boards.line]\nuri = "serial:///dev/null"\n')
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "QVERIFY_BOARDS": str(tmp_path / "boards.toml"),
    }

    def there(name: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "qverify.cli.main", "boards", "ssh", name, "echo", "was", "there"]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=30, env=environment, stdin=subprocess.DEVNULL, check=False
        )

    assert there("desk").stdout == "was there\n"
    assert there("odd").returncode == 255
    assert there("line").returncode == 2 and "wanted a qemu: board or one reached by ssh" in there("line").stderr
