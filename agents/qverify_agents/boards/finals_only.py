"""finals:BOARD: a board that offers its final outputs only: no tensors of single nodes, no digests, no injection."""

from __future__ import annotations

from qverify_agents.address import Address, parse
from qverify_agents.inventory import resolve_wrapped

OPTIONS: frozenset[str] = frozenset({"offers"})


def plainer(address: Address) -> Address:
    """Returns the wrapped board's address with this restriction."""
    inner = parse(resolve_wrapped(address.rest))
    return Address(inner.scheme, inner.rest, {**inner.options, **address.options, "offers": "finals"})
