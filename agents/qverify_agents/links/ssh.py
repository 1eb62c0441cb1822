"""ssh: a board's shell by paramiko, tuned: no Nagle delay, AES-GCM first, pieces that never stall at a small window."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from dataclasses import replace
from typing import Any

from qverify_agents.address import Address
from qverify_agents.capabilities import CommandResult, Shell
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable, LinkClosed, LinkError
from qverify_agents.inventory import suggest_board
from qverify_agents.one_command import run_to_end
from qverify_agents.option_values import is_on
from qverify_agents.printable import first_reason
from qverify_agents.ssh.authentication import authenticate
from qverify_agents.ssh.host_keys import HostKeys
from qverify_agents.ssh.host_settings import HostSettings, identity_file, resolve
from qverify_agents.ssh.proxy_command import ProxyCommand
from qverify_agents.ssh.time_limits import TimeLimits, close_transport

OPTIONS = frozenset({"ssh_config", "accept_new_host_key", "host_key", "backend", "ask", "user", "identity"})
SLICE = 1 << 18  # bytes per send; paramiko copies the rest at every window update
KEEPALIVE_S, MOST_HOPS = 15, 4
PAUSES_S = (0.2, 1.0)  # before the next connection to a server that hung up before the login
HANDSHAKE_S = 60.0
CLOSE_S = 5.0  # limit of closing, for a server that accepts nothing any more


def open_shell(address: Address, deadline: Deadline) -> Shell:
    """Returns a shell that is logged in. Raises BoardUnreachable with the next step, or LinkTimeout."""
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # the errors we raise contain what it logs
    if address.options.get("backend", "paramiko") == "openssh":
        from qverify_agents.links.openssh import open_openssh

        return open_openssh(address, deadline)
    for pause_s in PAUSES_S:
        try:
            return SshShell(_transport(address.rest, address, deadline, depth=0), address.rest)
        except _HungUp:
            time.sleep(min(pause_s, deadline.left()))
    return SshShell(_transport(address.rest, address, deadline, depth=0), address.rest)


class _HungUp(BoardUnreachable):
    """Raised if an SSH server ended the connection before it answered a login: a busy one does (MaxStartups of
    OpenSSH). It may take the next connection."""


def _transport(target: str, address: Address, deadline: Deadline, depth: int, over: Any = None) -> Any:
    """Returns an authenticated transport to the host. over: the transport of the jump host before it."""
    if depth > MOST_HOPS:
        raise BoardUnreachable(f"{target}: more than {MOST_HOPS} jump hosts")
    user = address.options.get("user", "") if depth == 0 and "@" not in target else ""
    settings = resolve(f"{user}@{target}" if user else target, address.options.get("ssh_config"))
    if depth == 0 and "identity" in address.options:
        settings = replace(settings, identities=(identity_file(address.options["identity"]),), identities_only=True)
    sock = (
        _through(over, settings, target, deadline) if over is not None else _socket(settings, address, deadline, depth)
    )
    import paramiko

    accept = depth == 0 and is_on(address.options, "accept_new_host_key")
    keys = HostKeys(
        target,
        settings.known_as,
        settings.known_hosts,
        address.options.get("host_key", "") if depth == 0 else "",
        accept or settings.host_key_policy == "accept-new",
        settings.scan if over is None else "",
    )
    transport = paramiko.Transport(sock)
    try:
        _negotiate(transport, target, keys, deadline)
        authenticate(transport, settings, address if depth == 0 else _hop(address), deadline)
    except (paramiko.SSHException, OSError, EOFError) as error:
        ended = _ended_by_server(transport, error)
        transport.close()
        _shut(sock)
        deadline.left()
        if ended and not getattr(sock, "ended", ""):
            raise _HungUp(
                f"{target}: {settings.host} hung up before the login, {len(PAUSES_S) + 1} times; see the log of its SSH server"
            ) from error
        raise BoardUnreachable(_refused(target, error, getattr(sock, "ended", ""))) from error
    except BaseException:
        transport.close()
        _shut(sock)
        raise
    transport.set_keepalive(KEEPALIVE_S)
    return transport


def _hop(address: Address) -> Address:
    """Returns the address for a jump host, which gets keys or its own prompt, not the board's password."""
    return replace(address, options={**address.options, "hop": "1"})


