"""-b to an agent that said HELLO."""

from __future__ import annotations

from importlib import import_module

from qverify_agents.address import parse
from qverify_agents.capabilities import ALL
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable
from qverify_agents.protocol.client import Agent
from qverify_agents.schemes import BOARDS, LINKS


def connect(uri: str, deadline_s: float = 60.0) -> Agent:
    """Raises LinkError (BoardUnreachable, LinkTimeout, LinkClosed, ProtocolError)."""
    address, offers = parse(uri), ALL
    for _ in range(4):
        if "offers" in address.options:
            offers = frozenset(address.options["offers"].split("+"))
        if address.scheme in LINKS:
            break
        if address.scheme not in BOARDS:
            raise BoardUnreachable(f"-b {uri}: no board kind {address.scheme!r}; known: {', '.join(BOARDS)}")
        address = import_module(BOARDS[address.scheme]).plainer(address)
    deadline = Deadline(deadline_s, uri)
    link = import_module(LINKS[address.scheme]).open_link(address, deadline)
    try:
        return Agent(link, offers, deadline_s)
    except BaseException:
        link.close()
        raise
