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

from qverify_agents.address import WRAPPERS, Address, parse, without
from qverify_agents.capabilities import ALL, CommandResult, Link, Shell
from qverify_agents.deadline import Deadline
from qverify_agents.deploy import STORE_LIMIT, deploy, find_agent, start_agent
from qverify_agents.deploy import DeployedAgent as OnBoard
from qverify_agents.errors import BadAddress, BoardBusy, BoardUnreachable, LinkError
from qverify_agents.host_lock import HostLock
from qverify_agents.inventory import ANY, OURS, resolve, resolve_wrapped
from qverify_agents.option_values import check, size_bytes
from qverify_agents.protocol.client import Agent
from qverify_agents.schemes import BOARDS, LINKS
from qverify_agents.this_user import user_name
from qverify_agents.worker import OPTIONS as WORKER_OPTIONS
from qverify_agents.worker import is_worker

NOISE = frozenset({"link_fault", "link_seed", "link_probability"})
ON_A_BOARD = frozenset({"arch", "cache", "memory", "wait", "lock", "quota"})  # what deploy.py takes


@dataclass(frozen=True, slots=True)
class Opened:
    """What a connection was opened through. address: the one that the link opened. shell: None without one. folder: of
    the agent on the board, "" without one."""

    address: Address
    shell: Shell | None = None
    folder: str = ""
    binary: str = ""


OnOpen = Callable[[Opened], None]


def connect(
    uri: str,
    deadline_s: float = 60.0,
    options: Mapping[str, str] | None = None,
    on_open: OnOpen | None = None,
    runs: str = OURS,
) -> Agent:
    """Connects to a board's agent. uri: an address, a name or tags of the inventory; if several boards match, the first
    free one. options: like ?key=value in the URI (store, memory, link_fault ...); they override the URI's, and a board
    of a kind that does not have an option ignores it. on_open: called whenever a link was opened. runs: as for resolve.
    Raises LinkError (BadAddress, BoardUnreachable, LinkTimeout,
    LinkClosed, ProtocolError)."""
    options = options or {}
    check(f"-b {uri}", options)
    fitting = resolve(uri, runs)
    if len(fitting) > 1:
        return _first(uri, fitting, deadline_s, options, on_open)
    return _connected(fitting[0], deadline_s, options, on_open)


def _first(
    uri: str, fitting: list[str], deadline_s: float, options: Mapping[str, str], on_open: OnOpen | None
) -> Agent:
    """Connects to the first free one of several boards: tries them in rounds, for at most the longest of their wait
    options."""
    end = time.monotonic() + max(float({**options, **parse(one).options}.get("wait", "0")) for one in fitting)
    failed = dict[str, LinkError]()
    while True:
        for one in fitting:
            try:
                return _connected(without(one, "wait"), deadline_s, {**options, "wait": "0"}, on_open)
            except BadAddress:
                raise
            except LinkError as error:
                failed[one] = error
        if time.monotonic() >= end or not _any_busy(failed):
            raise _all_failed(uri, failed) from failed[fitting[-1]]
        time.sleep(0.5)


def _any_busy(failed: Mapping[str, LinkError]) -> bool:
    return any(isinstance(error, BoardBusy) for error in failed.values())


def _all_failed(uri: str, failed: Mapping[str, LinkError]) -> LinkError:
    """Returns the error that says why none of several boards could be connected."""
    kind = BoardBusy if _any_busy(failed) else BoardUnreachable
    return kind(
        f"-b {uri}: none of {len(failed)} boards could be connected: "
        + "; ".join(str(error) for error in failed.values())
    )


def _connected(uri: str, deadline_s: float, options: Mapping[str, str], on_open: OnOpen | None) -> Agent:
    deadline = Deadline(deadline_s, uri)
    address, offers, down = resolve_address(uri, options, deadline)
    try:
        return _agent(uri, address, offers, deadline, deadline_s, down, on_open or _nothing_with)
    except BaseException:
        down()
        raise


