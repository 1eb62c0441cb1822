"""A host's settings as OpenSSH resolves them (`ssh -G`); without that program, as paramiko reads the configuration
file."""

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

ACCEPTING = ("accept-new", "no", "off", "false")  # of StrictHostKeyChecking; a changed key is refused in any case


@dataclass(frozen=True, slots=True)
class HostSettings:
    """Settings of one host. alias: as typed. identities: key files that exist, or whose .pub exists. known_hosts:
    files. host_key_alias: HostKeyAlias, or "". host_key_policy: strict or accept-new. proxy_jump: "" or
    user@host:port,... proxy_command: "" or a command line."""

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
        """The name in known_hosts, in lower case; OpenSSH uses an alias as it is, without the port."""
        host = self.host.lower()
        return self.host_key_alias or (host if self.port == 22 else f"[{host}]:{self.port}")

    @property
    def scan(self) -> str:
        """The arguments with which ssh-keyscan writes its key under that name; "" if it cannot reach the host or uses
        another name."""
        if self.host_key_alias or self.proxy_jump or self.proxy_command:
            return ""
        return f"-p {self.port} {shlex.quote(self.host)}"


def split(target: str) -> tuple[str, str, int | None]:
    """Returns user, host and port of `user@host:port`, `[::1]:22` or `alias`; "" and None if not given. Raises
    BadAddress."""
    user, at, rest = target.rpartition("@")
    host, port = rest, ""
    if rest.startswith("["):
        host, _, after = rest[1:].partition("]")
        port = after.removeprefix(":")
    elif rest.count(":") == 1:
        host, _, port = rest.partition(":")
    if not host or host.startswith("-") or (at and (not user or user.startswith("-"))):
        raise BadAddress(f"-b {target}: wanted HOST, USER@HOST or USER@HOST:PORT")
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise BadAddress(f"-b {target}: port {port!r} is not a number from 1 to 65535")
    return user, host, int(port) if port else None


def resolve(target: str, config: str | None = None) -> HostSettings:
    """Returns the settings of a host. config: another file than ~/.ssh/config (QVERIFY_SSH_CONFIG if None). Raises
    BadAddress or BoardUnreachable."""
    user, host, port = split(target)
    config = config or os.environ.get("QVERIFY_SSH_CONFIG")
    if config and not Path(config).is_file():
        raise BadAddress(f"--ssh-config {config}: no such file")
    settings = _by_openssh(user, host, port, config) if shutil.which("ssh") else _by_paramiko(host, config)
    one = {k: v[0] for k, v in settings.items()}
    policy = "accept-new" if one.get("stricthostkeychecking") in ACCEPTING else "strict"
    name = one.get("hostname", host)
    known = [p for k in ("userknownhostsfile", "globalknownhostsfile") for v in settings.get(k, []) for p in _paths(v)]
    jump, command = one.get("proxyjump", ""), one.get("proxycommand", "")
    port, user = port or int(one.get("port", 22)), user or one.get("user") or user_name()
    tokens = {"%": "%", "d": os.path.expanduser("~"), "h": name, "n": host, "p": str(port), "r": user, "u": user_name()}
    identities = [_path(p.strip('"'), tokens) for p in settings.get("identityfile", _default_identities())]
    return HostSettings(
        host,
        name,
        port,
        user,
        tuple(p for p in identities if os.path.isfile(p) or os.path.isfile(f"{p}.pub")),
        tuple(map(os.path.expanduser, known or ["~/.ssh/known_hosts"])),
        one.get("hostkeyalias", ""),
        policy,
        "" if jump == "none" else jump,
        "" if command == "none" else command,
        float(one["connecttimeout"]) if one.get("connecttimeout", "none").isdecimal() else 15.0,
        one.get("identitiesonly") == "yes",
    )


def identity_file(text: str) -> str:
    """Returns the path of identity= of an address: a private key, or the .pub of a key in the ssh-agent. Raises
    BadAddress."""
    path = os.path.expanduser(text)
    if not os.path.isfile(path):
        raise BadAddress(f"identity={text}: no such file; wanted a private key, such as ~/.ssh/id_ed25519")
    return path


def _path(text: str, tokens: dict[str, str]) -> str:
    """Returns the path with ~ and tokens expanded. tokens: the text for % and a letter; others are kept."""
    expanded = re.sub("%(.)", lambda found: tokens.get(found[1], found[0]), text)
    return os.path.expanduser(expanded)


def _paths(value: str) -> list[str]:
    """Splits the paths that `ssh -G` prints without quotes: a word that does not begin a path belongs to the one
    before."""
    if '"' in value:
        return shlex.split(value)
    paths = re.split(r" +(?=[/~]|none$|[A-Za-z]:[\\/]|__PROGRAMDATA__)", value) if value else []
    return [re.sub("^__PROGRAMDATA__", lambda _: os.environ.get("PROGRAMDATA", "__PROGRAMDATA__"), p) for p in paths]


def _default_identities() -> list[str]:
    return [f"~/.ssh/id_{kind}" for kind in ("ed25519", "ecdsa", "rsa")]


def _by_openssh(user: str, host: str, port: int | None, config: str | None) -> dict[str, list[str]]:
    command = ["ssh", "-G"]
    command += ["-F", config] if config else []
    command += ["-p", str(port)] if port else []
    command += ["-l", user] if user else []
    try:
        done = subprocess.run(
            [*command, "--", host], capture_output=True, text=True, timeout=15, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise BoardUnreachable(f"ssh -G {host}: no answer within 15 s (a Match exec in the configuration?)") from None
    if done.returncode:
        raise BoardUnreachable(f"ssh configuration for {host}: {last_line(done.stderr, 'ssh -G failed')}")
    settings: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        settings.setdefault(key.lower(), []).append(value)
    return settings


def _by_paramiko(host: str, config: str | None) -> dict[str, list[str]]:
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
