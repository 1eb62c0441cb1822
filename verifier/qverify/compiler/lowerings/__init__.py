"""Lowerings: one page per op of model.bin, which turns ONNX nodes into that op. The file name is the op's stem.

A page defines ONNX_TYPES (the ONNX types it lowers, each with the attributes it reads: see attributes.py) and at least
one of these functions:
  match(view, node, y, act) -> LoweredUnit | None
      lowers a float operator whose result is quantized to y
  match_float(view, node) -> LoweredUnit | None
      lowers the same operator on quantized operands with a float output
  match_region(view, output, y) -> LoweredUnit | None
      lowers a float tensor, quantized to y, that no `match` or `move` accepted
  move(builder, view, node, source, outputs)
      lowers a node that copies or selects elements of any dtype, with input and output quantized alike; the page also
      has moves(node) -> bool if only some nodes of the type do so
  lower_float(stream, node)
      lowers a node on tensors that are not quantized
A function that returns None does not accept the node.

Instead, or in addition, it defines OPERATORS (types on integers such as QLinearConv, with the attributes read) and
from_operator(view, node) -> LoweredUnit.

Optional constants of a page:
  EIGHT_BIT_KERNELS  types of a `move` that onnxruntime runs on 8-bit tensors directly
  INTEGERS_TOO       types of a `lower_float` to the integer types that they also support
  SEVERAL_OUTPUTS    True if outputs after the first may be used

The node before a QuantizeLinear is offered to `match`, then `move`, then `match_region`. A node that none of them
accepts is offered to `match_float`, then `move`, then `lower_float`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any

from qverify.ops import stems
from qverify.pages import load_pages

Read = Mapping[str, frozenset[Any] | None]  # attribute to the supported values, None for every value
ENTRY_POINTS = ("match", "match_float", "match_region", "move", "lower_float")


@dataclass(slots=True)
class Lowerings:
    """The entry points of all pages.

    Attributes:
        match, match_float, move, lower_float, operators: ONNX type to the page with this entry point (for operators:
            from_operator).
        regions: the match_region functions, in the order of their files.
        read: ONNX type to the attributes that are read.
        several_outputs: ONNX types of which outputs after the first may be used.
    """

    match: dict[str, ModuleType] = field(default_factory=dict)
    match_float: dict[str, ModuleType] = field(default_factory=dict)
    move: dict[str, ModuleType] = field(default_factory=dict)
    lower_float: dict[str, ModuleType] = field(default_factory=dict)
    operators: dict[str, ModuleType] = field(default_factory=dict)
    regions: list[Callable[..., Any]] = field(default_factory=list)
    read: dict[str, Read] = field(default_factory=dict)
    several_outputs: set[str] = field(default_factory=set)

    def moves(self, node: Any) -> bool:
        """Returns whether a page's `move` accepts this node."""
        page = self.move.get(node.op_type)
        return page is not None and (not hasattr(page, "moves") or bool(page.moves(node)))


@cache
def lowerings() -> Lowerings:
    """Loads all pages of this folder and returns their entry points. Raises ImportError that names the file of an
    invalid page."""
    all_pages = Lowerings()
    for page in load_pages(__name__, ()):
        stem = page.__name__.rpartition(".")[2]
        _check(page, stem)
        types, operators = getattr(page, "ONNX_TYPES", {}), getattr(page, "OPERATORS", {})
        for entry_point, by_type in (
            ("match", all_pages.match),
            ("match_float", all_pages.match_float),
            ("move", all_pages.move),
            ("lower_float", all_pages.lower_float),
        ):
            if hasattr(page, entry_point):
                _add(by_type, types, page, entry_point)
        _add(all_pages.operators, operators, page, "from_operator")
        if hasattr(page, "match_region"):
            all_pages.regions.append(page.match_region)
        if getattr(page, "SEVERAL_OUTPUTS", False):
            all_pages.several_outputs |= set(types)
        for kind, read in {**types, **operators}.items():
            if all_pages.read.setdefault(kind, read) != read:
                raise ImportError(
                    f"{_file(stem)}: reads other attributes of {kind} than another page does; wanted the same row for both"
                )
    return all_pages


def _add(by_type: dict[str, ModuleType], types: Mapping[str, Read], page: ModuleType, entry_point: str) -> None:
    """Registers the page for these types. Raises ImportError if another page has one of them."""
    for kind in types:
        if kind in by_type:
            first, second = (p.__name__.rpartition(".")[2] for p in (by_type[kind], page))
            raise ImportError(
                f"{_file(second)}: {entry_point} of {kind} is already in {_file(first)}; wanted one page per type and way"
            )
        by_type[kind] = page


def _file(stem: str) -> str:
    """Returns the path of a page for messages."""
    return f"compiler/lowerings/{stem}.py"


def _check(page: ModuleType, stem: str) -> None:
    """Raises ImportError if the page lacks a part."""
    if stem not in stems():
        raise ImportError(f"{_file(stem)}: no op has this stem; the page of an op is qverify/ops/{stem}.py")
    types, operators = getattr(page, "ONNX_TYPES", {}), getattr(page, "OPERATORS", {})
    for name, table in (("ONNX_TYPES", types), ("OPERATORS", operators)):
        if not isinstance(table, dict) or not all(isinstance(v, dict) for v in table.values()):
            raise ImportError(
                f"{_file(stem)}: {name} is not a dict of ONNX types, each a dict of the attributes it reads"
            )
    if not types and not operators:
        raise ImportError(f"{_file(stem)}: no ONNX_TYPES; wanted the ONNX types it lowers")
    if types and not any(callable(getattr(page, entry_point, None)) for entry_point in ENTRY_POINTS):
        raise ImportError(f"{_file(stem)}: none of {', '.join(ENTRY_POINTS)}; wanted at least one")
    if bool(operators) != callable(getattr(page, "from_operator", None)):
        raise ImportError(f"{_file(stem)}: OPERATORS and from_operator belong together; one of them is missing")
