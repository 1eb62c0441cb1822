"""Finds functions of the stored integers of one or two 8-bit tensors, or of sums of one, which an ONNX computes as a
Gather from a constant table of 256 or 65536 elements, and writes them as lookup."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from qverify.arithmetic import float32
from qverify.arithmetic.rounding_rules import RULES
from qverify.compiler.builder import Builder
from qverify.compiler.lowerings.reduce_mean import reduced_axes
from qverify.compiler.unit import Array, LoweredUnit
from qverify.onnx_model.graph_view import GraphView, QuantizedTensor, attributes
from qverify.tensors.spec import TensorSpec

BYTES = ("int8", "uint8")
EVERY, PAIRS = 256, 65536
Operand = tuple[str | Array, tuple[str, ...]]  # a tensor or a constant, and the nodes that lead to it
HALF_EVEN = RULES.index("half even")


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A Gather whose indices count the stored values of its operands from the lowest.

    operands: one or two tensors of the same 8-bit type, or a constant. axes: the axes of one along which it is added, a bit
    for each; 0 for none. covers: the nodes that it stands for. table: its elements."""

    operands: tuple[str | Array, ...]
    covers: tuple[str, ...]
    table: Array
    axes: int = 0


def find_table(view: GraphView, node: Any) -> StoredTable | None:
    """Returns the table of a Gather, or None if it is not one of stored integers."""
    table = view.constants.get(node.input[0])
    if node.op_type != "Gather" or table is None or table.ndim != 1 or table.size not in (EVERY, PAIRS):
        return None
    if attributes(node).get("axis", 0) not in (0, -1):
        return None
    found = _find_place(view, node.input[1])
    if found is not None and table.size == (EVERY if _dtype(view, found[0]) in BYTES else PAIRS):
        operand, names = found
        return StoredTable((operand,), (*names, node.name), table)
    if table.size == PAIRS and found is None:
        return _find_pairs(view, node, table) or _find_sum(view, node, table)
    return None


def _find_sum(view: GraphView, node: Any, table: Array) -> StoredTable | None:
    """Returns the table of the sums of stored uint8 along axes."""
    total = view.producer.get(node.input[1])
    wide = None if total is None or total.op_type != "ReduceSum" else view.producer.get(total.input[0])
    if total is None or wide is None or wide.op_type != "Cast" or view.dtype(wide.input[0]) != "uint8":
        return None
    shape = view.shape(wide.input[0])
    axes = reduced_axes(view, total, len(shape))
    if prod(shape[a] for a in axes) * (EVERY - 1) >= PAIRS:
        return None
    return StoredTable((wide.input[0],), (wide.name, total.name, node.name), table, sum(1 << a for a in axes))


def _find_pairs(view: GraphView, node: Any, table: Array) -> StoredTable | None:
    """Returns the table of two operands, of which the first is multiplied by 256."""
    total = view.producer.get(node.input[1])
    if total is None or total.op_type != "Add":
        return None
    first: Operand | None = _find_first(view, total.input[0])
    second: Operand | None = _find_place(view, total.input[1])
    if first is None and second is not None:
        first = _find_constant(view, total.input[0], _dtype(view, second[0]), EVERY)
    elif second is None and first is not None:
        second = _find_constant(view, total.input[1], _dtype(view, first[0]), 1)
    if first is None or second is None:
        return None
    if _dtype(view, first[0]) != _dtype(view, second[0]) or _dtype(view, first[0]) not in BYTES:
        return None
    covers = dict.fromkeys((*first[1], *second[1], total.name, node.name))
    return StoredTable((first[0], second[0]), tuple(covers), table)


def _dtype(view: GraphView, operand: str | Array) -> str:
    return view.dtype(operand) if isinstance(operand, str) else str(operand.dtype)


def _find_first(view: GraphView, name: str) -> Operand | None:
    """Returns the first operand, whose place is multiplied by 256, and the nodes between."""
    product = view.producer.get(name)
    if product is None or product.op_type != "Mul" or not _is_number(view, product.input[1], EVERY):
        return None
    found = _find_place(view, product.input[0])
    return None if found is None else (found[0], (*found[1], product.name))


