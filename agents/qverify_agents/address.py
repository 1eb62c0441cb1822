"""-b parsed, nothing opened."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from qverify_agents.errors import BadAddress

KNOWN = "local, qemu-user:ARCH, faulty:BOARD?fault=KIND@NODE, finals:BOARD"


@dataclass(frozen=True, slots=True)
class Address:
    """scheme: a key of schemes.py. rest: what follows it. options: ?key=value pairs. argv: a plainer one's command."""

    scheme: str
    rest: str = ""
    options: dict[str, str] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


def parse(uri: str) -> Address:
    """`local`, `qemu-user:aarch64`, `faulty:local?fault=KIND@NODE`, `finals:local`."""
    head, _, query = uri.partition("?")
    match = re.fullmatch(r"([a-z][a-z0-9-]*)(?::(.*))?", head, re.DOTALL)
    if not match:
        raise BadAddress(f"-b {uri}: not a board this version knows; known: {KNOWN}")
    return Address(
        match[1], match[2] or "", dict(part.partition("=")[::2] for part in query.split("&")) if query else {}
    )
