"""Resolves the board of -b: what a link must open, which options are known, and which runtime the board has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module

from qverify_agents.address import WRAPPERS, Address, parse
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BadAddress, BoardUnreachable
from qverify_agents.interfaces import ALL_FEATURES
from qverify_agents.inventory import resolve, resolve_wrapped
from qverify_agents.schemes import BOARDS, LINKS
from qverify_agents.worker import OPTIONS as WORKER_OPTIONS
from qverify_agents.worker import is_worker

LINK_FAULT_OPTIONS = frozenset({"link_fault", "link_seed", "link_probability"})
# Options of deploy.py and of the locks.
DEPLOY_OPTIONS = frozenset({"arch", "cache", "memory", "wait", "lock", "quota"})


def resolve_address(
    uri: str, options: Mapping[str, str], deadline: Deadline | None
) -> tuple[Address, frozenset[str], Callable[[], None]]:
    """Returns the address that a link can open, the features that the board offers, and a function that ends whatever
    was started for it. Raises BadAddress for an option that neither the boards on the way nor the link have, and
    BoardUnreachable if a board must be started and `deadline` is None."""
    stop_board: Callable[[], None] = _do_nothing
    address, offers, known_options = parse(uri), ALL_FEATURES, set(LINK_FAULT_OPTIONS)
    option_names = set(address.options)
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
        board_module = import_module(BOARDS[address.scheme])
        known_options |= board_module.OPTIONS
        if hasattr(board_module, "up"):
            if deadline is None:
                raise BoardUnreachable(f"-b {uri}: not started yet")
            simpler, stop_board = board_module.up(address, deadline)
        else:
            simpler = board_module.plainer(address)
        address = replace(simpler, options={**address.options, **simpler.options})
    else:
        raise BadAddress(f"-b {uri}: boards wrapped more than 4 deep; name the board with fewer wrappers")
    link_module = import_module(LINKS[address.scheme])
    known_options |= link_module.OPTIONS | (
        DEPLOY_OPTIONS | WORKER_OPTIONS if hasattr(link_module, "open_shell") else frozenset()
    )
    unknown = option_names - known_options
    if unknown:
        stop_board()
        raise BadAddress(f"-b {uri}: unknown option {min(unknown)!r}; known here: {', '.join(sorted(known_options))}")
    return address, offers, stop_board


def check_address(uri: str) -> None:
    """Raises BadAddress for an address that no board can have. Nothing is contacted or started, so a board that must be
    started first is not checked further."""
    try:
        address, _, _ = resolve_address(uri, {}, None)
    except BoardUnreachable as error:
        if isinstance(error, BadAddress):
            raise
        return
    link_module = import_module(LINKS[address.scheme])
    if hasattr(link_module, "check_target"):
        link_module.check_target(address)


def find_runtime(uri: str, options: Mapping[str, str]) -> str:
    """Returns the runtime (onnxruntime, litert) that a board's address or these options name, or "" for qvrt. Raises
    BadAddress if boards with different runtimes match."""
    runtimes = {_find_worker_runtime(parse(address), options) for address in resolve(uri)}
    if len(runtimes) > 1:
        raise BadAddress(
            f"-b {uri}: its boards run {' and '.join(sorted(r or 'qvrt' for r in runtimes))}; name one board"
        )
    return runtimes.pop()


def find_option(uri: str, options: Mapping[str, str], name: str) -> str:
    """Returns the value of an option of the first board that the address names, or "" if it is not set. These options
    override those of the address."""
    address = parse(resolve(uri)[0])
    values = {**address.options, **options}
    while address.scheme in WRAPPERS:
        address = parse(resolve_wrapped(address.rest))
        values = {**address.options, **values}
    return values.get(name, "")


def _find_worker_runtime(address: Address, options: Mapping[str, str]) -> str:
    if address.scheme in WRAPPERS:
        return _find_worker_runtime(parse(resolve_wrapped(address.rest)), {**address.options, **options})
    with_options = replace(address, options={**address.options, **options})
    return with_options.options["runtime"] if is_worker(with_options) else ""


def _do_nothing() -> None:
    return None