def _shut(sock: Any) -> None:
    """Closes the socket, and the jump hosts or the proxy command it goes through."""
    with contextlib.suppress(OSError):
        sock.close()
    via = getattr(sock, "over", None)
    if via is not None:
        via.close()
        _shut(via.sock)


def _refused(target: str, error: Exception, proxy_ended: str) -> str:
    text = " ".join(str(error).split())
    if proxy_ended:
        return f"{target}: the ProxyCommand of the SSH configuration {proxy_ended} during the handshake; run the command by hand to see why"
    if isinstance(error, (OSError, EOFError)):
        return f"{target}: the SSH handshake broke off: {text or type(error).__name__}"
    if ("no acceptable" in text and "host key" in text.lower()) or "IncompatiblePeer" in type(error).__name__:
        return (
            f"{target}: {text}. An old server with ssh-rsa (SHA-1) only? Give --ssh-backend openssh with "
            "HostKeyAlgorithms +ssh-rsa in ~/.ssh/config, or pip install 'paramiko<5'"
        )
    if "banner" in text.lower():
        return f"{target}: something answers, but not an SSH server ({text})"
    return f"{target}: {text}"


def _socket(settings: HostSettings, address: Address, deadline: Deadline, depth: int) -> Any:
    """Returns a TCP connection without Nagle's delay, through jump hosts or a proxy command if the configuration says
    so."""
    if settings.proxy_jump:
        via, hops = None, settings.proxy_jump.split(",")
        for number, hop in enumerate(hops):
            before = via
            try:
                via = _transport(hop.removeprefix("ssh://"), address, deadline, depth + 1 + number, before)
            except BaseException:
                if before is not None:
                    before.close()
                    _shut(before.sock)
                raise
        return _through(via, settings, hops[-1], deadline)
    if settings.proxy_command:
        command = (
            settings.proxy_command.replace("%h", settings.host)
            .replace("%p", str(settings.port))
            .replace("%r", settings.user)
        )
        return ProxyCommand.started(command)
    limit = min(settings.connect_timeout_s, deadline.left())
    try:
        sock = socket.create_connection((settings.host, settings.port), timeout=limit)
    except UnicodeError as error:
        raise BoardUnreachable(f"{settings.alias}: {settings.host!r} is not a host name: {error}") from error
    except socket.gaierror as error:
        known = "" if settings.alias == settings.host else f" ({settings.host})"
        near = suggest_board(settings.alias)
        meant = f"; did you mean -b {near}?" if near else "; qverify boards list shows the boards that have names"
        raise BoardUnreachable(f"{settings.alias}: no such host{known}: {error.strerror}{meant}") from error
    except TimeoutError:
        raise BoardUnreachable(
            f"{_where(settings)} does not answer within {limit:.0f} s; is the board running and the cable connected?"
        ) from None
    except OSError as error:
        raise BoardUnreachable(f"{_where(settings)}: {error.strerror or error}") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _where(settings: HostSettings) -> str:
    """Returns host and port, after the alias where the user typed one."""
    alias = "" if settings.alias == settings.host else f"{settings.alias}: "
    return f"{alias}{settings.host}:{settings.port}"


def _through(via: Any, settings: HostSettings, hop: str, deadline: Deadline) -> Any:
    """Returns a channel of the transport to the host and port; closing it closes the transport."""
    import paramiko

    where = (settings.host, settings.port)
    try:
        channel = via.open_channel("direct-tcpip", where, ("127.0.0.1", 0), timeout=deadline.left())
    except (paramiko.SSHException, EOFError, OSError) as error:
        via.close()
        _shut(via.sock)
        raise BoardUnreachable(
            f"{settings.alias}: jump host {hop} cannot reach {settings.host}:{settings.port}: {error}"
        ) from error
    channel.over = via  # kept alive by the channel, closed with it
    return channel


def _negotiate(transport: Any, target: str, keys: HostKeys, deadline: Deadline) -> None:
    """Does the handshake, and checks the host key. Raises BoardUnreachable for a server that falls silent in it."""
    options = transport.get_security_options()
    gcm = [c for c in options.ciphers if "gcm" in c]
    options.ciphers = [*gcm, *(c for c in options.ciphers if c not in gcm)]
    known = [t for t in keys.known_types() if t in options.key_types]
    if known:
        options.key_types = [*known, *(t for t in options.key_types if t not in known)]
    limit = min(HANDSHAKE_S, deadline.left())
    transport.banner_timeout, transport.handshake_timeout = limit, limit + 5.0  # later than start_client
    transport.start_client(timeout=limit)
    if transport.is_active() and not transport.initial_kex_done:  # it returned because the time was over
        deadline.left()
        raise BoardUnreachable(f"{target}: the SSH server answered, but its handshake did not end within {limit:.3g} s")
    shown = transport.get_remote_server_key()
    keys.check(shown.get_name(), shown.asbytes())


