"""A board's shell by the system's ssh, with one master connection (on Windows, a connection for each command). For what
paramiko cannot do: certificates, FIDO keys, GSSAPI, unusual jumps."""

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
from qverify_agents.ssh.host_keys import parse_pinned_key
from qverify_agents.ssh.host_settings import require_identity_file, split_target
from qverify_agents.ssh.openssh_master import HAS_MASTER, Master, make_master_folder

ALIAS = "qverify-board"  # name of a board with a pinned key in its own known_hosts file


def open_openssh(address: Address, deadline: Deadline, shares_connection: bool = HAS_MASTER) -> CommandShell:
    """Returns a board's shell by ssh. Logs in by keys, certificates and an ssh-agent, never by a password.
    shares_connection: whether all commands use one connection. Raises BoardUnreachable with the last line of ssh's
    output."""
    program = shutil.which("ssh")
    if program is None:
        raise BoardUnreachable("--ssh-backend openssh: no ssh program on this machine; install openssh-client")
    user, host, port = split_target(address.rest)
    user = user or address.options.get("user", "")
    host_key, identity = address.options.get("host_key"), address.options.get("identity")
    key, path = parse_pinned_key(host_key) if host_key else None, require_identity_file(identity) if identity else None
    connect_s = max(1, int(min(15, deadline.left())))
    config = address.options.get("ssh_config") or os.environ.get("QVERIFY_SSH_CONFIG")
    accept_new = is_on(address.options, "accept_new_host_key")
    folder = make_master_folder()
    socket = _quote_option_value(folder.socket) if shares_connection else "none"
    options = [
        *(["-F", config] if config else []),
        *(["-p", str(port)] if port else []),
        *(["-l", user] if user else []),
        *(_pin_host_key(folder.path, *key) if key else []),
        *(["-o", f"IdentityFile={_quote_option_value(path)}", "-o", "IdentitiesOnly=yes"] if path else []),
        *(["-o", "StrictHostKeyChecking=accept-new"] if accept_new else []),
        *("-o", "BatchMode=yes", "-o", f"ControlPath={socket}", "-o", "ServerAliveInterval=15"),
        *("-o", f"ConnectTimeout={connect_s}", "-T"),
    ]
    command = [program, *options, "-o", "ControlMaster=no", "--", host]
    if not shares_connection:
        return _check_login(CommandShell(command, folder.close), address.rest, deadline)
    try:
        master = Master([program, *options, "-o", "ControlMaster=yes", "-N", "--", host], folder)
        master.connect(address.rest, deadline)
    except BaseException:
        folder.close()
        raise
    return CommandShell(command, master.close)


def _check_login(shell: CommandShell, where: str, deadline: Deadline) -> CommandShell:
    """Runs a command to check that the login works, and returns the shell. If it does not, closes the shell and raises
    BoardUnreachable."""
    try:
        result = shell.run("exit 0", deadline)
        if result.status:
            raise BoardUnreachable(f"{where}: ssh says: {last_line(result.err, f'status {result.status}')}")
    except LinkTimeout:
        shell.close()
        raise BoardUnreachable(f"{where}: ssh does not connect in time; give --timeout to wait longer") from None
    except BaseException:
        shell.close()
        raise
    return shell


def _pin_host_key(folder: str, kind: str, blob: bytes) -> list[str]:
    """Returns options by which ssh accepts only the host key of the inventory. They must come before other options, as
    ssh uses the first one of each kind."""
    Path(folder, "known_hosts").write_bytes(f"{ALIAS} {kind} {base64.b64encode(blob).decode()}\n".encode())
    return [
        *("-o", f"HostKeyAlias={ALIAS}", "-o", f"UserKnownHostsFile={_quote_option_value(f'{folder}/known_hosts')}"),
        *("-o", "GlobalKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=yes"),
    ]


def _quote_option_value(path: str) -> str:
    """Returns a path quoted as the value of an option, which ssh would otherwise split at spaces and expand at %."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
