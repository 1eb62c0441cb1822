"""The inventory: boards and engines by name, from the boards.toml of the project, the user and the system. The nearer file
takes precedence."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from qverify_agents.address import WRAPPERS, Address, add_options, parse
from qverify_agents.errors import BadAddress
from qverify_agents.schemes import BOARDS, LINKS
from qverify_agents.this_user import home
from qverify_agents.worker import OPTIONS as WORKER_OPTIONS
from qverify_agents.worker import RUNTIMES

if TYPE_CHECKING:
    from qverify_agents.inventory_tables import BrokenEntry, InventoryEntry, OptionPairs

# Keys with command lines of this host; power is the earlier name of power_cycle.
HOST_COMMANDS = ("reset", "power_cycle", "power")
KEYS = {"uri", "tags", "runner", "profile", *HOST_COMMANDS, "reset_wait", "host_key", "user", "cache", "arch"} | {
    "arithmetic",
    *WORKER_OPTIONS,
}
QVRT, ANY_RUNTIME = "qvrt", "any"
PROJECT_FILE = Path("boards.toml")  # in the current folder, which may be a clone of somebody else's repository


def inventory_files() -> list[Path]:
    """Returns the paths of the inventory files, nearest first: that of QVERIFY_BOARDS alone, or the project's, the
    user's and the system's, which need not exist. Raises BadAddress if QVERIFY_BOARDS names no file."""
    if named_file := os.environ.get("QVERIFY_BOARDS"):
        if not Path(named_file).is_file():
            raise BadAddress(f"QVERIFY_BOARDS={named_file}: no such file")
        return [Path(named_file)]
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home() / ".config")
    return [PROJECT_FILE, config / "qverify" / "boards.toml", Path("/etc/qverify/boards.toml")]


def read_boards() -> dict[str, InventoryEntry]:
    """Returns the usable boards by name, without the entries of read_broken_entries(). Raises BadAddress for a file
    that cannot be read."""
    from qverify_agents.inventory_tables import InventoryEntry

    return {name: entry for name, entry in _read_entries().items() if isinstance(entry, InventoryEntry)}


def read_broken_entries() -> dict[str, BadAddress]:
    """Returns the error of each entry that cannot be used, by name."""
    from qverify_agents.inventory_tables import BrokenEntry

    return {name: entry.error for name, entry in _read_entries().items() if isinstance(entry, BrokenEntry)}


def suggest_board(text: str) -> str:
    """Returns the name, of the inventory or `local`, that is most similar to a misspelt one, or "" if none is."""
    return next(iter(get_close_matches(text, ["local", *read_boards()], 1)), "")


def _read_entries() -> dict[str, InventoryEntry | BrokenEntry]:
    """Returns every entry by name. The entry of the nearer file takes precedence, even if it cannot be used."""
    entries: dict[str, InventoryEntry | BrokenEntry] = {}
    for path in inventory_files():
        for name, board in _read_file(path).boards.items():
            entries.setdefault(name, board)
    return entries


def read_engines() -> dict[str, OptionPairs | BadAddress]:
    """Returns the engines [engines.NAME] by name: their (key, value) pairs, the first of which is the runtime, or why the entry
    of the nearest file cannot be used. Raises BadAddress for a file that cannot be read."""
    engines: dict[str, OptionPairs | BadAddress] = {}
    for path in inventory_files():
        for name, engine in _read_file(path).engines.items():
            engines.setdefault(name, engine)
    return engines


def find_engine(name: str) -> OptionPairs:
    """Returns the pairs of the engine of this name, () if the inventory has none. Raises BadAddress for an entry that
    cannot be used."""
    found = read_engines().get(name, ())
    if isinstance(found, BadAddress):
        raise found
    return found


def resolve_wrapped(text: str) -> str:
    """Returns the address of a wrapped board, such as `desk` in `finals:desk`; the first one if tags match several
    boards. Raises BadAddress for a board of the inventory that wraps itself."""
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


@dataclass(frozen=True, slots=True)
class _Inventory:
    """The entries of one file, by name."""

    boards: Mapping[str, InventoryEntry | BrokenEntry] = field(default_factory=dict)
    engines: Mapping[str, OptionPairs | BadAddress] = field(default_factory=dict)


def _read_file(path: Path) -> _Inventory:
    if not path.is_file():
        return _Inventory()
    try:
        return _parse_text(path, path.read_text(encoding="utf-8"), bool(os.environ.get("QVERIFY_BOARDS")))
    except (OSError, UnicodeDecodeError) as error:
        raise BadAddress(f"{path}: {error}") from error


@lru_cache(maxsize=8)
def _parse_text(path: Path, text: str, is_named: bool) -> _Inventory:
    """Returns the entries in the text of a file; cached, because a farm needs them for every job. is_named: whether
    QVERIFY_BOARDS names the file."""
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadAddress(f"{path}: {error}") from error
    boards, engines = content.get("boards", {}), content.get("engines", {})
    if not isinstance(boards, dict) or not isinstance(engines, dict) or content.keys() - {"boards", "engines"}:
        raise BadAddress(f"{path}: wanted tables [boards.NAME] and [engines.NAME], and nothing else")
    return _Inventory(
        {name: _parse_entry(path, name, table, is_named) for name, table in boards.items()},
        {name: _parse_engine_entry(path, name, table, is_named) for name, table in engines.items()},
    )


def _parse_engine_entry(path: Path, name: str, table: object, is_named: bool) -> OptionPairs | BadAddress:
    """Returns the pairs of a table [engines.NAME], or the entry's error."""
    from qverify_agents.inventory_tables import parse_engine

    where = f"{path}: [engines.{name}]"
    try:
        pairs = parse_engine(where, name, table)
    except BadAddress as error:
        return error
    return pairs if _is_trusted(path, is_named) else _untrusted(path, where, "the engine")


