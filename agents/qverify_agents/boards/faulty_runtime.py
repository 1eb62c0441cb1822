"""faulty:BOARD?fault=KIND@NODE: a board whose runtime spoils one node; for tests and demonstrations."""

from __future__ import annotations

from qverify_agents.address import Address, parse
from qverify_agents.errors import BadAddress

OPTIONS: frozenset[str] = frozenset({"fault"})


KINDS = ("bitflip", "off_by_one", "zero_tail", "plus_one", "nan", "die", "hang", "garbage")


def plainer(address: Address) -> Address:
    kind, at, node = address.options.get("fault", "").partition("@")
    if kind not in KINDS or not at or not node:
        raise BadAddress(f"-b faulty:BOARD needs ?fault=KIND@NODE; kinds: {' '.join(KINDS)}")
    inner = parse(address.rest or "local")
    return Address(inner.scheme, inner.rest, {**inner.options, **address.options})
