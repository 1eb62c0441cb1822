"""Boards for the pages that show one: started on loopback, under the address the page writes."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

KINDS = ("ssh", "serial")


def available() -> frozenset[str]:
    """The kinds that this machine can start: ssh needs sshd, and root to start it."""
    from tests.links.servers import SSHD

    return frozenset(KINDS) if SSHD is not None and os.geteuid() == 0 else frozenset(KINDS) - {"ssh"}


@contextlib.contextmanager
def board(kind: str) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Environment variables for the commands, and what the page writes with what stands there in this run."""
    if kind not in KINDS:
        raise ValueError(f"no board of kind {kind!r}; there are: {', '.join(KINDS)}")
    start = _ssh if kind == "ssh" else _serial
    with tempfile.TemporaryDirectory(prefix="qverify-board-") as folder, start(Path(folder).resolve()) as found:
        yield found


@contextlib.contextmanager
def _ssh(folder: Path) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """OpenSSH's server of this machine; its address is 10.0.0.5 by the client's configuration."""
    from tests.links.servers import Server

    class OwnCache(Server):
        """Agents and contents go to a folder of this run, not to the user's cache."""

        def _command(self) -> list[str]:
            command = super()._command()
            with open(folder / "sshd_config", "a") as config:
                config.write(f"SetEnv XDG_CACHE_HOME={folder}/cache\n")
            return command

    server = OwnCache("openssh", folder)
    try:
        server.trust()
        text = server.config.read_text().replace("Host testboard", "Host 10.0.0.5 testboard")
        server.config.write_text(text)
        yield {"QVERIFY_SSH_CONFIG": str(server.config)}, {}
    finally:
        server.close()


@contextlib.contextmanager
def _serial(folder: Path) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """A shell on a pseudo terminal, as slow as a wire of 921600 baud."""
    from tests.links.pty_board import PtyBoard

    one = PtyBoard(baud=921600, home=folder)
    try:
        yield {}, {"/dev/ttyUSB0": one.path}
    finally:
        one.close()
