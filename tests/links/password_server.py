"""An SSH server that knows no keys of users: passwords or questions only, or none but SHA-1 host keys; commands run on this machine."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Sequence

import paramiko


class Account(paramiko.ServerInterface):
    """method: password or keyboard-interactive. offered: takes every word that is tried. freezes: at what the server stops
    for good, login, exec or input. hangs_up: the connection ends at the first login, which gets no answer."""

    def __init__(self, method: str, word: str, offered: list[str], freezes: str, over: threading.Event, hangs_up: bool):
        self._method, self._word, self._offered, self._freezes, self._over = method, word, offered, freezes, over
        self._hangs_up = hangs_up

    def check_auth_none(self, username: str) -> int:
        if self._hangs_up:
            raise EOFError
        if self._freezes == "login":
            self._over.wait()
        return paramiko.AUTH_SUCCESSFUL if self._freezes else paramiko.AUTH_FAILED

    def get_allowed_auths(self, username: str) -> str:
        return self._method

    def check_auth_password(self, username: str, password: str) -> int:
        self._offered.append(password)
        right = self._method == "password" and password == self._word
        return paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED

    def check_auth_interactive(self, username: str, submethods: str):
        return paramiko.InteractiveQuery("board", "", ("Password: ", False))

    def check_auth_interactive_response(self, responses: Sequence[str]) -> int:
        self._offered += responses
        right = self._method != "password" and list(responses) == [self._word]
        return paramiko.AUTH_SUCCESSFUL if right else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        if self._freezes == "exec":
            self._over.wait()
        if self._freezes == "input":
            channel.get_transport().packetizer.read_message = self._over.wait
            return True
        threading.Thread(target=_run, args=(channel, command), daemon=True).start()
        return True


def _run(channel: paramiko.Channel, command: bytes) -> None:
    process = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None

    def feed() -> None:
        assert process.stdin is not None
        while data := channel.recv(65536):
            process.stdin.write(data)
            process.stdin.flush()
        process.stdin.close()

    threading.Thread(target=feed, daemon=True).start()
    while data := process.stdout.read1(65536):
        channel.sendall(data)
    process.stdout.close()
    with contextlib.suppress(EOFError, OSError):  # the client may be gone by now
        channel.send_exit_status(process.wait())
        channel.close()


class PasswordServer:
    """port: on 127.0.0.1. known: its line of known_hosts, by its RSA key; it has another one, as boards have. offered: the words tried on it.
    hangs_up: the number of first connections that end after the handshake."""

    def __init__(
        self,
        method: str = "password",
        word: str = "s3cret",
        sha1_only: bool = False,
        freezes: str = "",
        hangs_up: int = 0,
    ):
        self._key, self._other_key = paramiko.RSAKey.generate(2048), paramiko.ECDSAKey.generate()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.known = f"[127.0.0.1]:{self.port} ssh-rsa {self._key.get_base64()}\n"
        self._method, self._word, self._sha1_only = method, word, sha1_only
        self._freezes, self._over, self._hangs_up = freezes, threading.Event(), hangs_up
        self._transports: list[paramiko.Transport] = []
        self.offered: list[str] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                one, _ = self._listener.accept()
            except OSError:
                return
            off = {"keys": ["rsa-sha2-256", "rsa-sha2-512"]} if self._sha1_only else None
            transport = paramiko.Transport(one, disabled_algorithms=off, default_window_size=1 << 30)
            transport.add_server_key(self._key)
            if not self._sha1_only:
                transport.add_server_key(self._other_key)
            self._transports.append(transport)
            try:
                hangs_up = self._hangs_up >= len(self._transports)
                transport.start_server(
                    server=Account(self._method, self._word, self.offered, self._freezes, self._over, hangs_up)
                )
            except (paramiko.SSHException, EOFError, OSError):
                transport.close()

    def close(self) -> None:
        self._listener.close()
        self._over.set()
        for transport in self._transports:
            transport.close()
