"""The boards that this host reaches: those of its inventory, and addresses given beside it."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from qverify.closest_names import closest_names
from qverify.errors import UsageError
from qverify_agents.address import parse
from qverify_agents.errors import BadAddress
from qverify_agents.inventory import OURS, InventoryEntry
from qverify_agents.inventory import boards as inventory

from qverify_farm.engines.engine import ReachedBoard

MOST_NAME = 200


def reached_boards(names: Sequence[str] | None = None, addresses: Sequence[str] = ()) -> dict[str, ReachedBoard]:
    """Returns boards by name. names: of boards.toml; None for all that are there. addresses: as for -b, each its own name.
    UsageError for a name that is not in the inventory, BadAddress for an inventory that cannot be read."""
    known, host = inventory(), socket.gethostname()
    if lacking := [name for name in names or () if name not in known]:
        near = closest_names(lacking[0], known)
        meant = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(known)) or 'none'}"
        raise UsageError(f"{', '.join(lacking)}: not in boards.toml; {meant}")
    wanted = sorted(known) if names is None else names
    found = {name: ReachedBoard(name, name, _tags(known[name]), host) for name in wanted}
    for address in addresses:
        if len(address) > MOST_NAME:
            raise BadAddress(f"-b {address[:60]}...: longer than {MOST_NAME} characters; name it in boards.toml")
        runner = parse(address).options.get("runtime", OURS)
        found.setdefault(address, ReachedBoard(address, address, {"runner": runner}, host))
    return found


def _tags(entry: InventoryEntry) -> dict[str, str]:
    """Returns a board's tags, and as `runner` what runs there: qvrt, onnxruntime, litert, a runner's name, or command."""
    options = {**parse(entry.address).options, **entry.options}
    runner = dict(entry.runner).get("runtime", "command") if entry.runner else options.get("runtime", OURS)
    return {"runner": runner, **entry.tags}