def _agent(
    uri: str,
    address: Address,
    offers: frozenset[str],
    deadline: Deadline,
    deadline_s: float,
    down: Callable[[], None],
    on_open: OnOpen,
) -> Agent:
    page = import_module(LINKS[address.scheme])

    def opened() -> Link:
        return _noisy(_open(page, address, uri, deadline, deadline_s, on_open), address)

    def again() -> Link:
        nonlocal deadline
        deadline = Deadline(deadline_s, uri)
        return opened()

    wait_s, far = float(address.options.get("wait", "0")), hasattr(page, "open_shell")
    with contextlib.ExitStack() as stack:
        if far:
            stack.enter_context(_locked(address, wait_s))
            deadline = Deadline(deadline_s, uri)
        link = opened()
        stack.callback(link.close)
        agent = Agent(
            link, offers, deadline_s, owner=_own_owner(), wait_s=wait_s, reopen=again if far else None, at_close=down
        )
        agent.place = address.place
        stack_to_close = stack.pop_all()
        agent.at_close(stack_to_close.close)
        return agent


def _locked(address: Address, wait_s: float) -> contextlib.AbstractContextManager[object]:
    """Takes the host's lock; does nothing where this host has no place for one, as the board has its own lock, too."""
    try:
        return contextlib.closing(HostLock(address, _owner(), wait_s))
    except OSError:
        return contextlib.nullcontext()


def _owner() -> str:
    """Returns the name of this process that others who wait for the board are shown."""
    return f"{user_name()}@{socket.gethostname()} pid {os.getpid()}"


def _own_owner() -> str:
    """Returns the owner with a token of 16 hex digits, by which the board recognizes this connection's owner after the
    connection was lost and made again. At most the board's 127 bytes."""
    return f"{_owner().encode('ascii', 'replace').decode()[:100]} #{secrets.token_hex(8)}"


def resolve_address(
    uri: str, options: Mapping[str, str], deadline: Deadline
) -> tuple[Address, frozenset[str], Callable[[], None]]:
    """Returns the address a link opens, what the board offers, and a function that ends what was started. Raises
    BadAddress for an option that no page on the way has."""
    down: Callable[[], None] = _nothing
    address, offers, known = parse(uri), ALL, set(NOISE)
    given = set(address.options)
    address = replace(address, options={**address.options, **options})
    if address.scheme == "ssh" and "user" in options:
        address = replace(address, rest=f"{options['user']}@{address.rest.rpartition('@')[2]}")
    for _ in range(5):
        if "offers" in address.options:
            offers = frozenset(address.options["offers"].split("+"))
        if address.scheme in LINKS:
            break
        if address.scheme not in BOARDS:
            raise BadAddress(f"-b {uri}: no board kind {address.scheme!r}; known: {', '.join([*BOARDS, *LINKS])}")
        page = import_module(BOARDS[address.scheme])
        known |= page.OPTIONS
        if hasattr(page, "up"):
            plainer, down = page.up(address, deadline)
        else:
            plainer = page.plainer(address)
        address = replace(plainer, options={**address.options, **plainer.options})
    else:
        raise BadAddress(f"-b {uri}: boards wrapped more than 4 deep; name the board with fewer wrappers")
    link = import_module(LINKS[address.scheme])
    known |= link.OPTIONS | (ON_A_BOARD | WORKER_OPTIONS if hasattr(link, "open_shell") else frozenset())
    unknown = given - known
    if unknown:
        down()
        raise BadAddress(f"-b {uri}: unknown option {min(unknown)!r}; known here: {', '.join(sorted(known))}")
    return address, offers, down


def runtime_of(uri: str, options: Mapping[str, str]) -> str:
    """Returns the runtime other than qvrt that a board's address, or these options, ask for; "" for qvrt. Raises
    BadAddress where boards of several runtimes match."""
    runtimes = {_runtime(parse(one), options) for one in resolve(uri)}
    if len(runtimes) > 1:
        raise BadAddress(
            f"-b {uri}: its boards run {' and '.join(sorted(r or 'qvrt' for r in runtimes))}; name one board"
        )
    return runtimes.pop()


