"""Parses the address of a board, as it is given with -b; opens nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from qverify_agents.errors import BadAddress
from qverify_agents.option_values import check_option_values
from qverify_agents.schemes import BOARDS


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed address of a board.

    Attributes:
        scheme: the kind of board or link, a key of schemes.py.
        rest: the part between the scheme and the options.
        options: the ?key=value pairs.
        argv: the command that a resolved address starts, or () if it starts none.
        environment: variables that are set for that command.
        place: name of the board that was chosen if the address as typed matches several, otherwise "".
    """

    scheme: str
    rest: str = ""
    options: dict[str, str] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    place: str = ""


WRAPPERS = ("finals", "faulty")  # kinds of board that wrap another board


def parse(uri: str) -> Address:
    """Parses `local`, `qemu-user:aarch64`, `faulty:local?fault=KIND@NODE`, `ssh://user@host:22` or
    `serial:///dev/ttyUSB0?baud=115200`; a device alone, `/dev/ttyUSB0` or `COM3`, is also a serial line. Any text
    that does not begin with a kind of board is a host: `10.0.0.5`, `user@host:22`, an alias of ~/.ssh/config. Raises
    BadAddress."""
    head, _, query = uri.partition("?")
    if _contains_password(head):
        raise BadAddress(
            "-b: a password in a board's address would be printed and reported; wanted USER@HOST, and the password in "
            "QVERIFY_SSH_PASSWORD or at the prompt"
        )
    pairs = [part.partition("=")[::2] for part in query.split("&")] if query else []
    if repeated_key := next((key for at, (key, _) in enumerate(pairs) if key in dict(pairs[:at])), None):
        raise BadAddress(f"-b {uri}: {repeated_key} is given twice")
    options = {key: unquote(value) for key, value in pairs}  # %26 is an & within a value
    check_option_values(f"-b {uri}", options)
    scheme, colon, rest = head.partition(":")
    if colon and not rest and scheme in WRAPPERS:
        raise BadAddress(f"-b {uri}: no board after {scheme}: (an unset shell variable?); {scheme} alone wraps local")
    if re.fullmatch(r"[a-z][a-z0-9-]*", scheme) and (rest.startswith("//") or scheme in BOARDS):
        return Address(scheme, rest.removeprefix("//") if colon else "", options)
    if re.fullmatch(r"(?i:COM)\d+|/dev/(?:tty|cu)[\w.-]+", head):
        return Address("serial", head, options)
    if not re.fullmatch(r"[^\s/?#]+", head):
        raise BadAddress(
            f"-b {uri!r}: not a board; known kinds: {', '.join(BOARDS)}, ssh://HOST, serial://DEVICE, or a host's name"
        )
    return Address("ssh", head, options)


def add_options(uri: str, options: Mapping[str, str]) -> str:
    """Returns the URI with these options added; they replace options of the same names."""
    for name in options:
        uri = remove_option(uri, name)
    added = "&".join(f"{k}={v.replace('%', '%25').replace('&', '%26')}" for k, v in options.items())
    return uri + (("&" if "?" in uri else "?") + added if added else "")


def _contains_password(head: str) -> bool:
    """Returns whether an SSH address has the form user:password@host. The name
    of a container image may also contain a colon before an @."""
    target = re.sub(r"^(?:(?:faulty|finals):)*", "", head)
    if target.partition(":")[0] in BOARDS or re.match(r"(?!ssh:)[a-z][a-z0-9-]*://", target):
        return False
    return ":" in target.removeprefix("ssh://").rpartition("@")[0]


def remove_option(uri: str, option: str) -> str:
    """Returns the URI without this option."""
    head, _, query = uri.partition("?")
    remaining = "&".join(part for part in query.split("&") if part.partition("=")[0] != option)
    return f"{head}?{remaining}" if remaining else head
