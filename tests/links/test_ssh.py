"""Boards behind SSH: OpenSSH and dropbear servers on loopback; keys known, unknown, changed; jump hosts; lost connections; the lock."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify_agents.connect import connect
from qverify_agents.errors import BoardBusy, BoardUnreachable, LinkError

from tests.links.cut_proxy import CutProxy
from tests.links.password_server import PasswordServer
from tests.links.servers import DROPBEAR, SSHD, Server, agents_of, keygen

KINDS = [
    pytest.param("openssh", marks=pytest.mark.skipif(SSHD is None, reason="no sshd on this machine")),
    pytest.param("dropbear", marks=pytest.mark.skipif(DROPBEAR is None, reason="no dropbear on this machine")),
]
OPENSSH = pytest.mark.skipif(SSHD is None, reason="no sshd on this machine")


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    made = Server(request.param, tmp_path)
    made.trust()
    try:
        yield made
    finally:
        made.close()


def run(digits: Path, board: str, *words: str) -> int:
    return main(["-m", str(digits / "digits_quant.onnx"), "-b", board, "-r", *words])


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
    time.sleep(0.3)
    assert not agents_of(server.cache)


def test_a_fault_of_the_board_is_blamed(server, digits, capsys):
    assert run(digits, f"faulty:{server.board}&fault=bitflip@relu2_QuantizeLinear_Output") == 1
    assert "blame: board at relu2_QuantizeLinear_Output" in capsys.readouterr().out


def test_an_unknown_host_is_refused_with_its_fingerprint_and_learnt_when_asked(server, digits, capsys):
    server.known.unlink()
    assert run(digits, server.board) == 3
    said = capsys.readouterr().err
    assert "SHA256:" in said and "--accept-new-host-key" in said and not server.known.exists()
    assert run(digits, server.board, "--accept-new-host-key") == 0
    assert run(digits, server.board) == 0


def test_a_changed_host_key_always_stops(server, digits, tmp_path, capsys):
    keygen(tmp_path / "other")
    kind, blob = (tmp_path / "other.pub").read_text().split()[:2]
    server.known.write_text(f"[127.0.0.1]:{server.port} {kind} {blob}\n")
    assert run(digits, server.board, "--accept-new-host-key") == 3
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in capsys.readouterr().err
    assert run(digits, f"{server.board}&host_key={kind} {blob}") == 3
    assert "the inventory pins" in capsys.readouterr().err
    right = " ".join((server.folder / "host.pub").read_text().split()[:2])
    assert run(digits, f"{server.board}&host_key={right}") == 0


@OPENSSH
@pytest.mark.parametrize("backend", ["paramiko", "openssh"])
def test_a_host_key_alias_is_known_as_the_real_ssh_knows_it(backend, openssh, digits):
    """By its bare name: what either writes, the other finds."""
    openssh.write_config("  HostKeyAlias the-board\n")
    right, ssh = openssh.known.read_text().partition(" ")[2], ["ssh", "-F", str(openssh.config), "-o", "BatchMode=yes"]
    openssh.known.unlink()
    accept = [*ssh, "-o", "StrictHostKeyChecking=accept-new", "-o", "HashKnownHosts=no", "testboard", "true"]
    subprocess.run(accept, check=True, capture_output=True, timeout=20)
    assert f"the-board {right}" in openssh.known.read_text()
    assert run(digits, f"{openssh.board}&backend={backend}") == 0
    openssh.known.unlink()
    assert run(digits, f"{openssh.board}&backend={backend}", "--accept-new-host-key") == 0
    assert f"the-board {right}" in openssh.known.read_text()
    strict = [*ssh, "-o", "StrictHostKeyChecking=yes", "testboard", "true"]
    subprocess.run(strict, check=True, capture_output=True, timeout=20)


@OPENSSH
def test_an_encrypted_key(openssh, digits, tmp_path, monkeypatch, capsys):
    keygen(tmp_path / "locked", "open sesame")
    openssh.key = tmp_path / "locked"
    openssh.write_config()
    (tmp_path / "authorized_keys").write_bytes((tmp_path / "locked.pub").read_bytes())
    assert run(digits, openssh.board) == 3
    assert "refuses user" in capsys.readouterr().err
    monkeypatch.setenv("QVERIFY_SSH_PASSPHRASE", "wrong")
    assert run(digits, openssh.board) == 3
    assert "wrong passphrase" in capsys.readouterr().err
    monkeypatch.setenv("QVERIFY_SSH_PASSPHRASE", "open sesame")
    assert run(digits, openssh.board) == 0


@OPENSSH
def test_a_jump_host(openssh, digits):
    openssh.write_config(
        f"Host behind\n  HostName 127.0.0.1\n  Port {openssh.port}\n  User {os.environ.get('USER') or 'root'}\n  IdentityFile {openssh.key}\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {openssh.known}\n  ProxyJump testboard\n"
    )
    assert run(digits, openssh.board.replace("testboard", "behind")) == 0


@OPENSSH
def test_several_jump_hosts(openssh, digits):
    hop = openssh.config.read_text().partition("HostName")[2]
    more = "".join(f"Host hop{i}\n  HostName{hop}" for i in (1, 2))
    openssh.write_config(f"{more}Host far\n  HostName{hop}  ProxyJump hop1,hop2\n")
    before = threading.active_count()
    assert run(digits, openssh.board.replace("testboard", "far")) == 0
    end = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.1)
    assert threading.active_count() <= before  # every hop's connection is closed


@OPENSSH
def test_a_proxy_command_is_run_by_a_shell(openssh, digits):
    """With exec before it, as many configurations have."""
    relay = openssh.folder / "relay.py"
    relay.write_text(
        "import os, socket, sys, threading\n"
        "c = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "out = lambda: [os.write(1, d) for d in iter(lambda: c.recv(65536), b'')]\n"
        "threading.Thread(target=out, daemon=True).start()\n"
        "[c.sendall(d) for d in iter(lambda: os.read(0, 65536), b'')]\n"
    )
    openssh.write_config(f"  ProxyCommand exec python3 {relay} %h %p\n")
    assert run(digits, openssh.board) == 0


@OPENSSH
@pytest.mark.parametrize("before", ["", "head -c 5; "], ids=["at once", "after our banner"])
def test_a_proxy_command_that_ends_in_the_handshake(before, openssh, digits, capsys):
    openssh.write_config(f"  ProxyCommand {before}exit 7\n")
    assert run(digits, openssh.board) == 3
    assert "ProxyCommand of the SSH configuration ended with status 7" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["password", "keyboard-interactive"])
def test_a_password_from_the_environment_and_in_no_output(method, digits, tmp_path, monkeypatch, capsys):
    server = PasswordServer(method)
    try:
        config = tmp_path / "config"
        (tmp_path / "known").write_text(server.known)
        config.write_text(
            f"Host *\n  User me\n  IdentitiesOnly yes\n  IdentityFile /nonexistent\n  UserKnownHostsFile {tmp_path}/known\n"
        )
        board = f"127.0.0.1:{server.port}?ssh_config={config}&cache={tmp_path}/cache&lock={tmp_path}/lock"
        assert run(digits, board) == 3
        assert "QVERIFY_SSH_PASSWORD" in capsys.readouterr().err
        monkeypatch.setenv("QVERIFY_SSH_PASSWORD", "wr0ng")
        assert run(digits, board) == 3
        said = capsys.readouterr()
        assert "refuses user me (tried password" in said.err and "wr0ng" not in said.out + said.err
        monkeypatch.setenv("QVERIFY_SSH_PASSWORD", "s3cret")
        assert run(digits, board) == 0
        said = capsys.readouterr()
        assert "s3cret" not in said.out + said.err
    finally:
        server.close()


@pytest.fixture
def password_server() -> Iterator[PasswordServer]:
    made = PasswordServer()
    try:
        yield made
    finally:
        made.close()


@OPENSSH
def test_the_boards_password_is_for_the_board(openssh, password_server, digits, monkeypatch, capsys):
    """Behind a jump host that takes a key, the board gets it."""
    monkeypatch.setenv("QVERIFY_SSH_PASSWORD", "s3cret")
    with openssh.known.open("a") as known:
        known.write(password_server.known)
    openssh.write_config(_behind("testboard", password_server.port, openssh.known))
    assert run(digits, openssh.board.replace("testboard", "behind")) == 0
    assert set(password_server.offered) == {"s3cret"}


@pytest.mark.parametrize("method", ["password", "keyboard-interactive"])
@pytest.mark.parametrize("hops", ["jump", "jump,jump", "me@jump"])
def test_the_boards_password_is_never_offered_to_a_jump_host(hops, method, digits, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("QVERIFY_SSH_PASSWORD", "s3cret")
    jump = PasswordServer(method)
    try:
        (tmp_path / "known").write_text(jump.known)
        (tmp_path / "config").write_text(
            f"Host jump\n  HostName 127.0.0.1\n  Port {jump.port}\n  UserKnownHostsFile {tmp_path}/known\n  User me\n"
            f"  IdentitiesOnly yes\n  IdentityFile /nonexistent\n{_behind(hops, 1, tmp_path / 'known')}"
        )
        assert run(digits, f"behind?ssh_config={tmp_path}/config") == 3
        said = capsys.readouterr()
        assert "jump: 127.0.0.1 refuses user me (tried nothing" in said.err and "a key for this jump host" in said.err
        assert jump.offered == [] and "s3cret" not in said.out + said.err
    finally:
        jump.close()


def _behind(hops: str, port: int, known: Path) -> str:
    """Of an ssh configuration: a host of passwords, by way of others."""
    return (
        f"Host behind\n  HostName 127.0.0.1\n  Port {port}\n  User me\n  IdentitiesOnly yes\n  IdentityFile /nonexistent\n"
        f"  UserKnownHostsFile {known}\n  ProxyJump {hops}\n"
    )


def test_a_server_with_sha1_host_keys_only_gets_a_hint(digits, tmp_path, capsys):
    server = PasswordServer(sha1_only=True)
    try:
        status = run(
            digits, f"127.0.0.1:{server.port}?host_key={' '.join(server.known.split()[1:])}", "--timeout", "10"
        )
        assert status == 3
        error = capsys.readouterr().err
        assert len(error.strip().splitlines()) == 1 and ("ssh-rsa" in error or "refuses user" in error)
    finally:
        server.close()


@pytest.mark.parametrize(
    ("board", "said"),
    [
        ("127.0.0.1:1", "Connection refused"),
        ("no-such-host.invalid", "no such host"),
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


def test_a_lost_connection_is_made_again(server):
    with connect(server.board, 30) as agent:
        agent.ping()
        server.drop_connections()
        time.sleep(0.2)
        agent.ping()
        assert agent.generation == 1 and agent.hello["arch"]
        assert agent.hello["lock"] in ("held", "none")


def test_a_connection_lost_for_the_host_only_is_made_again(openssh):
    """The board's end does not notice: what holds the board then is this run itself."""
    proxy = CutProxy(openssh.port)
    openssh.port = proxy.port
    openssh.write_config()
    openssh.trust()
    try:
        with connect(openssh.board, 30) as agent:
            agent.ping()
            proxy.cut()
            start = time.monotonic()
            agent.ping()
            assert agent.generation == 1 and time.monotonic() - start < 8
            assert agent.ask_again()["lock"] == "held" and len(agents_of(openssh.cache)) == 1
        connect(openssh.board, 30).close()
    finally:
        proxy.close()


