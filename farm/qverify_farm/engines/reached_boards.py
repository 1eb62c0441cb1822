"""The boards that this host reaches: those of its inventory and those given by address."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from qverify.closest_names import closest_names
from qverify.errors import UsageError
from qverify_agents.address import parse
from qverify_agents.errors import BadAddress
from qverify_agents.inventory import QVRT
from qverify_agents.inventory import read_boards as inventory_entries
from qverify_agents.inventory_tables import InventoryEntry
from qverify_agents.resolve_address import check_address

from qverify_farm.engines.engine import ReachedBoard

MAX_NAME_LENGTH = 200


def reached_boards(names: Sequence[str] | None = None, addresses: Sequence[str] = ()) -> dict[str, ReachedBoard]:
    """Returns boards by name. names: names of boards.toml, or None for all of them. addresses: addresses as for -b; each is
    also the board's name. Raises UsageError for a name that is not in the inventory, and BadAddress if the inventory cannot
    be read."""
    entries, host = inventory_entries(), socket.gethostname()
    if missing := [name for name in names or () if name not in entries]:
        near = closest_names(missing[0], entries)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(entries)) or 'none'}"
        raise UsageError(f"{', '.join(missing)}: not in boards.toml; {hint}")
    selected = sorted(entries) if names is None else names
    boards = {name: ReachedBoard(name, name, _tags(entries[name]), host) for name in selected}
    for address in addresses:
        if len(address) > MAX_NAME_LENGTH:
            raise BadAddress(f"-b {address[:60]}...: longer than {MAX_NAME_LENGTH} characters; name it in boards.toml")
        runner = parse(address).options.get("runtime", QVRT)
        boards.setdefault(address, ReachedBoard(address, address, {"runner": runner}, host))
    return boards


def check_addresses(boards: Mapping[str, ReachedBoard]) -> None:
    """Raises BadAddress if a board has an address that no board can have. Nothing is contacted."""
    entries = inventory_entries()
    for name, board in boards.items():
        entry = entries.get(name)
        try:
            check_address(entry.address if entry is not None else board.address)
        except BadAddress as error:
            raise (error if entry is None else BadAddress(f"boards.toml: {name}: {error}")) from None


def _tags(entry: InventoryEntry) -> dict[str, str]:
    """Returns a board's tags and, as the tag `runner`, what runs models there: qvrt, onnxruntime, litert, a runner's name,
    or "command"."""
    options = {**parse(entry.address).options, **entry.options}
    runner = dict(entry.runner).get("runtime", "command") if entry.runner else options.get("runtime", QVRT)
    return {"runner": runner, **entry.tags}
