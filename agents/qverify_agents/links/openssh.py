"""The system's own ssh with one master connection, for what paramiko cannot do: certificates, FIDO keys, GSSAPI, odd jumps."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from qverify_agents.address import Address
from qverify_agents.command_shell import CommandShell
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable
from qverify_agents.host_keys import pinned_key
from qverify_agents.links.ssh_config import identity_file, split
from qverify_agents.option_values import is_on
from qverify_agents.printable import last_line

ALIAS = "qverify-board"  # a pinned board's name in a known_hosts file of its own
END_S = 5.0  # the master is asked over a socket of this host


def open_openssh(address: Address, deadline: Deadline) -> CommandShell:
    """Raises BoardUnreachable with ssh's own last line. A password cannot be given here: keys, certificates, an agent."""
    program = shutil.which("ssh")
    if program is None:
        raise BoardUnreachable("--ssh-backend openssh: no ssh program on this machine; install openssh-client")
    user, host, port = split(address.rest)
    user = user or address.options.get("user", "")
    connect_s = max(1, int(min(15, deadline.left())))
    identity = address.options.get("identity")
    believed = _identity(identity_file(identity)) if identity else []
    folder = tempfile.mkdtemp(prefix="qverify-ssh-")
    if pin := address.options.get("host_key"):
        believed += _pinned(folder, *pinned_key(pin))
    config = address.options.get("ssh_config") or os.environ.get("QVERIFY_SSH_CONFIG")
    accept = is_on(address.options, "accept_new_host_key")
    options = [
        *(["-F", config] if config else []),
        *(["-p", str(port)] if port else []),
        *(["-l", user] if user else []),
        *believed,
        *(["-o", "StrictHostKeyChecking=accept-new"] if accept else []),
        *("-o", "BatchMode=yes", "-o", f"ControlPath={folder}/master", "-o", "ServerAliveInterval=15"),
        *("-o", f"ConnectTimeout={connect_s}", "-T"),
    ]
    master = [program, *options, "-o", "ControlMaster=yes", "-o", "ControlPersist=yes", "-f", "-N", "--", host]

    def end() -> None:
        try:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    [program, *options, "-O", "exit", "--", host], capture_output=True, timeout=END_S, check=False
                )
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    try:
        _connect(master, address.rest, deadline)
    except BaseException:
        end()
        raise
    return CommandShell([program, *options, "-o", "ControlMaster=no", "--", host], end)


def _pinned(folder: str, kind: str, blob: bytes) -> list[str]:
    """Options by which the key of the inventory decides alone; they stand before others, for ssh takes the first of a kind."""
    Path(folder, "known_hosts").write_text(f"{ALIAS} {kind} {base64.b64encode(blob).decode()}\n")
    return [
        *("-o", f"HostKeyAlias={ALIAS}", "-o", f"UserKnownHostsFile={_word(f'{folder}/known_hosts')}"),
        *("-o", "GlobalKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=yes"),
    ]


def _identity(path: str) -> list[str]:
    return ["-o", f"IdentityFile={_word(path)}", "-o", "IdentitiesOnly=yes"]


def _word(path: str) -> str:
    """A path as an option's value, which ssh splits at spaces and expands at %."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _connect(master: list[str], where: str, deadline: Deadline) -> None:
    try:
        done = subprocess.run(
            master,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=deadline.left(),
        )
    except subprocess.TimeoutExpired:
        raise BoardUnreachable(f"{where}: ssh does not connect within its deadline") from None
    if done.returncode:
        raise BoardUnreachable(f"{where}: ssh says: {last_line(done.stderr, f'status {done.returncode}')}")
