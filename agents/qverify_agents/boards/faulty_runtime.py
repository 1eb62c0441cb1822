"""faulty:BOARD?fault=KIND@NODE: a board whose runtime spoils one node; for tests and demonstrations."""

from __future__ import annotations

from qverify_agents.address import Address, parse
from qverify_agents.errors import BoardUnreachable


def plainer(address: Address) -> Address:
    if "fault" not in address.options:
        raise BoardUnreachable(
            "-b faulty:BOARD needs ?fault=KIND@NODE; kinds: bitflip off_by_one zero_tail plus_one nan die hang garbage"
        )
    inner = parse(address.rest or "local")
    return Address(inner.scheme, inner.rest, {**inner.options, **address.options})
