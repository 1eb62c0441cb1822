"""Who we are to an SSH server: keys of the agent and of files, then a password; asked for at a terminal only."""

from __future__ import annotations

import contextlib
import getpass
import os
import sys
from collections.abc import Iterator
from typing import Any

from qverify_agents.address import Address
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable
from qverify_agents.links.ssh_config import Resolved

AGENT_S = 10.0  # an ssh-agent lists its keys at once; one that waits for its own user does not


def authenticate(transport: Any, settings: Resolved, address: Address, deadline: Deadline) -> None:
    """none, agent keys, identity files, password; raises BoardUnreachable that says what was tried."""
    import paramiko

    user, tried = settings.user, []
    try:
        transport.auth_none(user)
        return
    except paramiko.BadAuthenticationType as error:
        allowed = list(error.allowed_types)
    except paramiko.AuthenticationException:
        allowed = ["publickey", "password"]
    if "publickey" in allowed:
        with contextlib.closing(_keys(settings, address, deadline)) as keys:
            for name, key in keys:
                tried.append(name)
                deadline.left()
                with contextlib.suppress(paramiko.AuthenticationException):
                    if not transport.auth_publickey(user, key):
                        return
    if "password" in allowed or "keyboard-interactive" in allowed:
        password = _secret("QVERIFY_SSH_PASSWORD", f"{user}@{settings.host}'s password: ", address)
        if password is not None:
            tried.append("password")
            with contextlib.suppress(paramiko.AuthenticationException):
                if not transport.auth_password(user, password):
                    return
    transport.close()
    hop = "hop" in address.options
    step = (
        "a key for this jump host (QVERIFY_SSH_PASSWORD is the board's)" if hop else "QVERIFY_SSH_PASSWORD, or --user"
    )
    raise BoardUnreachable(
        f"{settings.alias}: {settings.host} refuses user {user} (tried {', '.join(tried) or 'nothing: no key, no password'}; it "
        f"allows {', '.join(allowed)}). Next: ssh-copy-id, or {step}"
    )


def _keys(settings: Resolved, address: Address, deadline: Deadline) -> Any:
    """(name, key): of the ssh-agent, then of the identity files."""
    import paramiko

    if not settings.identities_only:
        with _agent(deadline) as keys:
            for key in keys:
                yield "ssh-agent", key
    for path in settings.identities:
        try:
            yield os.path.basename(path), _load(path, None)
        except paramiko.PasswordRequiredException:
            secret = _secret("QVERIFY_SSH_PASSPHRASE", f"passphrase of {path}: ", address)
            if secret is not None:
                try:
                    yield os.path.basename(path), _load(path, secret)
                except paramiko.SSHException:
                    raise BoardUnreachable(f"{path}: wrong passphrase") from None
        except (paramiko.SSHException, ValueError, OSError):
            continue  # a kind paramiko cannot read; the openssh backend can


@contextlib.contextmanager
def _agent(deadline: Deadline) -> Iterator[tuple[Any, ...]]:
    """Its keys, which sign while the block lasts; none where no agent runs. Its socket has a limit, which paramiko gives it not."""
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
    limit = min(AGENT_S, deadline.left())
    with contextlib.closing(connection):
        connection.settimeout(limit)
        try:
            agent._connect(connection)
        except TimeoutError:
            raise BoardUnreachable(
                f"the ssh-agent of SSH_AUTH_SOCK does not answer within {limit:.0f} s; start it anew, or unset SSH_AUTH_SOCK"
            ) from None
        except (SSHException, OSError):
            pass  # it has no keys then
        connection.settimeout(None)  # a key may wait for its owner to touch it; the login's own limit holds
        yield agent.get_keys()


def _load(path: str, password: str | None) -> Any:
    """PasswordRequiredException for an encrypted key without a password; SSHException where no kind reads it."""
    import paramiko

    problem: Exception = paramiko.SSHException(f"{path}: no kind of private key")
    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        try:
            return kind.from_private_key_file(path, password=password)
        except paramiko.PasswordRequiredException:
            raise
        except (paramiko.SSHException, ValueError) as error:
            problem = error
    raise problem


def _secret(variable: str, prompt: str, address: Address) -> str | None:
    """From the environment, or asked at a terminal; never from a command line or a file."""
    if variable in os.environ and not (variable == "QVERIFY_SSH_PASSWORD" and "hop" in address.options):
        return os.environ[variable]
    if address.options.get("ask") == "never" or not (sys.stdin is not None and sys.stdin.isatty()):
        return None
    try:
        return getpass.getpass(prompt)
    except EOFError:
        return None
