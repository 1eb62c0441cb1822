"""boards.toml: boards by name, of the project, the user and the system; the nearer file takes precedence."""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from qverify_agents.address import Address, merged, parse
from qverify_agents.errors import BadAddress
from qverify_agents.schemes import BOARDS, LINKS
from qverify_agents.this_user import home
from qverify_agents.worker import OPTIONS as WORKER_OPTIONS
from qverify_agents.worker import RUNTIMES

KEYS = {"uri", "tags", "profile", "power", "reset", "host_key", "user", "cache", "arch", *WORKER_OPTIONS}
OURS = "qvrt"
PROJECT = Path("boards.toml")  # of the current folder, which may be a clone of somebody else's repository


@dataclass(frozen=True, slots=True)
class InventoryEntry:
    """One [boards.NAME] table. uri: an address as for -b. tags: soc, firmware ... power, reset: command lines of this
    host. foreign: the key and value that name another runtime than qvrt, which is not supported yet."""

    name: str
    uri: str
    file: str
    tags: dict[str, str] = field(default_factory=dict)
    power: str = ""
    reset: str = ""
    options: dict[str, str] = field(default_factory=dict)
    foreign: str = ""

    @property
    def address(self) -> str:
        """The URI with the inventory's options."""
        more = "&".join(f"{k}={v.replace('%', '%25').replace('&', '%26')}" for k, v in self.options.items())
        return self.uri + (("&" if "?" in self.uri else "?") + more if more else "")


def files() -> list[Path]:
    """Returns the inventory files, nearest first: QVERIFY_BOARDS alone, or the project's, the user's and the
    system's."""
    if named := os.environ.get("QVERIFY_BOARDS"):
        if not Path(named).is_file():
            raise BadAddress(f"QVERIFY_BOARDS={named}: no such file")
        return [Path(named)]
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home() / ".config")
    return [PROJECT, config / "qverify" / "boards.toml", Path("/etc/qverify/boards.toml")]


def boards() -> dict[str, InventoryEntry]:
    """Returns all boards by name. Raises BadAddress naming the file and the key that is wrong."""
    entries: dict[str, InventoryEntry] = {}
    for path in files():
        if path.is_file():
            for name, board in _read(path).items():
                entries.setdefault(name, board)
    return entries


def resolve_wrapped(text: str) -> str:
    """Returns the address of a wrapped board: of `desk` in `finals:desk`; the first if tags match several."""
    return resolve(text)[0] if text else "local"


def _read(path: Path) -> dict[str, InventoryEntry]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadAddress(f"{path}: {error}") from error
    tables = content.get("boards", {})
    if not isinstance(tables, dict) or content.keys() - {"boards"}:
        raise BadAddress(f"{path}: wanted tables [boards.NAME] and nothing else")
    for name in tables:
        if name in BOARDS or name in LINKS or not re.fullmatch(r"[\w.-]+", name):
            raise BadAddress(
                f"{path}: [boards.{name}]: wanted a name of letters, digits, . _ and - that is not a kind of board"
            )
    return {name: _board(path, name, table) for name, table in tables.items()}


def _board(path: Path, name: str, table: object) -> InventoryEntry:
    where = f"{path}: [boards.{name}]"
    if not isinstance(table, dict):
        raise BadAddress(f"{path}: boards.{name} = {_shown(table)}: wanted a table [boards.{name}]")
    if unknown := table.keys() - KEYS:
        raise BadAddress(f"{where}: unknown key {min(unknown)!r}; known: {', '.join(sorted(KEYS))}")
    if "uri" not in table:
        raise BadAddress(f'{where}: no uri; wanted uri = "...", an address as for -b')
    tags = table.get("tags", {})
    if not isinstance(tags, dict):
        raise BadAddress(f'{where} tags = {_shown(tags)}: wanted a table, as {{ soc = "j5" }}')
    text = {k: _text(where, k, v) for k, v in table.items() if k != "tags"}
    tags = {k: _text(where, f"tags.{k}", v) for k, v in tags.items()}
    options = {k: text[k] for k in ("host_key", "user", "cache", "arch", *sorted(WORKER_OPTIONS)) if k in text}
    if options.get("runtime") not in RUNTIMES:
        options.pop("runtime", None)
    foreign = next(
        (f'{k} = "{text[k]}"' for k in ("profile", "runtime") if text.get(k, OURS) not in (OURS, *RUNTIMES)), ""
    )
    board = InventoryEntry(
        name, text["uri"], str(path), tags, text.get("power", ""), text.get("reset", ""), options, foreign
    )
    try:
        address = parse(board.address)
    except BadAddress as error:
        raise BadAddress(f"{where}: {error}") from error
    trusted = path != PROJECT or os.environ.get("QVERIFY_BOARDS")
    if not trusted and (by := _runs_commands(address)):
        raise BadAddress(
            f"{where}: {by} would run commands that this folder chooses. "
            f"Next: move the entry to ~/.config/qverify/boards.toml, or name this file by QVERIFY_BOARDS={path}"
        )
    return board


def _runs_commands(address: Address) -> str:
    """Returns what in an address makes this host run a program of its choice, "" where nothing does."""
    if address.scheme == "exec":
        return "exec:"
    named = [k for k in ("ssh_config", "python", "delegate") if k in address.options]
    own = address.options.get("runtime", RUNTIMES[0]) not in RUNTIMES
    return named[0] if named else "runtime" if own else ""


def _text(where: str, key: str, value: object) -> str:
    if isinstance(value, str) and value.strip():
        return value
    hint = f', as "{value}"' if isinstance(value, int | float) and not isinstance(value, bool) else ""
    raise BadAddress(f"{where} {key} = {_shown(value)}: wanted a text in quotes{hint or ' that is not empty'}")


def _shown(value: object) -> str:
    """Returns the value about as TOML writes it, at most 80 characters."""
    return json.dumps(value, default=str)[:80]


def resolve(text: str) -> list[str]:
    """Returns the addresses -b may mean, best first: a name of the inventory, `tag=value[,tag=value]`, or the text
    itself. Raises BadAddress if the tags match no board, or none whose runtime is qvrt."""
    head = text.partition("?")[0]
    if "=" not in head:
        board = boards().get(head)
        return [text] if board is None else _driven([board], text)
    if "://" in head or head.partition(":")[2].startswith("/"):
        return [text]
    wanted = dict(part.partition("=")[::2] for part in head.split(","))
    fitting = [b for b in boards().values() if all(b.tags.get(k) == v for k, v in wanted.items())]
    if not fitting:
        known = sorted({f"{k}={v}" for b in boards().values() for k, v in b.tags.items()})
        raise BadAddress(
            f"-b {text}: no board with these tags; known tags: {', '.join(known) or 'none (no boards.toml found)'}"
        )
    return _driven(fitting, text)


def _driven(fitting: list[InventoryEntry], text: str) -> list[str]:
    """Returns the addresses of the boards whose runtime is qvrt. Raises BadAddress if there is none: running qvrt on
    the others is not what was asked for."""
    addresses = [_with(b.address, text) for b in fitting if not b.foreign]
    if not addresses:
        board = fitting[0]
        raise BadAddress(
            f"{board.file}: [boards.{board.name}] {board.foreign}: the runtimes are {', '.join((OURS, *RUNTIMES))}. "
            f"Next: leave the key out to use {OURS}"
        )
    return addresses


def _with(address: str, text: str) -> str:
    """Returns the address with the options that -b gives after the name; these override the address's own."""
    query = text.partition("?")[2]
    return merged(address, parse(f"local?{query}").options) if query else address
