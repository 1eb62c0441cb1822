"""boards.toml: boards by name, of the project, the user and the system; the nearer file takes precedence."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from qverify_agents.address import WRAPPERS, Address, merged, parse
from qverify_agents.errors import BadAddress
from qverify_agents.schemes import BOARDS, LINKS
from qverify_agents.this_user import home
from qverify_agents.worker import OPTIONS as WORKER_OPTIONS
from qverify_agents.worker import RUNTIMES

HOST_COMMANDS = ("reset", "power_cycle", "power")  # command lines of this host; power: the earlier name of power_cycle
KEYS = {"uri", "tags", "runner", "profile", *HOST_COMMANDS, "reset_wait", "host_key", "user", "cache", "arch"} | set(
    WORKER_OPTIONS
)
OURS, ANY = "qvrt", "any"
RESET_WAIT_S, MOST_WAIT_S = 60.0, 3600.0
RunnerWords = tuple[tuple[str, str], ...]
PROJECT = Path("boards.toml")  # of the current folder, which may be a clone of somebody else's repository


@dataclass(frozen=True, slots=True)
class InventoryEntry:
    """One [boards.NAME] table. uri: an address as for -b. tags: soc, firmware ... power, reset: command lines of this
    host; power is also written power_cycle. reset_wait_s: how long the board may take to answer after one. foreign: the key and value that name another runtime than qvrt, "" where there is none. runner: how that one is
    run, as pairs of a key and a value; a table's value is NAME=VALUE, a pair for each."""

    name: str
    uri: str
    file: str
    tags: dict[str, str] = field(default_factory=dict)
    power: str = ""
    reset: str = ""
    options: dict[str, str] = field(default_factory=dict)
    foreign: str = ""
    runner: RunnerWords = ()
    reset_wait_s: float = RESET_WAIT_S

    @property
    def address(self) -> str:
        """The URI with the inventory's options."""
        more = "&".join(f"{k}={v.replace('%', '%25').replace('&', '%26')}" for k, v in self.options.items())
        return self.uri + (("&" if "?" in self.uri else "?") + more if more else "")


@dataclass(frozen=True, slots=True)
class BrokenEntry:
    """A table that is no board. tags: those that it has, as far as they can be read."""

    error: BadAddress
    tags: dict[str, object]


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
    """Returns the boards by name; entries that are wrong are left out (broken()). Raises BadAddress for a file that cannot
    be read."""
    return {name: entry for name, entry in _entries().items() if isinstance(entry, InventoryEntry)}


def broken() -> dict[str, BadAddress]:
    """Returns, by name, what is wrong with the entries that cannot be used: file, key, what was wanted."""
    return {name: entry.error for name, entry in _entries().items() if isinstance(entry, BrokenEntry)}


def nearest(text: str) -> str:
    """Returns the board, of the inventory or `local`, that a misspelt -b may have meant; "" for none."""
    return next(iter(get_close_matches(text, ["local", *boards()], 1)), "")


def _entries() -> dict[str, InventoryEntry | BrokenEntry]:
    """Returns every entry; that of the nearer file takes precedence, whether it is wrong or not."""
    entries: dict[str, InventoryEntry | BrokenEntry] = {}
    for path in files():
        if path.is_file():
            for name, board in _read(path).items():
                entries.setdefault(name, board)
    return entries


def resolve_wrapped(text: str) -> str:
    """Returns the address of a wrapped board: of `desk` in `finals:desk`; the first if tags match several. Raises
    BadAddress for a board of the inventory that wraps itself."""
    if not text:
        return "local"
    address, names = resolve(text)[0], [text.partition("?")[0]]
    inner = address
    while (outer := parse(inner)).scheme in WRAPPERS and outer.rest:
        names.append(outer.rest.partition("?")[0])
        if names[-1] in names[:-1]:
            raise BadAddress(f"boards.toml: {' wraps '.join(names)}, so it names no board")
        inner = resolve(outer.rest)[0]
    return address


def _read(path: Path) -> Mapping[str, InventoryEntry | BrokenEntry]:
    try:
        return _parsed(path, path.read_text(encoding="utf-8"), bool(os.environ.get("QVERIFY_BOARDS")))
    except (OSError, UnicodeDecodeError) as error:
        raise BadAddress(f"{path}: {error}") from error


