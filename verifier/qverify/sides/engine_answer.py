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
    content = parse_json(read_regular(path, MAX_BYTES), name)
    os.remove(path)
    if not isinstance(content, dict):
        raise BadFileError(f"{name}: got {type(content).__name__}; wanted an object")
    return EngineAnswer(
        _text(content.get("engine")),
        _text(content.get("version")),
        {_text(k): _text(v) for k, v in _table(content.get("ledger"), name).items()},
        tuple(_placement(item, name) for item in _items(content.get("placement"), name)),
        tuple(_text(n) for n in _items(content.get("notes"), name)),
    )


def _placement(item: Any, name: str) -> Placement:
    item = _table(item, name)
    node, op, on, kernel = (_text(item.get(key, "")) for key in ("node", "op", "on", "kernel"))
    return Placement(node, op, on, kernel, item.get("fallback") is True)


def _text(value: Any) -> str:
    return printable(str(value))[:MAX_TEXT]


def _table(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadFileError(f"{name}: got {type(value).__name__}; wanted an object")
    return value


def _items(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        raise BadFileError(f"{name}: wanted a list of at most {MAX_ITEMS} items")
    return value
