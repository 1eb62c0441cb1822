"""Builds the command line by which this machine's ssh reaches an `ssh:` board, with the same keys and pins as a run."""

from __future__ import annotations

import hashlib
import os
import shutil

from qverify_agents.address import Address
from qverify_agents.errors import BoardUnreachable
from qverify_agents.option_values import is_on
from qverify_agents.ssh.host_settings import split_target
from qverify_agents.this_user import cache_folder


def ssh_command(address: Address) -> list[str]:
    """Returns the command and its options, up to and including the host. Raises BoardUnreachable if there is no ssh."""
    if shutil.which("ssh") is None:
        raise BoardUnreachable("no ssh program on this machine; install openssh-client")
    user, host, port = split_target(address.rest)
    user, options = user or address.options.get("user", ""), address.options
    config = options.get("ssh_config") or os.environ.get("QVERIFY_SSH_CONFIG")
    accept_new = is_on(options, "accept_new_host_key") and "host_key" not in options
    return [
        "ssh",
        *(["-F", config] if config else []),
        *(["-p", str(port)] if port else []),
        *(["-l", user] if user else []),
        *(["-o", "StrictHostKeyChecking=accept-new"] if accept_new else []),
        *(_pin_host_key(options["host_key"]) if "host_key" in options else []),
        *(
            ["-o", "IdentitiesOnly=yes", "-o", f"IdentityFile={_quote_option_value(options['identity'])}"]
            if "identity" in options
            else []
        ),
        host,
    ]


def _pin_host_key(host_key: str) -> list[str]:
    """Returns options by which ssh accepts only this host key. Writes the key to a known_hosts file of its own, under a
    host name of its own."""
    name = f"qverify-{hashlib.sha256(host_key.encode()).hexdigest()[:16]}"
    path = cache_folder().absolute() / "host_keys" / name
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(f"{name} {host_key}\n", encoding="utf-8")
    files = [f"UserKnownHostsFile={_quote_option_value(str(path))}", "GlobalKnownHostsFile=/dev/null"]
    settings = [*files, f"HostKeyAlias={name}", "StrictHostKeyChecking=yes"]
    return [word for setting in settings for word in ("-o", setting)]


def _quote_option_value(path: str) -> str:
    """Returns the path quoted as the value of an option of ssh, which would otherwise split at spaces and expand %."""
    return '"' + path.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"') + '"'
