"""The SSH settings of a host, as OpenSSH resolves them (`ssh -G`) or, without that program, as paramiko reads the
configuration file."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from qverify_agents.errors import BadAddress, BoardUnreachable
from qverify_agents.printable import last_line
from qverify_agents.this_user import user_name

ACCEPTING_VALUES = ("accept-new", "no", "off", "false")  # of StrictHostKeyChecking; a changed key is always refused


@dataclass(frozen=True, slots=True)
class HostSettings:
    """The SSH settings of one host.

    Attributes:
        alias: the host as the user typed it.
        host: its name or IP address.
        port: its port.
        user: the user who logs in.
        identities: key files that exist or whose .pub file exists.
        known_hosts: paths of the known_hosts files.
        host_key_alias: HostKeyAlias, or "".
        host_key_policy: "strict" or "accept-new".
        proxy_jump: jump hosts as user@host:port,... or "".
        proxy_command: command line of the ProxyCommand, or "".
        connect_timeout_s: seconds for opening the connection.
        identities_only: whether only the keys in `identities` are offered.
    """

    alias: str
    host: str
    port: int
    user: str
    identities: tuple[str, ...]
    known_hosts: tuple[str, ...]
    host_key_alias: str
    host_key_policy: str
    proxy_jump: str
    proxy_command: str
    connect_timeout_s: float
    identities_only: bool

    @property
    def known_as(self) -> str:
        """The name in known_hosts: HostKeyAlias as it is, otherwise the host in lower case, with the port if it is not
        22."""
        host = self.host.lower()
        return self.host_key_alias or (host if self.port == 22 else f"[{host}]:{self.port}")

    @property
    def scan(self) -> str:
        """Arguments with which ssh-keyscan prints the host's key under this name, or "" if it cannot reach the host or
        would use another name."""
        if self.host_key_alias or self.proxy_jump or self.proxy_command:
            return ""
        return f"-p {self.port} {shlex.quote(self.host)}"


def split_target(target: str) -> tuple[str, str, int | None]:
    """Returns the user ("" if missing), the host and the port (None if missing) of `user@host:port`, `[::1]:22` or
    `alias`. Raises BadAddress."""
    user, at, rest = target.rpartition("@")
    host, port = rest, ""
    if rest.startswith("["):
        host, _, after = rest[1:].partition("]")
        port = after.removeprefix(":")
    elif rest.count(":") == 1:
        host, _, port = rest.partition(":")
    if not host or host.startswith("-") or (at and (not user or user.startswith("-"))):
        raise BadAddress(f"-b {target or 'ssh://'}: wanted HOST, USER@HOST or USER@HOST:PORT")
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise BadAddress(f"-b {target}: port {port!r} is not a number from 1 to 65535")
    return user, host, int(port) if port else None


def resolve(target: str, config: str | None = None) -> HostSettings:
    """Returns the settings of a host. config: a configuration file to use instead of QVERIFY_SSH_CONFIG or
    ~/.ssh/config. Raises BadAddress or BoardUnreachable."""
    user, host, port = split_target(target)
    config = config or os.environ.get("QVERIFY_SSH_CONFIG")
    if config and not Path(config).is_file():
        raise BadAddress(f"--ssh-config {config}: no such file")
    settings = _read_by_openssh(user, host, port, config) if shutil.which("ssh") else _read_by_paramiko(host, config)
    first_values = {k: v[0] for k, v in settings.items()}
    policy = "accept-new" if first_values.get("stricthostkeychecking") in ACCEPTING_VALUES else "strict"
    hostname = first_values.get("hostname", host)
    known_hosts = [
        p for k in ("userknownhostsfile", "globalknownhostsfile") for v in settings.get(k, []) for p in _split_paths(v)
    ]
    jump, command = first_values.get("proxyjump", ""), first_values.get("proxycommand", "")
    port, user = port or int(first_values.get("port", 22)), user or first_values.get("user") or user_name()
    tokens = {
        "%": "%",
        "d": os.path.expanduser("~"),
        "h": hostname,
        "n": host,
        "p": str(port),
        "r": user,
        "u": user_name(),
    }
    identities = [_expand_path(p.strip('"'), tokens) for p in settings.get("identityfile", _default_identities())]
    return HostSettings(
        host,
        hostname,
        port,
        user,
        tuple(p for p in identities if os.path.isfile(p) or os.path.isfile(f"{p}.pub")),
        tuple(map(os.path.expanduser, known_hosts or ["~/.ssh/known_hosts"])),
        first_values.get("hostkeyalias", ""),
        policy,
        "" if jump == "none" else jump,
        "" if command == "none" else command,
        float(first_values["connecttimeout"]) if first_values.get("connecttimeout", "none").isdecimal() else 15.0,
        first_values.get("identitiesonly") == "yes",
    )


def require_identity_file(text: str) -> str:
    """Returns the path that the option identity= names: a private key, or the .pub file of a key in the ssh-agent.
    Raises BadAddress if there is no such file."""
    path = os.path.expanduser(text)
    if not os.path.isfile(path):
        raise BadAddress(f"identity={text}: no such file; wanted a private key, such as ~/.ssh/id_ed25519")
    return path


def _expand_path(text: str, tokens: dict[str, str]) -> str:
    """Returns the path with ~ and %-tokens expanded. tokens: the replacement for each letter after %; other tokens are
    kept."""
    expanded = re.sub("%(.)", lambda match: tokens.get(match[1], match[0]), text)
    return os.path.expanduser(expanded)


def _split_paths(value: str) -> list[str]:
    """Splits the list of paths that `ssh -G` prints, without quotes in most cases: a word that cannot begin a path is
    part of the path before it, which contains a space."""
    if '"' in value:
        return shlex.split(value)
    paths = re.split(r" +(?=[/~]|none$|[A-Za-z]:[\\/]|__PROGRAMDATA__)", value) if value else []
    return [re.sub("^__PROGRAMDATA__", lambda _: os.environ.get("PROGRAMDATA", "__PROGRAMDATA__"), p) for p in paths]


def _default_identities() -> list[str]:
    return [f"~/.ssh/id_{kind}" for kind in ("ed25519", "ecdsa", "rsa")]


def _read_by_openssh(user: str, host: str, port: int | None, config: str | None) -> dict[str, list[str]]:
    command = ["ssh", "-G"]
    command += ["-F", config] if config else []
    command += ["-p", str(port)] if port else []
    command += ["-l", user] if user else []
    try:
        result = subprocess.run(
            [*command, "--", host], capture_output=True, text=True, timeout=15, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise BoardUnreachable(f"ssh -G {host}: no answer within 15 s (a Match exec in the configuration?)") from None
    if result.returncode:
        raise BoardUnreachable(f"ssh configuration for {host}: {last_line(result.stderr, 'ssh -G failed')}")
    settings: dict[str, list[str]] = {}
    for line in result.stdout.splitlines():
        key, _, value = line.partition(" ")
        settings.setdefault(key.lower(), []).append(value)
    return settings


def _read_by_paramiko(host: str, config: str | None) -> dict[str, list[str]]:
    from paramiko import SSHConfig

    path = Path(config or os.path.expanduser("~/.ssh/config"))
    if not path.is_file():
        return {}
    if any(
        line.strip().lower().startswith(("include", "match"))
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
    ):
        raise BoardUnreachable(f"{path} uses Include or Match, which needs the ssh program; install openssh-client")
    settings = SSHConfig.from_path(str(path)).lookup(host)
    return {k: v if isinstance(v, list) else [str(v)] for k, v in settings.items()}