def option_of(uri: str, options: Mapping[str, str], name: str) -> str:
    """Returns an option of the first board that the address names, or of these options; "" where none gives it."""
    address = parse(resolve(uri)[0])
    given = {**address.options, **options}
    while address.scheme in WRAPPERS:
        address = parse(resolve_wrapped(address.rest))
        given = {**address.options, **given}
    return given.get(name, "")


def _runtime(address: Address, options: Mapping[str, str]) -> str:
    if address.scheme in WRAPPERS:
        return _runtime(parse(resolve_wrapped(address.rest)), {**address.options, **options})
    asked = replace(address, options={**address.options, **options})
    return asked.options["runtime"] if is_worker(asked) else ""


def _nothing() -> None:
    return None


def _nothing_with(opened: Opened) -> None:
    return None


def _open(page: Any, address: Address, uri: str, deadline: Deadline, deadline_s: float, on_open: OnOpen) -> Link:
    """Opens the link of an agent that is already there, or opens a shell, puts the agent there and starts it. The agent
    ends if a node takes longer than deadline_s."""
    if hasattr(page, "open_link"):
        link: Link = page.open_link(address, deadline)
        on_open(Opened(address))
        return link
    if hasattr(page, "open_direct"):
        direct: Link | None = page.open_direct(address, deadline)
        if direct is not None:
            on_open(Opened(address))
            return direct
    shell: Shell = page.open_shell(address, deadline)
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
            size_bytes(address.options["quota"]) if "quota" in address.options else STORE_LIMIT,
        )
        on_open(Opened(address, shell, deployed.folder, deployed.name))
    except BaseException:
        shell.close()
        raise
    return DeployedLink(stream, shell.close)


class DeployedLink:
    """A Link that closes its shell, too."""

    def __init__(self, stream: Link, at_close: Callable[[], None]):
        self._stream, self._at_close, self._open = stream, at_close, True
        self.piece_bytes, self.patience_s = stream.piece_bytes, stream.patience_s
        self.packs, self.ahead = stream.packs, stream.ahead
        self.said_before = str(getattr(stream, "said_before", ""))
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
def shell_of(
    uri: str, deadline_s: float, options: Mapping[str, str] | None = None
) -> Iterator[tuple[Callable[..., CommandResult], OnBoard]]:
    """Yields a function that runs a command in a board's shell, and the agent that is already there, if any; for
    commands other than runs. An agent that a killed host left on a console is ended. Raises BadAddress for a board
    without a shell."""
    deadline = Deadline(deadline_s, uri)
    check(f"-b {uri}", options or {})
    address, _, down = resolve_address(resolve(uri, ANY)[0], options or {}, deadline)
    deadline = Deadline(deadline_s, uri)  # it may have been waited for
    try:
        page = import_module(LINKS[address.scheme])
        if not hasattr(page, "open_shell"):
            raise BadAddress(f"{uri}: has no shell; wanted a board reached by ssh or a console")
        owned: Link | None = page.open_direct(address, deadline) if hasattr(page, "open_direct") else None
        if owned is not None:
            owned.close()
            raise BadAddress(
                f"{uri}: the board's own agent uses the line, there is no shell; wanted a board with a shell"
            )
        shell: Shell = page.open_shell(address, deadline)
        try:
            deployed = find_agent(shell, uri, deadline, address)
            deployed = replace(deployed, lock=address.options.get("lock", "auto"))

            def run(command: str, stdin: bytes = b"") -> CommandResult:
                return shell.run(command, deadline, stdin)

            yield run, deployed
        finally:
            shell.close()
    finally:
        down()


def _noisy(link: Link, address: Address) -> Link:
    """Returns the link, within a FaultyLink if ?link_fault=KIND is given."""
    if "link_fault" not in address.options:
        return link
    from qverify_agents.faulty_link import FaultyLink

    seed, probability = address.options.get("link_seed", "0"), address.options.get("link_probability", "0.15")
    return FaultyLink(link, address.options["link_fault"], int(seed), float(probability))
