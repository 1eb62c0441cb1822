"""The entries of boards.toml, and the values of their tables. A table whose keys are options of an engine becomes pairs of key and value."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from qverify_agents.errors import BadAddress

RESET_WAIT_S, MAX_RESET_WAIT_S = 60.0, 3600.0
OptionPairs = tuple[tuple[str, str], ...]
ENGINE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class InventoryEntry:
    """A board of the inventory, one table [boards.NAME].

    Attributes:
        name: the board's name.
        uri: its address as for -b, without the options of the table.
        file: path of the inventory file.
        tags: its tags, such as soc and firmware.
        power: command line of this host that power-cycles it (key power_cycle or power), or "".
        reset: command line of this host that resets it, or "".
        options: options of the address that the table contains as keys.
        foreign: key and value, as in the file, that name a runtime that qverify does not drive itself, or "".
        runner: how such a runtime is run, as (key, value) pairs. A key whose value is a table has one pair with the
            value NAME=VALUE for each of the table's entries.
        reset_wait_s: seconds that the board may take to answer after a reset.
        arithmetic: how it rounds: the path of a file, from the inventory's folder, or a name; or "".
    """

    name: str
    uri: str
    file: str
    tags: dict[str, str] = field(default_factory=dict)
    power: str = ""
    reset: str = ""
    options: dict[str, str] = field(default_factory=dict)
    foreign: str = ""
    runner: OptionPairs = ()
    reset_wait_s: float = RESET_WAIT_S
    arithmetic: str = ""

    @property
    def address(self) -> str:
        """The URI with the table's options."""
        query = "&".join(f"{k}={v.replace('%', '%25').replace('&', '%26')}" for k, v in self.options.items())
        return self.uri + (("&" if "?" in self.uri else "?") + query if query else "")


@dataclass(frozen=True, slots=True)
class BrokenEntry:
    """A table that describes no usable board. error: the reason. tags: its tags, {} if they cannot be read."""

    error: BadAddress
    tags: dict[str, object]


def parse_engine(where: str, name: str, table: object) -> OptionPairs:
    """Returns the pairs of a table [engines.NAME], the first of them ("runtime", ENGINE). Without a key `runtime`, the
    engine is the one that the table is named after. Raises BadAddress."""
    if not ENGINE_NAME.fullmatch(name):
        raise BadAddress(f"{where}: wanted a name of letters, digits, . _ and - that begins with a letter")
    if not isinstance(table, dict):
        raise BadAddress(f"{where} = {quote_value(table)}: wanted a table")
    options = {key: value for key, value in table.items() if key != "runtime"}
    return (("runtime", require_text(where, "runtime", table.get("runtime", name))), *parse_options(where, options))


def parse_options(where: str, table: Mapping[str, object], prefix: str = "") -> OptionPairs:
    """Returns the pairs of a table. A key whose value is a table or a list has one pair for each entry: NAME=VALUE, or the
    text. prefix: of keys in messages."""
    pairs: list[tuple[str, str]] = []
    for key, content in table.items():
        shown = f"{prefix}{key}"
        if isinstance(content, dict):
            pairs += [(key, f"{name}={require_text(where, f'{shown}.{name}', text)}") for name, text in content.items()]
        elif isinstance(content, list):
            pairs += [(key, require_text(where, shown, text)) for text in content]
        else:
            pairs.append((key, require_text(where, shown, content)))
    return tuple(pairs)


def parse_reset_wait(where: str, text: str) -> float:
    """Returns the value of reset_wait in seconds. Raises BadAddress for a wrong one."""
    seconds = float(text) if re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text) else -1.0
    if not 0 < seconds <= MAX_RESET_WAIT_S:
        raise BadAddress(
            f"{where} reset_wait = {quote_value(text)}: wanted seconds above 0, at most {MAX_RESET_WAIT_S:g}"
        )
    return seconds


def require_text(where: str, key: str, value: object) -> str:
    """Returns the value. Raises BadAddress unless it is a text that is not empty."""
    if isinstance(value, str) and value.strip():
        return value
    hint = f', as "{value}"' if isinstance(value, int | float) and not isinstance(value, bool) else ""
    raise BadAddress(f"{where} {key} = {quote_value(value)}: wanted a text in quotes{hint or ' that is not empty'}")


def quote_value(value: object) -> str:
    """Returns the value approximately as TOML writes it, cut to 80 characters."""
    return json.dumps(value, default=str)[:80]