@lru_cache(maxsize=8)
def _parsed(path: Path, text: str, named: bool) -> Mapping[str, InventoryEntry | BrokenEntry]:
    """Returns the entries of a file's text, parsed once: a farm asks for each job. named: by QVERIFY_BOARDS."""
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadAddress(f"{path}: {error}") from error
    tables = content.get("boards", {})
    if not isinstance(tables, dict) or content.keys() - {"boards"}:
        raise BadAddress(f"{path}: wanted tables [boards.NAME] and nothing else")
    return {name: _entry(path, name, table, named) for name, table in tables.items()}


def _entry(path: Path, name: str, table: object, named: bool) -> InventoryEntry | BrokenEntry:
    """Returns the board of a table, or why it is none: one entry that is wrong does not block the others."""
    try:
        if name in BOARDS or name in LINKS or not re.fullmatch(r"[\w.-]+", name):
            raise BadAddress(
                f"{path}: [boards.{name}]: wanted a name of letters, digits, . _ and - that is not a kind of board"
            )
        return _board(path, name, table, named)
    except BadAddress as error:
        tags = table.get("tags") if isinstance(table, dict) else None
        return BrokenEntry(error, tags if isinstance(tags, dict) else {})


def _board(path: Path, name: str, table: object, named: bool) -> InventoryEntry:
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
    wait = table.get("reset_wait")
    if isinstance(wait, int | float) and not isinstance(wait, bool):
        table = {**table, "reset_wait": f"{wait:.6f}" if isinstance(wait, float) else str(wait)}
    text = {k: _text(where, k, v) for k, v in table.items() if k not in ("tags", "runner")}
    tags = {k: _text(where, f"tags.{k}", v) for k, v in tags.items()}
    options = {k: text[k] for k in ("host_key", "user", "cache", "arch", *sorted(WORKER_OPTIONS)) if k in text}
    runner = _runner(where, table["runner"]) if "runner" in table else ()
    if options.get("runtime", OURS) not in (OURS, *RUNTIMES):
        runner = (("runtime", text["runtime"]), *runner)
    if options.get("runtime") not in RUNTIMES:
        options.pop("runtime", None)
    if runner and "profile" in text:
        runner = (*runner, ("profile", text["profile"]))
    foreign = next(
        (f'{k} = "{text[k]}"' for k in ("profile", "runtime") if text.get(k, OURS) not in (OURS, *RUNTIMES)), ""
    )
    foreign = f"runner = {_shown(table['runner'])}" if "runner" in table else foreign
    board = InventoryEntry(
        name,
        text["uri"],
        str(path),
        tags,
        text.get("power_cycle", text.get("power", "")),
        text.get("reset", ""),
        options,
        foreign,
        runner,
        _wait_s(where, text.get("reset_wait", str(RESET_WAIT_S))),
    )
    try:
        address = parse(board.address)
    except BadAddress as error:
        raise BadAddress(f"{where}: {error}") from error
    trusted = path != PROJECT or named
    if not trusted and (
        by := "runner" if runner else _runs_commands(address) or next((k for k in HOST_COMMANDS if k in text), "")
    ):
        raise BadAddress(
            f"{where}: {by} would run commands that this folder chooses. "
            f"Next: move the entry to ~/.config/qverify/boards.toml, or name this file by QVERIFY_BOARDS={path}"
        )
    return board


def _runs_commands(address: Address) -> str:
    """Returns what in an address makes this host run a program of its choice, "" where nothing does."""
    if address.scheme == "exec":
        return "exec:"
    named = [k for k in ("ssh_config", "python", "labgrid_python", "delegate") if k in address.options]
    own = address.options.get("runtime", RUNTIMES[0]) not in RUNTIMES
    return named[0] if named else "runtime" if own else ""


def _wait_s(where: str, text: str) -> float:
    """Returns the seconds of reset_wait."""
    seconds = float(text) if re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text) else -1.0
    if not 0 < seconds <= MOST_WAIT_S:
        raise BadAddress(f"{where} reset_wait = {_shown(text)}: wanted seconds above 0, at most {MOST_WAIT_S:g}")
    return seconds


