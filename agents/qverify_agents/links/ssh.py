"""The link `ssh`: a board's shell by paramiko, tuned for speed: no Nagle delay, AES-GCM first, and slices that do not
stall at a small window."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from dataclasses import replace
from typing import Any

from qverify_agents.address import Address
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable, LinkClosed, LinkError
from qverify_agents.interfaces import CommandResult, Shell
from qverify_agents.inventory import suggest_board
from qverify_agents.one_command import run_to_end
from qverify_agents.option_values import is_on
from qverify_agents.printable import first_reason
from qverify_agents.ssh.authentication import authenticate
from qverify_agents.ssh.host_keys import HostKeys
from qverify_agents.ssh.host_settings import HostSettings, require_identity_file, resolve, split_target
from qverify_agents.ssh.proxy_command import ProxyCommand
from qverify_agents.ssh.time_limits import TimeLimits, close_transport

OPTIONS = frozenset({"ssh_config", "accept_new_host_key", "host_key", "backend", "ask", "user", "identity"})
MAX_SEND_BYTES = 1 << 18  # of one send: paramiko copies what is left of the data at every window update
KEEPALIVE_S, MAX_HOPS = 15, 4
RETRY_PAUSES_S = (0.2, 1.0)  # before connecting again to a server that hung up before the login
HANDSHAKE_S = 60.0
CLOSE_S = 5.0  # time limit of closing, for a server that no longer reads


def check_target(address: Address) -> None:
    """Raises BadAddress if the address names no host."""
    split_target(address.rest)


def open_shell(address: Address, deadline: Deadline) -> Shell:
    """Logs in and returns the shell. Raises BoardUnreachable with advice on the next step, or LinkTimeout."""
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # the errors raised here contain what it would log
    if address.options.get("backend", "paramiko") == "openssh":
        from qverify_agents.links.openssh import open_openssh

        return open_openssh(address, deadline)
    for pause_s in RETRY_PAUSES_S:
        try:
            return SshShell(_connect(address.rest, address, deadline, depth=0), address.rest)
        except _HungUpBeforeLogin:
            time.sleep(min(pause_s, deadline.left()))
    return SshShell(_connect(address.rest, address, deadline, depth=0), address.rest)


class _HungUpBeforeLogin(BoardUnreachable):
    """Raised if an SSH server ended the connection before it answered a login, as a busy one does (MaxStartups of
    OpenSSH). The next connection may succeed."""


def _connect(target: str, address: Address, deadline: Deadline, depth: int, jump_transport: Any = None) -> Any:
    """Connects to a host, logs in and returns the transport. depth: number of jump hosts so far, 0 for the board
    itself. jump_transport: the transport to the jump host through which to connect."""
    if depth > MAX_HOPS:
        raise BoardUnreachable(f"{target}: more than {MAX_HOPS} jump hosts")
    user = address.options.get("user", "") if depth == 0 and "@" not in target else ""
    settings = resolve(f"{user}@{target}" if user else target, address.options.get("ssh_config"))
    if depth == 0 and "identity" in address.options:
        settings = replace(
            settings, identities=(require_identity_file(address.options["identity"]),), identities_only=True
        )
    connection = (
        _open_channel_through(jump_transport, settings, target, deadline)
        if jump_transport is not None
        else _open_socket(settings, address, deadline, depth)
    )
    import paramiko

    accept = depth == 0 and is_on(address.options, "accept_new_host_key")
    keys = HostKeys(
        target,
        settings.known_as,
        settings.known_hosts,
        address.options.get("host_key", "") if depth == 0 else "",
        accept or settings.host_key_policy == "accept-new",
        settings.scan if jump_transport is None else "",
    )
    transport = paramiko.Transport(connection)
    try:
        _negotiate(transport, target, keys, deadline)
        authenticate(transport, settings, address if depth == 0 else _for_jump_host(address), deadline)
    except (paramiko.SSHException, OSError, EOFError) as error:
        hung_up = _ended_by_server(transport, error)
        transport.close()
        _close_socket(connection)
        deadline.left()
        if hung_up and not getattr(connection, "ended", ""):
            raise _HungUpBeforeLogin(
                f"{target}: {settings.host} hung up before the login, {len(RETRY_PAUSES_S) + 1} times; see the log of its SSH server"
            ) from error
        raise BoardUnreachable(_explain_handshake_error(target, error, getattr(connection, "ended", ""))) from error
    except BaseException:
        transport.close()
        _close_socket(connection)
        raise
    transport.set_keepalive(KEEPALIVE_S)
    return transport


def _for_jump_host(address: Address) -> Address:
    """Returns the address marked as one for a jump host, to which the board's password is not offered."""
    return replace(address, options={**address.options, "hop": "1"})


def _close_socket(sock: Any) -> None:
    """Closes the socket, and the jump hosts or the proxy command through which it is connected."""
    with contextlib.suppress(OSError):
        sock.close()
    jump_transport = getattr(sock, "jump_transport", None)
    if jump_transport is not None:
        jump_transport.close()
        _close_socket(jump_transport.sock)


def _explain_handshake_error(target: str, error: Exception, proxy_ended: str) -> str:
    """Returns the error message for a failed handshake. proxy_ended: how the ProxyCommand ended, or ""."""
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