def _find_constant(view: GraphView, name: str, dtype: str, factor: int) -> Operand | None:
    """Returns the stored values whose places, times a factor, a constant has."""
    value, low = view.constants.get(name), int(np.iinfo(dtype).min)
    if (
        value is None
        or value.dtype != np.int32
        or value.min() < 0
        or (value % factor).any()
        or value.max() >= EVERY * factor
    ):
        return None
    return (value // factor + low).astype(dtype), ()


def _is_number(view: GraphView, name: str, number: int) -> bool:
    value = view.constants.get(name)
    return value is not None and value.size == 1 and value.reshape(-1)[0] == number


def _find_place(view: GraphView, name: str) -> Operand | None:
    """Returns the tensor of 8 bits, or of int16, whose stored values, counted from the lowest, an int32 tensor has, and the nodes between;
    None if there is none."""
    node, names = view.producer.get(name), list[str]()
    added = 0
    if node is not None and node.op_type == "Add":
        value = view.constants.get(node.input[1])
        if value is None or value.size != 1:
            return None
        added = int(value.reshape(-1)[0])
        names.append(node.name)
        node = view.producer.get(node.input[0])
    if node is None or node.op_type != "Cast" or view.dtype(node.input[0]) not in (*BYTES, "int16"):
        return None
    lowest = int(np.iinfo(view.dtype(node.input[0])).min)
    return (node.input[0], (node.name, *names)) if added == -lowest else None


def quantized_unit(view: GraphView, node: Any, y: QuantizedTensor) -> LoweredUnit | None:
    """Returns the unit of a Gather from a table of reals whose result is quantized to y, or None."""
    found = find_table(view, node)
    if found is None or found.table.dtype != np.float32 or len(y.scale) > 1:
        return None
    stored = float32.quantize(found.table, y.scale, y.zero_point.astype(np.int64), y.dtype)
    spec = y.spec(y.name, view.shape(y.name))
    return LoweredUnit(y.name, lambda b: _write(b, view, found, stored, spec), covers=found.covers)


def plain_unit(view: GraphView, node: Any) -> LoweredUnit | None:
    """Returns the unit of a Gather from a table of another type, or None."""
    found, name = find_table(view, node), node.output[0]
    if found is None or found.table.dtype not in (np.bool_, np.int8, np.uint8):
        return None
    spec = TensorSpec(name, str(found.table.dtype), view.shape(name))
    return LoweredUnit(name, lambda b: _write(b, view, found, found.table, spec), covers=found.covers)


def _write(builder: Builder, view: GraphView, found: StoredTable, stored: Array, spec: TensorSpec) -> None:
    """Appends the lookup. Of two operands, it reads the sum of 256 times the first and the second, in 16 bits."""
    names = [_declare(builder, view, operand, spec.name) for operand in found.operands]
    source = names[0] if len(names) == 1 else _write_sum(builder, names, spec)
    if found.axes:
        source = _write_sums_along(builder, source, found.axes, spec)
    table = builder.new_constant(f"{spec.name}/table", stored, TensorSpec("", str(stored.dtype), stored.shape))
    builder.tensor(spec)
    builder.node("lookup", [source, table], [spec.name])


def _declare(builder: Builder, view: GraphView, operand: str | Array, output: str) -> str:
    """Declares an operand, which may be a constant, and returns its name."""
    if isinstance(operand, str):
        return builder.tensor(TensorSpec(operand, view.dtype(operand), view.shape(operand)))
    plain = TensorSpec("", str(operand.dtype), operand.shape, scale=(1.0,), zero_point=(0,))
    return builder.new_constant(f"{output}/operand", operand, plain)


def _write_sum(builder: Builder, names: list[str], y: TensorSpec) -> str:
    """Appends the sum and returns its name. Its zero point is such that it counts both operands from the lowest stored
    value, and itself from its lowest."""
    specs = [builder.tensors[n] for n in names]
    zeros = [s.zero_point[0] if s.zero_point else 0 for s in specs]
    lowest = int(np.iinfo(specs[0].dtype).min)
    for name, spec in zip(names, specs, strict=True):
        if not spec.zero_point:  # moved only, or a constant
            builder.tensors[name] = TensorSpec(
                name, spec.dtype, spec.shape, scale=(1.0,), zero_point=(0,), layout=spec.layout
            )
    dtype = "int16" if lowest < 0 else "uint16"
    zero = (zeros[0] - lowest) * EVERY + zeros[1] - lowest + int(np.iinfo(dtype).min)
    total = f"{y.name}/preactivation"
    builder.tensor(
        TensorSpec(total, dtype, y.shape, scale=(1.0,), zero_point=(zero,), interior=True, integer_reference=False)
    )
    rq = builder.new_constant(f"{total}/rq", np.array([EVERY, 1, HALF_EVEN], np.float64))
    limits = np.iinfo(dtype)
    words = [0, int(limits.min), int(limits.max)]
    builder.node("add", [*names, rq], [total], words, (), False)
    return total


def _write_sums_along(builder: Builder, name: str, axes: int, y: TensorSpec) -> str:
    """Appends the sums of a tensor along axes, in 16 bits, and returns their name."""
    x = builder.tensors[name]
    if not x.zero_point:
        x = builder.tensors[name] = TensorSpec(name, x.dtype, x.shape, scale=(1.0,), zero_point=(0,), layout=x.layout)
    zero = prod(d for a, d in enumerate(x.shape) if axes >> a & 1) * x.zero_point[0]
    total, limits = f"{y.name}/preactivation", np.iinfo("uint16")
    builder.tensor(
        TensorSpec(total, "uint16", y.shape, scale=(1.0,), zero_point=(zero,), interior=True, integer_reference=False)
    )
    rq = builder.new_constant(f"{total}/rq", np.array([[1], [HALF_EVEN]], np.float64))
    builder.node("reduce_mean", [name, rq], [total], [axes, int(limits.min), int(limits.max)], (), False)
    return total