def test_a_board_in_use_names_its_user_and_can_be_waited_for(server):
    """By the board's own lock, for whoever comes another way; by the host's, before the board is touched."""
    server.write_config(server.config.read_text().replace("Host testboard", "Host other"))
    with connect(server.board, 30) as first:
        assert first.hello["lock"] == "held"
        with pytest.raises(BoardBusy, match=r"in use by .* pid .* last heard \d+ s ago"):
            connect(server.board.replace("testboard", "other"), 30)
        with pytest.raises(BoardBusy, match=r"in use by .* pid .* on this host"):
            connect(server.board, 30)
        threading.Timer(1.0, first.close).start()
        with connect(f"{server.board}&wait=20", 30) as second:
            assert second.hello["lock"] == "held"


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


HANGS = """
import sys
sys.path[:0] = sys.argv[2:]
from tiny_model import graph, model_bytes, prepared
from qverify.sides.board import Board
board = Board(sys.argv[1], model_bytes(), graph(), 60)
print("up", flush=True)
board.run(prepared())
"""


@pytest.mark.parametrize("signal_name", ["SIGKILL", "SIGINT"])
def test_a_run_that_hangs_goes_with_its_host(server, signal_name):
    """The node never comes back; the agent must not keep the board for ever."""
    import signal
    import sys

    board = f"faulty:{server.board}&fault=hang@u"
    words = [sys.executable, "-c", HANGS, board, str(Path(__file__).parents[1] / "conformance")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as host:
        assert host.stdout is not None and host.stdout.readline() == b"up\n"
        time.sleep(1.0)
        assert agents_of(server.cache)
        host.send_signal(getattr(signal, signal_name))
        host.wait(20)
    end = time.monotonic() + 10
    while agents_of(server.cache) and time.monotonic() < end:
        time.sleep(0.1)
    assert agents_of(server.cache) == []
    connect(server.board, 30).close()


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
    """By the name of the inventory, with its key and its pin; another pin is refused by ssh itself."""
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