def _is_trusted(path: Path, is_named: bool) -> bool:
    return path != PROJECT_FILE or is_named


def _untrusted(path: Path, where: str, culprit: str) -> BadAddress:
    return BadAddress(
        f"{where}: {culprit} would run commands that this folder chooses. "
        f"Next: move the entry to ~/.config/qverify/boards.toml, or name this file by QVERIFY_BOARDS={path}"
    )


def _parse_entry(path: Path, name: str, table: object, is_named: bool) -> InventoryEntry | BrokenEntry:
    """Returns the board that a table describes, or the entry's error: a wrong entry does not block the others."""
    from qverify_agents.inventory_tables import BrokenEntry

    try:
        if name in BOARDS or name in LINKS or not re.fullmatch(r"[\w.-]+", name):
            raise BadAddress(
                f"{path}: [boards.{name}]: wanted a name of letters, digits, . _ and - that is not a kind of board"
            )
        return _parse_board(path, name, table, is_named)
    except BadAddress as error:
        tags = table.get("tags") if isinstance(table, dict) else None
        return BrokenEntry(error, tags if isinstance(tags, dict) else {})


def _parse_board(path: Path, name: str, table: object, is_named: bool) -> InventoryEntry:
    from qverify_agents.inventory_tables import (
        RESET_WAIT_S,
        InventoryEntry,
        parse_reset_wait,
        quote_value,
        require_text,
    )

    where = f"{path}: [boards.{name}]"
    if not isinstance(table, dict):
        raise BadAddress(f"{path}: boards.{name} = {quote_value(table)}: wanted a table [boards.{name}]")
    if unknown := table.keys() - KEYS:
        raise BadAddress(f"{where}: unknown key {min(unknown)!r}; known: {', '.join(sorted(KEYS))}")
    if "uri" not in table:
        raise BadAddress(f'{where}: no uri; wanted uri = "...", an address as for -b')
    tags = table.get("tags", {})
    if not isinstance(tags, dict):
        raise BadAddress(f'{where} tags = {quote_value(tags)}: wanted a table, as {{ soc = "j5" }}')
    wait = table.get("reset_wait")
    if isinstance(wait, int | float) and not isinstance(wait, bool):
        table = {**table, "reset_wait": f"{wait:.6f}" if isinstance(wait, float) else str(wait)}
    text = {key: require_text(where, key, value) for key, value in table.items() if key not in ("tags", "runner")}
    tags = {key: require_text(where, f"tags.{key}", value) for key, value in tags.items()}
    options = {key: text[key] for key in ("host_key", "user", "cache", "arch", *sorted(WORKER_OPTIONS)) if key in text}
    runner = _parse_runner(where, table["runner"]) if "runner" in table else ()
    if options.get("runtime", QVRT) not in (QVRT, *RUNTIMES):
        runner = (("runtime", text["runtime"]), *runner)
    if options.get("runtime") not in RUNTIMES:
        options.pop("runtime", None)
    if runner and "profile" in text:
        runner = (*runner, ("profile", text["profile"]))
    foreign = next(
        (f'{key} = "{text[key]}"' for key in ("profile", "runtime") if text.get(key, QVRT) not in (QVRT, *RUNTIMES)), ""
    )
    foreign = f"runner = {quote_value(table['runner'])}" if "runner" in table else foreign
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
        parse_reset_wait(where, text.get("reset_wait", str(RESET_WAIT_S))),
        _find_file(path, text.get("arithmetic", "")),
    )
    try:
        address = parse(board.address)
    except BadAddress as error:
        raise BadAddress(f"{where}: {error}") from error
    if not _is_trusted(path, is_named) and (
        culprit := "runner"
        if runner
        else _runs_commands(address) or next((key for key in HOST_COMMANDS if key in text), "")
    ):
        raise _untrusted(path, where, culprit)
    return board


