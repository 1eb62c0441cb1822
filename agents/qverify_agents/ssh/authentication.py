"""Logs in to an SSH server: with keys of the ssh-agent and of files, then with a password, for which the user is
prompted at a terminal only."""

from __future__ import annotations

import base64
import contextlib
import getpass
import os
import struct
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from qverify_agents.address import Address
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable
from qverify_agents.ssh.host_settings import HostSettings

SSH_AGENT_S = 10.0  # an ssh-agent lists its keys at once, unless it waits for its own user


def authenticate(transport: Any, settings: HostSettings, address: Address, deadline: Deadline) -> None:
    """Logs in: tries no credentials, keys of the ssh-agent, key files and a password, in this order. Raises
    BoardUnreachable with a list of the attempts, EOFError if the server ends the connection before it has answered."""
    import paramiko

    user, tried = settings.user, list[str]()
    transport.auth_timeout = deadline.left()
    try:
        transport.auth_none(user)
        return
    except paramiko.BadAuthenticationType as error:
        allowed = list(error.allowed_types)
    except paramiko.AuthenticationException:
        deadline.left()
        if not transport.is_active():
            raise EOFError from None
        allowed = ["publickey", "password"]
    if "publickey" in allowed:
        with contextlib.closing(_iterate_keys(settings, address, deadline)) as keys:
            for name, key in keys:
                tried.append(name)
                if _try_login(transport, settings, deadline, tried, partial(transport.auth_publickey, user, key)):
                    return
    if "password" in allowed or "keyboard-interactive" in allowed:
        password = _find_secret("QVERIFY_SSH_PASSWORD", f"{user}@{settings.host}'s password: ", address)
        if password is not None:
            tried.append("password")
            if _try_login(transport, settings, deadline, tried, partial(transport.auth_password, user, password)):
                return
    transport.close()
    is_jump_host = "hop" in address.options
    advice = (
        "a key for this jump host (QVERIFY_SSH_PASSWORD is the board's)"
        if is_jump_host
        else "QVERIFY_SSH_PASSWORD, or --user"
    )
    raise BoardUnreachable(
        f"{settings.alias}: {settings.host} refuses user {user} (tried {', '.join(tried) or 'nothing: no key, no password'}; it "
        f"allows {', '.join(allowed)}). Next: ssh-copy-id, or {advice}"
    )


def _try_login(
    transport: Any, settings: HostSettings, deadline: Deadline, tried: list[str], attempt: Callable[[], list[str]]
) -> bool:
    """Makes one attempt and returns whether the login is complete. Raises LinkTimeout if the server does not answer,
    BoardUnreachable if it hangs up."""
    import paramiko

    transport.auth_timeout = deadline.left()
    try:
        return not attempt()
    except paramiko.AuthenticationException:
        deadline.left()
    except (paramiko.SSHException, EOFError, OSError):
        if transport.is_active():
            raise
    if not transport.is_active():
        raise BoardUnreachable(
            f"{settings.alias}: {settings.host} hung up at login attempt {len(tried)} ({', '.join(tried)}); most servers allow six "
            "(MaxAuthTries). Next: name the right key, by identity=FILE in the address or by IdentityFile and IdentitiesOnly yes "
            "in ~/.ssh/config"
        )
    return False


def _iterate_keys(settings: HostSettings, address: Address, deadline: Deadline) -> Any:
    """Yields (name, key): first the ssh-agent's keys that the configuration names, then its other keys unless
    IdentitiesOnly is set, then the keys of files that the ssh-agent does not have."""
    import paramiko

    public_keys = {path: _read_public_key(path) for path in settings.identities}
    with _open_ssh_agent(deadline) as agent_keys:
        agent_blobs = {key.blob for key in agent_keys}
        for key in sorted(agent_keys, key=lambda key: key.blob not in public_keys.values()):
            if key.blob in public_keys.values() or not settings.identities_only:
                yield "ssh-agent", key
    for path in settings.identities:
        if public_keys[path] in agent_blobs:
            continue
        try:
            yield os.path.basename(path), _load_private_key(path, None)
        except paramiko.PasswordRequiredException:
            passphrase = _find_secret("QVERIFY_SSH_PASSPHRASE", f"passphrase of {path}: ", address)
            if passphrase is not None:
                try:
                    yield os.path.basename(path), _load_private_key(path, passphrase)
                except paramiko.SSHException:
                    raise BoardUnreachable(f"{path}: wrong passphrase") from None
        except (paramiko.SSHException, ValueError, OSError):
            continue  # a kind of key that paramiko cannot read, unlike the openssh backend


