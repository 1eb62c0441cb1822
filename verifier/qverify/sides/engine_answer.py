"""The answer of an engine's driver (agents/qverify_drivers/drive.py): what it ran on, beside the tensors."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from qverify.errors import BadFileError
from qverify.files import parse_json, read_regular
from qverify.printable import printable
from qverify.tensors.placement import Placement

MAX_BYTES = 1 << 24
MAX_TEXT = 500  # characters of each text
MAX_ITEMS = 100_000  # nodes, names, lines


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """The statements of an engine about a run.

    Attributes:
        engine, version: for the report.
        ledger: versions of what took part, by name.
        placement: where each node ran, in the order of execution; () if the engine does not say.
        notes: lines for the report.
    """

    engine: str
    version: str
    ledger: dict[str, str] = field(default_factory=dict)
    placement: tuple[Placement, ...] = ()
    notes: tuple[str, ...] = ()


def take_answer(name: str, folder: str) -> EngineAnswer | None:
    """Removes the file of the answer from the folder and returns its content; None if name is "". Raises BadFileError if
    it is missing or damaged."""
    if not name:
        return None
    path = os.path.join(folder, name)
    if not os.path.lexists(path):
        raise BadFileError(f"it wrote no {name}; wanted one beside its tensors")
    if (size := os.lstat(path).st_size) > MAX_BYTES:
        raise BadFileError(f"{name}: {size} bytes; wanted at most {MAX_BYTES}")
    content = parse_json(read_regular(path, MAX_BYTES), name)
    os.remove(path)
    if not isinstance(content, dict):
        raise BadFileError(f"{name}: got {type(content).__name__}; wanted an object")
    return EngineAnswer(
        _text(content.get("engine")),
        _text(content.get("version")),
        {_text(k): _text(v) for k, v in _table(content.get("ledger"), name, "ledger").items()},
        tuple(_placement(item, name) for item in _items(content.get("placement"), name, "placement")),
        tuple(_text(n) for n in _items(content.get("notes"), name, "notes")),
    )


def _placement(item: Any, name: str) -> Placement:
    item = _table(item, name, "an item of placement")
    node, op, on, kernel = (_text(item.get(key, "")) for key in ("node", "op", "on", "kernel"))
    return Placement(node, op, on, kernel, item.get("fallback") is True)


def _text(value: Any) -> str:
    return printable(str(value))[:MAX_TEXT]


def _table(value: Any, name: str, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadFileError(f"{name}: {key}: got {_kind(value)}; wanted an object")
    return value


def _items(value: Any, name: str, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadFileError(f"{name}: {key}: got {_kind(value)}; wanted a list")
    if len(value) > MAX_ITEMS:
        raise BadFileError(f"{name}: {key}: got {len(value)} items; wanted at most {MAX_ITEMS}")
    return value


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__