def _runs_commands(address: Address) -> str:
    """Returns the part of an address that makes this host run a program that the address names, or ""."""
    if address.scheme == "exec":
        return "exec:"
    risky_options = [name for name in ("ssh_config", "python", "labgrid_python", "delegate") if name in address.options]
    is_own_program = address.options.get("runtime", RUNTIMES[0]) not in RUNTIMES
    return risky_options[0] if risky_options else "runtime" if is_own_program else ""


def _find_file(path: Path, text: str) -> str:
    """Returns the path of a file that is named from the inventory's folder, or the text itself if there is none."""
    named = path.parent / text
    return str(named) if text and named.is_file() else text


def _parse_runner(where: str, value: object) -> OptionPairs:
    """Returns the (key, value) pairs of runner = "COMMAND LINE", or of a table [boards.NAME.runner]."""
    from qverify_agents.inventory_tables import parse_options, require_text

    if isinstance(value, dict):
        return parse_options(where, value, "runner.")
    return (("command", require_text(where, "runner", value)),)


def resolve(text: str, runs: str = QVRT) -> list[str]:
    """Returns the addresses that a text given with -b may mean, best first. It is a name of the inventory,
    `tag=value[,tag=value]`, or an address itself. runs: QVRT, or ANY_RUNTIME if the caller can drive a board with any
    runtime. Raises BadAddress if no board has the tags, or none of these has such a runtime."""
    matches = _match_boards(text)
    return [text] if matches is None else _select_addresses(matches, text, runs)


def find_runner(text: str) -> tuple[str, OptionPairs]:
    """Returns the place of the inventory entry that -b names, for messages, and its `runner`, () for a board that runs
    qvrt; ("", ()) for an address. Raises BadAddress if tags match boards with different runners."""
    matches = _match_boards(text) or []
    runners = {b.runner for b in matches}
    if len(runners) > 1:
        names = ", ".join(b.name for b in matches)
        raise BadAddress(f"-b {text}: boards that are run in different ways: {names}. Next: name one")
    return (f"{matches[0].file}: [boards.{matches[0].name}]", matches[0].runner) if matches else ("", ())


def find_arithmetic(text: str) -> tuple[str, dict[str, str]]:
    """Returns the `arithmetic` of the inventory entry that -b names, "" without one, and the entry's tags. Raises
    BadAddress if tags match boards with different ones."""
    matches = _match_boards(text) or []
    if len({b.arithmetic for b in matches}) > 1:
        names = ", ".join(b.name for b in matches)
        raise BadAddress(f"-b {text}: boards with different arithmetics: {names}. Next: name one")
    return (matches[0].arithmetic, matches[0].tags) if matches else ("", {})


def find_entry(text: str) -> InventoryEntry | None:
    """Returns the board of the inventory that -b names, or None for an address and for tags that match several
    boards."""
    matches = _match_boards(text) or []
    return matches[0] if len(matches) == 1 else None


def _match_boards(text: str) -> list[InventoryEntry] | None:
    """Returns the boards of the inventory that -b names, or None for an address. Raises BadAddress if no board has the
    tags, or if a matching entry cannot be used."""
    from qverify_agents.inventory_tables import BrokenEntry

    head = text.partition("?")[0]
    if "=" not in head:
        board = _read_entries().get(head)
        if isinstance(board, BrokenEntry):
            raise board.error
        return None if board is None else [board]
    if "://" in head or head.partition(":")[2].startswith("/") or head.partition(":")[0] in BOARDS:
        return None
    wanted_tags = dict(part.partition("=")[::2] for part in head.split(","))
    for entry in _read_entries().values():
        if isinstance(entry, BrokenEntry) and all(entry.tags.get(k) == v for k, v in wanted_tags.items()):
            raise entry.error
    matches = [b for b in read_boards().values() if all(b.tags.get(k) == v for k, v in wanted_tags.items())]
    if not matches:
        known_tags = sorted({f"{k}={v}" for b in read_boards().values() for k, v in b.tags.items()})
        raise BadAddress(
            f"-b {text}: no board with these tags; known tags: {', '.join(known_tags) or 'none (no boards.toml found)'}"
        )
    return matches


def _select_addresses(matches: list[InventoryEntry], text: str, runs: str) -> list[str]:
    """Returns the addresses of those boards whose runtime the caller can drive. Raises BadAddress if there are none: to
    run qvrt on such a board is not what its owner configured."""
    addresses = [_override_options(b.address, text) for b in matches if runs == ANY_RUNTIME or not b.foreign]
    if not addresses:
        board = matches[0]
        drives = "this command drives" if board.runner else "this version supports"
        raise BadAddress(
            f"{board.file}: [boards.{board.name}] {board.foreign}: {drives} {', '.join((QVRT, *RUNTIMES))} alone. "
            f"Next: leave the key out to use {QVRT}"
        )
    return addresses


def _override_options(address: str, text: str) -> str:
    """Returns the address with the options that follow the name in `text`; they override those of the address."""
    query = text.partition("?")[2]
    return add_options(address, parse(f"local?{query}").options) if query else address
