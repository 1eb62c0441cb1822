"""The command line with which this machine's ssh reaches a board of `ssh:`, with the same keys and pins as a run."""

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
    """Returns the command up to the host's name. Raises BoardUnreachable if this machine has no ssh."""
    if shutil.which("ssh") is None:
        raise BoardUnreachable("no ssh program on this machine; install openssh-client")
    user, host, port = split(address.rest)
    user, options = user or address.options.get("user", ""), address.options
    config = options.get("ssh_config") or os.environ.get("QVERIFY_SSH_CONFIG")
    accept = is_on(options, "accept_new_host_key") and "host_key" not in options
    return [
        "ssh",
        *(["-F", config] if config else []),
        *(["-p", str(port)] if port else []),
        *(["-l", user] if user else []),
        *(["-o", "StrictHostKeyChecking=accept-new"] if accept else []),
        *(_pinned(options["host_key"]) if "host_key" in options else []),
        *(
            ["-o", "IdentitiesOnly=yes", "-o", f"IdentityFile={_quoted(options['identity'])}"]
            if "identity" in options
            else []
        ),
        host,
    ]


def _pinned(host_key: str) -> list[str]:
    """Returns options by which this key alone is accepted, from a file and under a host name of its own."""
    name = f"qverify-{hashlib.sha256(host_key.encode()).hexdigest()[:16]}"
    path = cache_folder().absolute() / "host_keys" / name
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(f"{name} {host_key}\n", encoding="utf-8")
    files = [f"UserKnownHostsFile={_quoted(str(path))}", "GlobalKnownHostsFile=/dev/null"]
    settings = [*files, f"HostKeyAlias={name}", "StrictHostKeyChecking=yes"]
    return [word for setting in settings for word in ("-o", setting)]


def _quoted(path: str) -> str:
    """Returns the path quoted for an option of ssh, which splits at spaces and expands %."""
    return '"' + path.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"') + '"'
