"""The system's ssh with one master connection (on Windows, a connection per command), for what paramiko cannot do:
certificates, FIDO keys, GSSAPI, unusual jumps."""

from __future__ import annotations

import base64
import os
import shutil
from pathlib import Path

from qverify_agents.address import Address
from qverify_agents.command_shell import CommandShell
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable, LinkTimeout
from qverify_agents.option_values import is_on
from qverify_agents.printable import last_line
from qverify_agents.ssh.host_keys import pinned_key
from qverify_agents.ssh.host_settings import identity_file, split
from qverify_agents.ssh.openssh_master import HAS_MASTER, Master, master_folder

ALIAS = "qverify-board"  # a pinned board's name in a known_hosts file of its own


def open_openssh(address: Address, deadline: Deadline, shares_connection: bool = HAS_MASTER) -> CommandShell:
    """Returns a board's shell by ssh. Only keys, certificates and an ssh-agent are possible, no password.
    shares_connection: all commands use one. Raises BoardUnreachable with the last line of ssh's output."""
    program = shutil.which("ssh")
    if program is None:
        raise BoardUnreachable("--ssh-backend openssh: no ssh program on this machine; install openssh-client")
    user, host, port = split(address.rest)
    user = user or address.options.get("user", "")
    pin, identity = address.options.get("host_key"), address.options.get("identity")
    key, path = pinned_key(pin) if pin else None, identity_file(identity) if identity else None
    connect_s = max(1, int(min(15, deadline.left())))
    config = address.options.get("ssh_config") or os.environ.get("QVERIFY_SSH_CONFIG")
    accept = is_on(address.options, "accept_new_host_key")
    folder = master_folder()
    socket = _word(folder.socket) if shares_connection else "none"
    options = [
        *(["-F", config] if config else []),
        *(["-p", str(port)] if port else []),
        *(["-l", user] if user else []),
        *(_pinned(folder.path, *key) if key else []),
        *(["-o", f"IdentityFile={_word(path)}", "-o", "IdentitiesOnly=yes"] if path else []),
        *(["-o", "StrictHostKeyChecking=accept-new"] if accept else []),
        *("-o", "BatchMode=yes", "-o", f"ControlPath={socket}", "-o", "ServerAliveInterval=15"),
        *("-o", f"ConnectTimeout={connect_s}", "-T"),
    ]
    each = [program, *options, "-o", "ControlMaster=no", "--", host]
    if not shares_connection:
        return _logged_in(CommandShell(each, folder.close), address.rest, deadline)
    try:
        master = Master([program, *options, "-o", "ControlMaster=yes", "-N", "--", host], folder)
        master.connect(address.rest, deadline)
    except BaseException:
        folder.close()
        raise
    return CommandShell(each, master.close)


def _logged_in(shell: CommandShell, where: str, deadline: Deadline) -> CommandShell:
    """Returns the shell once one command has shown that the login works. Raises BoardUnreachable after closing it."""
    try:
        done = shell.run("exit 0", deadline)
        if done.status:
            raise BoardUnreachable(f"{where}: ssh says: {last_line(done.err, f'status {done.status}')}")
    except LinkTimeout:
        shell.close()
        raise BoardUnreachable(f"{where}: ssh does not connect in time; give --timeout to wait longer") from None
    except BaseException:
        shell.close()
        raise
    return shell


def _pinned(folder: str, kind: str, blob: bytes) -> list[str]:
    """Returns options by which only the inventory's key is accepted. They must come first, as ssh uses the first of a
    kind."""
    Path(folder, "known_hosts").write_bytes(f"{ALIAS} {kind} {base64.b64encode(blob).decode()}\n".encode())
    return [
        *("-o", f"HostKeyAlias={ALIAS}", "-o", f"UserKnownHostsFile={_word(f'{folder}/known_hosts')}"),
        *("-o", "GlobalKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=yes"),
    ]


def _word(path: str) -> str:
    """Returns a path quoted as an option's value, which ssh splits at spaces and expands at %."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
