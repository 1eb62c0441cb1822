"""-b to an agent that said HELLO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module

from qverify_agents.address import Address, parse
from qverify_agents.capabilities import ALL, Link
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BadAddress
from qverify_agents.protocol.client import Agent
from qverify_agents.schemes import BOARDS, LINKS

NOISE = ("link_fault", "link_seed", "link_probability")


def connect(uri: str, deadline_s: float = 60.0, options: Mapping[str, str] | None = None) -> Agent:
    """options: as ?key=value in the URI (store, memory, link_fault ...); the URI's own win.
    Raises LinkError (BoardUnreachable, LinkTimeout, LinkClosed, ProtocolError)."""
    address = parse(uri)
    address = replace(address, options={**(options or {}), **address.options})
    offers, known = ALL, set(NOISE)
    for _ in range(4):
        if "offers" in address.options:
            offers = frozenset(address.options["offers"].split("+"))
        if address.scheme in LINKS:
            break
        if address.scheme not in BOARDS:
            raise BadAddress(f"-b {uri}: no board kind {address.scheme!r}; known: {', '.join(BOARDS)}")
        page = import_module(BOARDS[address.scheme])
        known |= page.OPTIONS
        plainer = page.plainer(address)
        address = replace(plainer, options={**address.options, **plainer.options})
    else:
        raise BadAddress(f"-b {uri}: boards wrapped too deep")
    deadline = Deadline(deadline_s, uri)
    page = import_module(LINKS[address.scheme])
    unknown = address.options.keys() - known - page.OPTIONS
    if unknown:
        listed = ", ".join(sorted(known | page.OPTIONS))
        raise BadAddress(f"-b {uri}: unknown option {min(unknown)!r}; known here: {listed}")
    link: Link = page.open_link(address, deadline)
    try:
        return Agent(_noisy(link, address), offers, deadline_s)
    except BaseException:
        link.close()
        raise


def _noisy(link: Link, address: Address) -> Link:
    """The link behind faulty.py when ?link_fault=KIND asks for it."""
    if "link_fault" not in address.options:
        return link
    from qverify_agents.links.faulty import FaultyLink

    try:
        seed = int(address.options.get("link_seed", "0"))
        return FaultyLink(
            link, address.options["link_fault"], seed, float(address.options.get("link_probability", "0.15"))
        )
    except ValueError as error:
        raise BadAddress("link_seed and link_probability are numbers") from error