def _open_socket(settings: HostSettings, address: Address, deadline: Deadline, depth: int) -> Any:
    """Returns a TCP connection without Nagle's delay, through jump hosts or a proxy command if the SSH configuration
    demands them."""
    if settings.proxy_jump:
        transport, hops = None, settings.proxy_jump.split(",")
        for number, hop in enumerate(hops):
            previous = transport
            try:
                transport = _connect(hop.removeprefix("ssh://"), address, deadline, depth + 1 + number, previous)
            except BaseException:
                if previous is not None:
                    previous.close()
                    _close_socket(previous.sock)
                raise
        return _open_channel_through(transport, settings, hops[-1], deadline)
    if settings.proxy_command:
        command = (
            settings.proxy_command.replace("%h", settings.host)
            .replace("%p", str(settings.port))
            .replace("%r", settings.user)
        )
        return ProxyCommand.start(command)
    limit_s = min(settings.connect_timeout_s, deadline.left())
    try:
        sock = socket.create_connection((settings.host, settings.port), timeout=limit_s)
    except UnicodeError as error:
        raise BoardUnreachable(f"{settings.alias}: {settings.host!r} is not a host name: {error}") from error
    except socket.gaierror as error:
        host_note = "" if settings.alias == settings.host else f" ({settings.host})"
        suggestion = suggest_board(settings.alias)
        advice = (
            f"; did you mean -b {suggestion}?"
            if suggestion
            else "; qverify boards list shows the boards that have names"
        )
        raise BoardUnreachable(f"{settings.alias}: no such host{host_note}: {error.strerror}{advice}") from error
    except TimeoutError:
        raise BoardUnreachable(
            f"{_format_target(settings)} does not answer within {limit_s:.0f} s; is the board running and the cable connected?"
        ) from None
    except OSError as error:
        raise BoardUnreachable(f"{_format_target(settings)}: {error.strerror or error}") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _format_target(settings: HostSettings) -> str:
    """Returns "host:port", preceded by the alias if the user typed one."""
    alias = "" if settings.alias == settings.host else f"{settings.alias}: "
    return f"{alias}{settings.host}:{settings.port}"


def _open_channel_through(transport: Any, settings: HostSettings, hop: str, deadline: Deadline) -> Any:
    """Returns a channel through a jump host's transport to the host and port of the settings. hop: name of the jump
    host. If the jump host cannot reach them, closes the transport and raises BoardUnreachable."""
    import paramiko

    destination = (settings.host, settings.port)
    try:
        channel = transport.open_channel("direct-tcpip", destination, ("127.0.0.1", 0), timeout=deadline.left())
    except (paramiko.SSHException, EOFError, OSError) as error:
        transport.close()
        _close_socket(transport.sock)
        raise BoardUnreachable(
            f"{settings.alias}: jump host {hop} cannot reach {settings.host}:{settings.port}: {error}"
        ) from error
    channel.jump_transport = transport  # keeps the transport alive; _close_socket closes it with the channel
    return channel


def _negotiate(transport: Any, target: str, keys: HostKeys, deadline: Deadline) -> None:
    """Does the SSH handshake and checks the host key. Raises BoardUnreachable if the server stops answering."""
    options = transport.get_security_options()
    gcm = [c for c in options.ciphers if "gcm" in c]
    options.ciphers = [*gcm, *(c for c in options.ciphers if c not in gcm)]
    known_types = [t for t in keys.preferred_algorithms() if t in options.key_types]
    if known_types:
        options.key_types = [*known_types, *(t for t in options.key_types if t not in known_types)]
    limit_s = min(HANDSHAKE_S, deadline.left())
    transport.banner_timeout, transport.handshake_timeout = limit_s, limit_s + 5.0  # longer than start_client waits
    transport.start_client(timeout=limit_s)
    if transport.is_active() and not transport.initial_kex_done:  # start_client returned because the time had passed
        deadline.left()
        raise BoardUnreachable(
            f"{target}: the SSH server answered, but its handshake did not end within {limit_s:.3g} s"
        )
    host_key = transport.get_remote_server_key()
    keys.check(host_key.get_name(), host_key.asbytes())


def _ended_by_server(transport: Any, error: Exception) -> bool:
    """Returns whether an SSH server (one that has sent its version) ended the connection without a reason."""
    without_reason = isinstance(error, (OSError, EOFError)) or str(error) == "No existing session"
    return without_reason and bool(transport.remote_version) and not transport.is_active()


class SshShell:
    """A Shell over one transport. The exit status of a command is read before the next channel is opened, because
    dropbear requires it."""

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
        _close_socket(self._transport.sock)


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
        with self._limits.within(deadline):  # receiving also sends window updates
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
                    view = view[self._channel.send(view[:MAX_SEND_BYTES]) :]
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
        """Returns how the agent ended, with its exit status if that has arrived and the first line of its standard
        error, or that the connection is lost."""
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
        """Closes the agent's input, which makes it end by itself, and then the channel."""
        transport = self._channel.get_transport()
        if not transport.is_active():
            return
        with self._limits.within(Deadline(CLOSE_S)), contextlib.suppress(OSError, EOFError):
            self.end_of_input()
            self._channel.status_event.wait(2.0)
            self._channel.close()
