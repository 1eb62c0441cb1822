"""The words by which this machine's own ssh reaches a board of `ssh:`, for a person: keys and pins as a run has them."""

from __future__ import annotations

import hashlib
import os
import shutil

from qverify_agents.address import Address
from qverify_agents.errors import BoardUnreachable
from qverify_agents.option_values import is_on
from qverify_agents.ssh.host_settings import split
from qverify_agents.this_user import cache_folder


def ssh_command(address: Address) -> list[str]:
    """Up to the host's name. BoardUnreachable where this machine has no ssh."""
    if shutil.which("ssh") is None:
        raise BoardUnreachable("no ssh program on this machine; install openssh-client")
    user, host, port = split(address.rest)
    user, given = user or address.options.get("user", ""), address.options
    config = given.get("ssh_config") or os.environ.get("QVERIFY_SSH_CONFIG")
    accept = is_on(given, "accept_new_host_key") and "host_key" not in given
    return [
        "ssh",
        *(["-F", config] if config else []),
        *(["-p", str(port)] if port else []),
        *(["-l", user] if user else []),
        *(["-o", "StrictHostKeyChecking=accept-new"] if accept else []),
        *(_pinned(given["host_key"]) if "host_key" in given else []),
        *(
            ["-o", "IdentitiesOnly=yes", "-o", f"IdentityFile={_quoted(given['identity'])}"]
            if "identity" in given
            else []
        ),
        host,
    ]


def _pinned(host_key: str) -> list[str]:
    """This key decides alone, from a file of its own under a name of its own."""
    name = f"qverify-{hashlib.sha256(host_key.encode()).hexdigest()[:16]}"
    path = cache_folder().absolute() / "host_keys" / name
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(f"{name} {host_key}\n")
    files = [f"UserKnownHostsFile={_quoted(str(path))}", "GlobalKnownHostsFile=/dev/null"]
    settings = [*files, f"HostKeyAlias={name}", "StrictHostKeyChecking=yes"]
    return [word for setting in settings for word in ("-o", setting)]


def _quoted(path: str) -> str:
    """One word of an option of ssh, which takes it apart at spaces and reads its %."""
    return '"' + path.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"') + '"'
