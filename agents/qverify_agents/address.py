"""-b parsed, nothing opened."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from qverify_agents.errors import BoardUnreachable


@dataclass(frozen=True, slots=True)
class Address:
    """scheme: a key of schemes.py. rest: what follows it. options: ?key=value pairs. argv: a plainer address' command."""

    scheme: str
    rest: str = ""
    options: dict[str, str] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


def parse(uri: str) -> Address:
    """`local`, `qemu-user:aarch64`, `faulty:local?fault=KIND@NODE`, `finals:local`."""
    match = re.fullmatch(r"([a-z][a-z0-9-]*)(?::(.*))?", uri, re.DOTALL)
    if not match:
        raise BoardUnreachable(
            f"-b {uri}: not a board this version knows; known: local, qemu-user:ARCH, faulty:BOARD?fault=KIND@NODE, finals:BOARD"
        )
    rest, _, query = (match[2] or "").partition("?")
    options = dict(part.partition("=")[::2] for part in query.split("&")) if query else {}
    return Address(match[1], rest, options)