def _ended_by_server(transport: Any, error: Exception) -> bool:
    """Returns whether an SSH server, which had sent its version, ended the connection without giving a reason."""
    without_reason = isinstance(error, (OSError, EOFError)) or str(error) == "No existing session"
    return without_reason and bool(transport.remote_version) and not transport.is_active()


class SshShell:
    """A Shell over one transport. A command's exit status is read before the next channel is opened, which dropbear
    needs."""

    def __init__(self, transport: Any, target: str):
        self._transport, self._target, self._limits = transport, target, TimeLimits(transport)

    def run(self, command: str, deadline: Deadline, stdin: bytes = b"") -> CommandResult:
        return run_to_end(self._open(command, deadline), deadline, stdin)

    def start(self, command: str, deadline: Deadline) -> SshStream:
        return self._open(command, deadline)

    def _open(self, command: str, deadline: Deadline) -> SshStream:
        import paramiko

        try:
            with self._limits.within(deadline):
                channel = self._transport.open_session(timeout=deadline.left())
                channel.exec_command(command)
            return SshStream(channel, self._target, self._limits)
        except (paramiko.SSHException, OSError, EOFError) as error:
            deadline.left()
            raise LinkClosed(f"{self._target}: no SSH channel: {error or type(error).__name__}") from error

    def close(self) -> None:
        close_transport(self._transport)
        _shut(self._transport.sock)


class SshStream:
    """A Link over one exec channel."""

    piece_bytes = 1_000_000
    patience_s = 4.0
    packs = True
    ahead = 2

    def __init__(self, channel: Any, target: str, limits: TimeLimits):
        self._channel, self._target, self._limits, self._errors = channel, target, limits, bytearray()

    def _drain_errors(self) -> None:
        while self._channel.recv_stderr_ready() and len(self._errors) < 2000:
            self._errors += self._channel.recv_stderr(2000)

    def read(self, deadline: Deadline) -> bytes:
        with self._limits.within(deadline):  # receiving also sends: window updates
            while True:
                self._channel.settimeout(min(1.0, deadline.left()))
                with contextlib.suppress(TimeoutError):
                    return bytes(self._channel.recv(1 << 20))
                self._drain_errors()

    def write(self, data: bytes, deadline: Deadline) -> None:
        view = memoryview(data)
        with self._limits.within(deadline):
            while view:
                self._channel.settimeout(deadline.left())
                try:
                    view = view[self._channel.send(view[:SLICE]) :]
                except TimeoutError:
                    deadline.left()
                except (OSError, EOFError) as error:
                    deadline.left()
                    raise LinkClosed(self.why_closed()) from error

    def end_of_input(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            self._channel.shutdown_write()

    def status(self, deadline: Deadline) -> int:
        while not self._channel.status_event.wait(min(1.0, deadline.left())):
            pass
        return int(self._channel.recv_exit_status())

    def errors(self) -> bytes:
        self._drain_errors()
        return bytes(self._errors[:2000])

    def why_closed(self) -> str:
        """Returns how the agent ended: its exit status if it came and its first line on stderr, or that the connection
        is lost."""
        end = time.monotonic() + 1.0
        while not self._channel.status_event.wait(0.05) and time.monotonic() < end:
            pass
        with contextlib.suppress(LinkError, OSError):
            reason = first_reason(self.errors())
            if self._channel.exit_status_ready() and self._channel.recv_exit_status() >= 0:
                return f"the agent ended with status {self._channel.recv_exit_status()}{reason}"
            if self._channel.get_transport().is_active():
                return f"the agent was killed on the board{reason}"
        return f"the connection to {self._target} is lost"

    def close(self) -> None:
        """Closes the agent's input, upon which it ends by itself, then the channel."""
        transport = self._channel.get_transport()
        if not transport.is_active():
            return
        with self._limits.within(Deadline(CLOSE_S)), contextlib.suppress(OSError, EOFError):
            self.end_of_input()
            self._channel.status_event.wait(2.0)
            self._channel.close()
