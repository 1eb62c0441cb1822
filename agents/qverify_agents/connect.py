"""Connects the board of -b to an agent that has answered HELLO."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from qverify_agents.address import Address, parse, remove_option
from qverify_agents.deadline import Deadline
from qverify_agents.deploy import STORE_LIMIT, DeployedAgent, deploy, find_agent, start_agent
from qverify_agents.errors import BadAddress, BoardBusy, BoardUnreachable, LinkError
from qverify_agents.host_lock import HostLock
from qverify_agents.interfaces import CommandResult, Link, Shell
from qverify_agents.inventory import ANY_RUNTIME, QVRT, resolve
from qverify_agents.option_values import check_option_values, parse_size
from qverify_agents.protocol.client import Agent
from qverify_agents.resolve_address import resolve_address
from qverify_agents.schemes import LINKS
from qverify_agents.this_user import user_name


@dataclass(frozen=True, slots=True)
class OpenedConnection:
    """The means by which a link to a board was opened.

    Attributes:
        address: the address that the link opened.
        shell: the board's shell, or None if the agent is reached without one.
        folder: folder of the agent on the board, or "" without a shell.
        binary: file name of the agent in `bin` of that folder, or "" without a shell.
    """

    address: Address
    shell: Shell | None = None
    folder: str = ""
    binary: str = ""


OnOpen = Callable[[OpenedConnection], None]


def connect(
    uri: str,
    deadline_s: float = 60.0,
    options: Mapping[str, str] | None = None,
    on_open: OnOpen | None = None,
    runs: str = QVRT,
) -> Agent:
    """Connects to a board's agent. Raises LinkError (BadAddress, BoardUnreachable, BoardBusy, LinkTimeout, LinkClosed,
    ProtocolError).

    Args:
        uri: an address, or a name or tags of the inventory. If several boards match, the first free one is taken.
        deadline_s: seconds for connecting and for each answer.
        options: options as in ?key=value of the URI (store, memory, link_fault ...). They override those of the URI; a
            board of a kind that does not have an option ignores it.
        on_open: called whenever a link was opened, also when a lost connection was made again.
        runs: which runtimes the caller can drive, as for inventory.resolve.
    """
    options = options or {}
    check_option_values(f"-b {uri}", options)
    addresses = resolve(uri, runs)
    if len(addresses) > 1:
        return _connect_first_free(uri, addresses, deadline_s, options, on_open)
    return _connect_one(addresses[0], deadline_s, options, on_open)


def _connect_first_free(
    uri: str, addresses: list[str], deadline_s: float, options: Mapping[str, str], on_open: OnOpen | None
) -> Agent:
    """Connects to the first free one of several boards. Tries all of them again and again until the longest of their
    `wait` options has passed."""
    give_up_at = time.monotonic() + max(
        float({**options, **parse(candidate).options}.get("wait", "0")) for candidate in addresses
    )
    errors = dict[str, LinkError]()
    while True:
        for candidate in addresses:
            try:
                return _connect_one(remove_option(candidate, "wait"), deadline_s, {**options, "wait": "0"}, on_open)
            except BadAddress:
                raise
            except LinkError as error:
                errors[candidate] = error
        if time.monotonic() >= give_up_at or not _any_busy(errors):
            raise _make_error_for_all(uri, errors) from errors[addresses[-1]]
        time.sleep(0.5)


def _any_busy(errors: Mapping[str, LinkError]) -> bool:
    return any(isinstance(error, BoardBusy) for error in errors.values())


def _make_error_for_all(uri: str, errors: Mapping[str, LinkError]) -> LinkError:
    """Returns the error to raise if none of several boards could be connected: BoardBusy if any of them is in use."""
    error_type = BoardBusy if _any_busy(errors) else BoardUnreachable
    return error_type(
        f"-b {uri}: none of {len(errors)} boards could be connected: "
        + "; ".join(str(error) for error in errors.values())
    )


def _connect_one(uri: str, deadline_s: float, options: Mapping[str, str], on_open: OnOpen | None) -> Agent:
    deadline = Deadline(deadline_s, uri)
    address, offers, stop_board = resolve_address(uri, options, deadline)
    try:
        return _open_agent(uri, address, offers, deadline, deadline_s, stop_board, on_open or _ignore_connection)
    except BaseException:
        stop_board()
        raise


def _open_agent(
    uri: str,
    address: Address,
    offers: frozenset[str],
    deadline: Deadline,
    deadline_s: float,
    stop_board: Callable[[], None],
    on_open: OnOpen,
) -> Agent:
    link_module = import_module(LINKS[address.scheme])

    def open_link() -> Link:
        return _add_link_faults(_open_connection(link_module, address, uri, deadline, deadline_s, on_open), address)

    def reopen_link() -> Link:
        nonlocal deadline
        deadline = Deadline(deadline_s, uri)
        return open_link()

    wait_s, over_shell = float(address.options.get("wait", "0")), hasattr(link_module, "open_shell")
    with contextlib.ExitStack() as stack:
        if over_shell:
            stack.enter_context(_take_host_lock(address, wait_s))
            deadline = Deadline(deadline_s, uri)
        link = open_link()
        stack.callback(link.close)
        agent = Agent(
            link,
            offers,
            deadline_s,
            owner=_owner_name_with_token(),
            wait_s=wait_s,
            reopen=reopen_link if over_shell else None,
            at_close=stop_board,
        )
        agent.place = address.place
        opened_resources = stack.pop_all()
        agent.at_close(opened_resources.close)
        return agent


def _take_host_lock(address: Address, wait_s: float) -> contextlib.AbstractContextManager[object]:
    """Takes this host's lock of the board. Does nothing if the lock file cannot be made: the board has a lock of its
    own."""
    try:
        return contextlib.closing(HostLock(address, _owner_name(), wait_s))
    except OSError:
        return contextlib.nullcontext()


def _owner_name() -> str:
    """Returns the name of this process, as it is shown to others who wait for the board."""
    return f"{user_name()}@{socket.gethostname()} pid {os.getpid()}"


def _owner_name_with_token() -> str:
    """Returns the owner's name followed by a random token of 16 hex digits, at most 127 bytes as the board allows. By
    the token the board recognizes its owner when a lost connection is made again."""
    return f"{_owner_name().encode('ascii', 'replace').decode()[:100]} #{secrets.token_hex(8)}"


def _ignore_connection(opened: OpenedConnection) -> None:
    return None


def _open_connection(
    link_module: Any, address: Address, uri: str, deadline: Deadline, deadline_s: float, on_open: OnOpen
) -> Link:
    """Opens a link to an agent that already runs; otherwise opens a shell, copies the agent to the board and starts it.
    An agent started here ends itself if a node takes longer than deadline_s."""
    if hasattr(link_module, "open_link"):
        link: Link = link_module.open_link(address, deadline)
        on_open(OpenedConnection(address))
        return link
    if hasattr(link_module, "open_direct"):
        direct: Link | None = link_module.open_direct(address, deadline)
        if direct is not None:
            on_open(OpenedConnection(address))
            return direct
    shell: Shell = link_module.open_shell(address, deadline)
    try:
        fault = address.options.get("fault")
        deployed = deploy(shell, uri, deadline, address)
        environment = {**address.environment, **({"QVRT_FAULT": fault} if fault is not None else {})}
        stream = start_agent(
            shell,
            deployed,
            deadline,
            environment,
            deadline_s,
            address.options.get("memory", ""),
            address.options.get("lock", "auto"),
            parse_size(address.options["quota"]) if "quota" in address.options else STORE_LIMIT,
        )
        on_open(OpenedConnection(address, shell, deployed.folder, deployed.name))
    except BaseException:
        shell.close()
        raise
    return DeployedLink(stream, shell.close)


class DeployedLink:
    """A Link to an agent that was started through a shell; closing the link closes the shell, too."""

    def __init__(self, stream: Link, at_close: Callable[[], None]):
        self._stream, self._at_close, self._open = stream, at_close, True
        self.piece_bytes, self.patience_s = stream.piece_bytes, stream.patience_s
        self.packs, self.ahead = stream.packs, stream.ahead
        self.output_before = str(getattr(stream, "output_before", ""))
        self.end_of_input = getattr(stream, "end_of_input", None)
        self.read, self.write, self.why_closed = stream.read, stream.write, stream.why_closed

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        try:
            self._stream.close()
        finally:
            self._at_close()


@contextlib.contextmanager
def open_board_shell(
    uri: str, deadline_s: float, options: Mapping[str, str] | None = None
) -> Iterator[tuple[Callable[..., CommandResult], DeployedAgent]]:
    """Yields a function that runs a command in a board's shell, and the agent that is already on the board, if any. An
    agent that a killed host left running on a console is ended. Raises BadAddress for a board without a shell."""
    deadline = Deadline(deadline_s, uri)
    check_option_values(f"-b {uri}", options or {})
    address, _, stop_board = resolve_address(resolve(uri, ANY_RUNTIME)[0], options or {}, deadline)
    deadline = Deadline(deadline_s, uri)  # resolving may have waited for the board to become free
    try:
        link_module = import_module(LINKS[address.scheme])
        if not hasattr(link_module, "open_shell"):
            raise BadAddress(f"{uri}: has no shell; wanted a board reached by ssh or a console")
        direct_link: Link | None = (
            link_module.open_direct(address, deadline) if hasattr(link_module, "open_direct") else None
        )
        if direct_link is not None:
            direct_link.close()
            raise BadAddress(
                f"{uri}: the board's own agent uses the line, there is no shell; wanted a board with a shell"
            )
        shell: Shell = link_module.open_shell(address, deadline)
        try:
            deployed = find_agent(shell, uri, deadline, address)
            deployed = replace(deployed, lock=address.options.get("lock", "auto"))

            def run(command: str, stdin: bytes = b"") -> CommandResult:
                return shell.run(command, deadline, stdin)

            yield run, deployed
        finally:
            shell.close()
    finally:
        stop_board()


def _add_link_faults(link: Link, address: Address) -> Link:
    """Returns the link, wrapped in a FaultyLink if the address has ?link_fault=KIND."""
    if "link_fault" not in address.options:
        return link
    from qverify_agents.faulty_link import FaultyLink

    seed, probability = address.options.get("link_seed", "0"), address.options.get("link_probability", "0.15")
    return FaultyLink(link, address.options["link_fault"], int(seed), float(probability))