@contextlib.contextmanager
def _open_ssh_agent(deadline: Deadline) -> Iterator[tuple[Any, ...]]:
    """Yields the ssh-agent's keys, which can sign within the block, or () if no ssh-agent runs. Sets a time limit on
    its socket, which paramiko does not. Raises BoardUnreachable if the ssh-agent does not answer."""
    from paramiko import SSHException
    from paramiko.agent import AgentSSH, get_agent_connection

    try:
        connection: Any = get_agent_connection()
    except (SSHException, OSError):
        connection = None
    if connection is None:
        yield ()
        return
    agent: Any = AgentSSH()
    limit_s = min(SSH_AGENT_S, deadline.left())
    with contextlib.closing(connection):
        connection.settimeout(limit_s)
        try:
            agent._connect(connection)
        except TimeoutError:
            raise BoardUnreachable(
                f"the ssh-agent of SSH_AUTH_SOCK does not answer within {limit_s:.0f} s; restart it, or unset SSH_AUTH_SOCK"
            ) from None
        except (SSHException, OSError):
            pass  # treat it as an ssh-agent without keys
        connection.settimeout(None)  # a key may wait until its owner touches it; the login has a limit of its own
        yield agent.get_keys()


def _read_public_key(path: str) -> bytes:
    """Returns the public key that belongs to a key file: from the file itself if it is a public key, from its header,
    which is never encrypted, or from its .pub file; b"" if none contains it."""
    for file in (path, f"{path}.pub"):
        with contextlib.suppress(OSError, ValueError, IndexError, struct.error):
            text = Path(file).read_text(encoding="utf-8")
            if not text.startswith("-----BEGIN"):
                return base64.b64decode(text.split()[1], validate=True)
            return _parse_key_header(base64.b64decode("".join(text.split("-----")[2].split()), validate=True))
    return b""


def _parse_key_header(data: bytes) -> bytes:
    """Returns the public key from the header of a private key (OpenSSH's PROTOCOL.key: magic, cipher, kdf, options of
    the kdf, number of keys, public key). Raises ValueError for another format."""
    magic = b"openssh-key-v1\0"
    if not data.startswith(magic):
        raise ValueError
    at = len(magic)
    for _ in ("cipher", "kdf", "options"):
        at += 4 + struct.unpack_from(">I", data, at)[0]
    at += 4  # the number of keys
    return data[at + 4 : at + 4 + struct.unpack_from(">I", data, at)[0]]


def _load_private_key(path: str, password: str | None) -> Any:
    """Loads a private key. Raises PasswordRequiredException for an encrypted key without a password, SSHException for a
    file that is not a key."""
    import paramiko

    problem: Exception = paramiko.SSHException(f"{path}: not a private key")
    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        try:
            return kind.from_private_key_file(path, password=password)
        except paramiko.PasswordRequiredException:
            raise
        except (paramiko.SSHException, ValueError) as error:
            problem = error
    raise problem


def _find_secret(variable: str, prompt: str, address: Address) -> str | None:
    """Returns a secret from the environment variable or, at a terminal, from a prompt; never from a command line or a
    file. Returns None if neither is possible."""
    if variable in os.environ and not (variable == "QVERIFY_SSH_PASSWORD" and "hop" in address.options):
        return os.environ[variable]
    if address.options.get("ask") == "never" or not (sys.stdin is not None and sys.stdin.isatty()):
        return None
    try:
        return getpass.getpass(prompt)
    except EOFError:
        return None
