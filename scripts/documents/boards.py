"""Starts boards on loopback for pages that show a board, and maps the addresses that the page shows to theirs."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

KINDS = ("ssh", "serial", "aarch64", "labgrid", "mcu")


def available() -> frozenset[str]:
    """Returns the kinds of boards that this machine can start: ssh and labgrid need sshd and root, aarch64 needs
    QEMU, mcu QEMU, make and a compiler."""
    from qverify_agents.emulation.user_mode import find_emulator

    from tests.links.servers import SSHD

    impossible = set() if SSHD is not None and os.geteuid() == 0 else {"ssh", "labgrid"}
    if any(shutil.which(program) is None for program in ("qemu-system-arm", "arm-none-eabi-gcc", "make")):
        impossible.add("mcu")
    return frozenset(KINDS) - (impossible if find_emulator("aarch64") else impossible | {"aarch64"})


@contextlib.contextmanager
def board(kind: str) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Starts a board. Yields environment variables for the commands, and the address that the page shows to the real
    one."""
    if kind not in KINDS:
        raise ValueError(f"no board of kind {kind!r}; there are: {', '.join(KINDS)}")
    start = {"ssh": _ssh, "serial": _serial, "aarch64": _aarch64, "labgrid": _labgrid, "mcu": _aarch64}[kind]
    with tempfile.TemporaryDirectory(prefix="qverify-board-") as folder, start(Path(folder).resolve()) as started:
        yield started


@contextlib.contextmanager
def _aarch64(folder: Path) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Starts nothing: -b qemu-user:aarch64 and qemu-mcu:an386 start a process for themselves."""
    yield {}, {}


@contextlib.contextmanager
def _ssh(folder: Path) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Starts an OpenSSH server on this machine, which the client's configuration calls 10.0.0.5."""
    from tests.links.servers import Server

    class ServerWithOwnCache(Server):
        """A server whose agents and contents are in a temporary folder instead of the user's cache."""

        def _command(self) -> list[str]:
            command = super()._command()
            with open(folder / "sshd_config", "a") as config:
                config.write(f"SetEnv XDG_CACHE_HOME={folder}/cache\n")
            return command

    server = ServerWithOwnCache("openssh", folder)
    try:
        server.trust()
        text = server.config.read_text().replace("Host testboard", "Host 10.0.0.5 testboard")
        server.config.write_text(text)
        yield {"QVERIFY_SSH_CONFIG": str(server.config)}, {}
    finally:
        server.close()


@contextlib.contextmanager
def _labgrid(folder: Path) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Starts a coordinator, which the page calls lab:20408, and an exporter whose two places are this machine's OpenSSH
    server. The place "shelf" is acquired by another user."""
    from qverify_agents.this_user import cache_folder

    from tests.labgrid_lab import lab, labgrid_python

    with _ssh(folder) as (environment, _):
        config = Path(environment["QVERIFY_SSH_CONFIG"])
        text = config.read_text()
        config.write_text(text.replace("Host 10.0.0.5", "Host 127.0.0.1 10.0.0.5"))
        port = int(text.split("Port ")[1].split()[0])
        service = {"NetworkService": {"address": "127.0.0.1", "username": "root", "port": port}}
        places = {"desk": ("desk", {"soc": "j5", "fw": "1.2"}), "shelf": ("shelf", {"soc": "j5", "fw": "1.1"})}
        python = labgrid_python(cache_folder() / "labgrid")
        with lab(python, folder / "lab", places, {"desk": service, "shelf": service}) as running:
            running.client("-p", "shelf", "acquire", user="ann", host="lab2")
            environment |= {"LG_COORDINATOR": running.coordinator, "QVERIFY_LABGRID_PYTHON": str(python)}
            yield environment | {"XDG_CACHE_HOME": f"{folder}/cache"}, {"lab:20408": running.coordinator}


@contextlib.contextmanager
def _serial(folder: Path) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Starts a shell on a pseudo terminal that is as slow as a line of 921600 baud."""
    from tests.links.pty_board import PtyBoard

    pty_board = PtyBoard(baud=921600, home=folder)
    try:
        yield {}, {"/dev/ttyUSB0": pty_board.path}
    finally:
        pty_board.close()
