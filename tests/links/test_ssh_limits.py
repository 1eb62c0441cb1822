"""SSH servers that stop answering: whatever they stop at, the deadline holds."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest
from qverify_agents.address import parse
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable, LinkTimeout
from qverify_agents.links import ssh
from qverify_agents.links.ssh import open_shell

from tests.links.password_server import PasswordServer


def address(server: PasswordServer):
    return parse(f"me@127.0.0.1:{server.port}?host_key={' '.join(server.known.split()[1:])}")


def ends_within(seconds: float, work) -> list[BaseException]:
    """What it raised; in a thread, for one that hangs would take the test with it."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "still waiting"
    return raised


@pytest.mark.parametrize("freezes", ["exec", "input"])
def test_a_server_that_stops_answering_is_a_timeout(freezes):
    server = PasswordServer(freezes=freezes)

    def use() -> None:
        shell = open_shell(address(server), Deadline(10))
        try:
            shell.run("true", Deadline(1.5), b"x" * (64 << 20))
        finally:
            shell.close()

    try:
        (error,) = ends_within(15, use)
        assert isinstance(error, LinkTimeout) and "--timeout" in str(error)
    finally:
        server.close()


@pytest.mark.parametrize("times", [1, 2])
def test_a_server_that_hangs_up_before_the_login_is_connected_to_again(times, monkeypatch):
    monkeypatch.setenv("QVERIFY_SSH_PASSWORD", "s3cret")
    server = PasswordServer(hangs_up=times)
    try:
        shell = open_shell(address(server), Deadline(20))
        assert shell.run("echo here", Deadline(10)).out == b"here\n"
        shell.close()
        assert server.offered == ["s3cret"]
    finally:
        server.close()


def test_a_server_that_always_hangs_up_before_the_login_is_named(monkeypatch):
    monkeypatch.setenv("QVERIFY_SSH_PASSWORD", "s3cret")
    server = PasswordServer(hangs_up=100)
    try:
        with pytest.raises(BoardUnreachable, match=r"127\.0\.0\.1 hung up before the login, 3 times"):
            open_shell(address(server), Deadline(20))
        assert server.offered == []
    finally:
        server.close()


def test_a_server_that_falls_silent_in_the_handshake_is_named(monkeypatch):
    monkeypatch.setattr(ssh, "HANDSHAKE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepted: list[socket.socket] = []

        def greet() -> None:
            one, _ = listener.accept()
            accepted.append(one)
            one.sendall(b"SSH-2.0-dropbear_2022.83\r\n")

        threading.Thread(target=greet, daemon=True).start()
        with pytest.raises(
            BoardUnreachable, match=r"the SSH server answered, but its handshake did not end within 0\.5 s"
        ):
            open_shell(parse(f"me@127.0.0.1:{listener.getsockname()[1]}"), Deadline(20))
        for one in accepted:
            one.close()


def test_a_board_that_freezes_in_the_login_is_a_timeout_and_no_refusal():
    server = PasswordServer(freezes="login")
    try:
        (error,) = ends_within(10, lambda: open_shell(address(server), Deadline(2)))
        assert isinstance(error, LinkTimeout) and "--timeout" in str(error)
    finally:
        server.close()


def test_an_ssh_agent_that_never_answers_is_named(tmp_path: Path, monkeypatch):
    server = PasswordServer("publickey")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
    try:
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.bind(str(tmp_path / "agent"))
            deaf.listen()
            start = time.monotonic()
            (error,) = ends_within(10, lambda: open_shell(address(server), Deadline(2)))
        assert isinstance(error, BoardUnreachable) and "ssh-agent" in str(error) and time.monotonic() - start < 6
    finally:
        server.close()