def _runner(where: str, value: object) -> RunnerWords:
    """Returns the pairs of runner = "COMMAND LINE", or of a table [boards.NAME.runner]."""
    if not isinstance(value, dict):
        return (("command", _text(where, "runner", value)),)
    pairs: list[tuple[str, str]] = []
    for key, content in value.items():
        if isinstance(content, dict):
            pairs += [(key, f"{name}={_text(where, f'runner.{key}.{name}', one)}") for name, one in content.items()]
        else:
            pairs.append((key, _text(where, f"runner.{key}", content)))
    return tuple(pairs)


def _text(where: str, key: str, value: object) -> str:
    if isinstance(value, str) and value.strip():
        return value
    hint = f', as "{value}"' if isinstance(value, int | float) and not isinstance(value, bool) else ""
    raise BadAddress(f"{where} {key} = {_shown(value)}: wanted a text in quotes{hint or ' that is not empty'}")


def _shown(value: object) -> str:
    """Returns the value about as TOML writes it, at most 80 characters."""
    return json.dumps(value, default=str)[:80]


def resolve(text: str, runs: str = OURS) -> list[str]:
    """Returns the addresses -b may mean, best first: a name of the inventory, `tag=value[,tag=value]`, or the text
    itself. runs: qvrt, or ANY where the caller drives whatever runs there. Raises BadAddress if the tags match no
    board, or none that runs this."""
    fitting = _fitting(text)
    return [text] if fitting is None else _driven(fitting, text, runs)


def runner_of(text: str) -> tuple[str, RunnerWords]:
    """Returns where it is written how the board that -b names is run, and how; () for one that runs qvrt. Raises BadAddress if tags match boards
    that are run in different ways."""
    fitting = _fitting(text) or []
    ways = {b.runner for b in fitting}
    if len(ways) > 1:
        names = ", ".join(b.name for b in fitting)
        raise BadAddress(f"-b {text}: boards that are run in different ways: {names}. Next: name one")
    return (f"{fitting[0].file}: [boards.{fitting[0].name}]", fitting[0].runner) if fitting else ("", ())


def entry_of(text: str) -> InventoryEntry | None:
    """Returns the only board of the inventory that -b names; None for an address, and for tags of several boards."""
    fitting = _fitting(text) or []
    return fitting[0] if len(fitting) == 1 else None


def _fitting(text: str) -> list[InventoryEntry] | None:
    """Returns the boards of the inventory that -b names, None where it is an address. Raises BadAddress if tags match
    none."""
    head = text.partition("?")[0]
    if "=" not in head:
        board = _entries().get(head)
        if isinstance(board, BrokenEntry):
            raise board.error
        return None if board is None else [board]
    if "://" in head or head.partition(":")[2].startswith("/") or head.partition(":")[0] in BOARDS:
        return None
    wanted = dict(part.partition("=")[::2] for part in head.split(","))
    for entry in _entries().values():
        if isinstance(entry, BrokenEntry) and all(entry.tags.get(k) == v for k, v in wanted.items()):
            raise entry.error
    fitting = [b for b in boards().values() if all(b.tags.get(k) == v for k, v in wanted.items())]
    if not fitting:
        known = sorted({f"{k}={v}" for b in boards().values() for k, v in b.tags.items()})
        raise BadAddress(
            f"-b {text}: no board with these tags; known tags: {', '.join(known) or 'none (no boards.toml found)'}"
        )
    return fitting


def _driven(fitting: list[InventoryEntry], text: str, runs: str) -> list[str]:
    """Returns the addresses of the boards that run this. Raises BadAddress if there is none: running qvrt on the others
    is not what was asked for."""
    addresses = [_with(b.address, text) for b in fitting if runs == ANY or not b.foreign]
    if not addresses:
        board = fitting[0]
        drives = "this command drives" if board.runner else "this version supports"
        raise BadAddress(
            f"{board.file}: [boards.{board.name}] {board.foreign}: {drives} {', '.join((OURS, *RUNTIMES))} alone. "
            f"Next: leave the key out to use {OURS}"
        )
    return addresses


def _with(address: str, text: str) -> str:
    """Returns the address with the options that -b gives after the name; these override the address's own."""
    query = text.partition("?")[2]
    return merged(address, parse(f"local?{query}").options) if query else address
