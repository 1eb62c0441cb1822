"""Reads an .espdl: 16 bytes that begin with EDL2, then a FlatBuffer that is built as an ONNX is. Nothing in the file is
trusted: every index, length and size is checked before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError, UnsupportedError
from qverify.printable import printable, shortened
from qverify.vendor_quantization.espdl_parts.layouts import PREFIX
from qverify.vendor_quantization.espdl_parts.tables import DAMAGE_ERRORS, MAX_COUNT, FlatTable

Array = npt.NDArray[Any]
MAGIC, HEAD, BLOCK = b"EDL2", 16, 16
MAX_RANK, MAX_DIM, MAX_ELEMENTS = 8, 1 << 30, 2**31 - 1
MAX_EXPONENT = 126  # of a scale: 2^-126 is the least normal float32
DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 12: "uint32",
}  # fmt: skip
MODEL_GRAPH = 7  # fields of the tables, by number
NODES, GRAPH_NAME, INITIALIZERS, INPUTS, OUTPUTS, VALUES, TEST_INPUTS, TEST_OUTPUTS = 0, 1, 2, 4, 5, 6, 8, 9
NODE_INPUTS, NODE_OUTPUTS, NODE_NAME, NODE_KIND, NODE_ATTRIBUTES = 0, 1, 2, 3, 5
DIMS, TYPE, NAME, DOCUMENT, RAW, EXPONENTS = 0, 1, 6, 7, 8, 13
VALUE_NAME, VALUE_TYPE, VALUE_EXPONENTS = 0, 1, 3
ATTRIBUTE_NAME, ATTRIBUTE_TYPE, FLOAT, INTEGER, STRING, FLOATS, INTEGERS = 0, 3, 4, 5, 6, 10, 11


@dataclass(frozen=True, slots=True)
class EspdlTensor:
    """One tensor of the file.

    Attributes:
        dtype: numpy's name of the type.
        shape: its dims in the file.
        exponents: its scale is 2^exponent; several are those of the output channels. () of a tensor that is not quantized.
        data: the stored elements of a constant, one axis; None if it is computed.
        layout: how the elements of a constant lie, as the file names it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    exponents: tuple[int, ...]
    data: Array | None = None
    layout: str = ""


@dataclass(frozen=True, slots=True)
class EspdlNode:
    """One node of the file, in running order. attributes: numbers, texts, and lists of numbers."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EspdlModel:
    """The contents of a file. tensors: all, by name. inputs, outputs: names. test_inputs, test_outputs: the values with which
    the file lets a chip test itself, by tensor, in the file's layout."""

    file: str
    tensors: Mapping[str, EspdlTensor]
    nodes: tuple[EspdlNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    test_inputs: Mapping[str, Array]
    test_outputs: Mapping[str, Array]


def is_espdl(data: bytes) -> bool:
    """Returns whether bytes begin as an .espdl does."""
    return data.startswith(MAGIC)


def read_espdl(data: bytes, file: str) -> EspdlModel:
    """Returns the contents of a file. Raises BadFileError for a damaged one, UnsupportedError for an encrypted one."""
    if len(data) < 2 * HEAD:
        raise BadFileError(f"{file}: an .espdl that is cut off: it has {len(data)} bytes; copy it again")
    if encrypted := int.from_bytes(data[4:8], "little"):
        raise UnsupportedError(f"{file}: it is encrypted (mode {encrypted}); export it with encrypt_data=False")
    length = int.from_bytes(data[8:12], "little")
    if length > len(data) - HEAD:
        raise BadFileError(
            f"{file}: an .espdl that is cut off: it has {len(data)} of {length + HEAD} bytes; copy it again"
        )
    if length < HEAD:
        raise BadFileError(f"{file}: a damaged .espdl: its contents have {length} bytes; copy or export it again")
    try:
        return _read_model(data[HEAD : HEAD + length], file)
    except DAMAGE_ERRORS as error:
        why = shortened(printable(str(error)), 200) or type(error).__name__
        raise BadFileError(f"{file}: a damaged .espdl: {why}") from error


def _read_model(data: bytes, file: str) -> EspdlModel:
    graph = FlatTable.root(data).table(MODEL_GRAPH)
    if graph is None:
        raise ValueError("no graph")
    constants = [_constant(t) for t in graph.tables(INITIALIZERS)]
    values = [_value(t) for slot in (INPUTS, OUTPUTS, VALUES) for t in graph.tables(slot)]
    tensors = {t.name: t for t in (*values, *constants)}  # a constant has its data
    nodes = tuple(_node(t) for t in graph.tables(NODES))
    inputs = tuple(t.text(VALUE_NAME) for t in graph.tables(INPUTS))
    outputs = tuple(t.text(VALUE_NAME) for t in graph.tables(OUTPUTS))
    if not nodes or not inputs or not outputs:
        raise ValueError(f"{len(nodes)} nodes, {len(inputs)} inputs, {len(outputs)} outputs")
    _check_order(nodes, inputs, outputs, {t.name for t in constants})
    tests = [{t.name: _shaped(t) for t in map(_constant, graph.tables(slot))} for slot in (TEST_INPUTS, TEST_OUTPUTS)]
    return EspdlModel(file, tensors, nodes, inputs, outputs, *tests)


def _check_order(
    nodes: tuple[EspdlNode, ...], inputs: tuple[str, ...], outputs: tuple[str, ...], constants: set[str]
) -> None:
    """Raises ValueError for a tensor that is read before it is made, or made twice."""
    made = {*inputs, *constants}
    for node in nodes:
        if missing := [i for i in node.inputs if i and i not in made]:
            raise ValueError(f"{node.kind} {node.name} reads {missing[0]}, which nothing before it makes")
        if twice := [o for o in node.outputs if o in made]:
            raise ValueError(f"{node.kind} {node.name} makes {twice[0]}, which exists")
        made.update(o for o in node.outputs if o)
    if missing := [o for o in outputs if o not in made]:
        raise ValueError(f"nothing makes the output {missing[0]}")


def _shaped(tensor: EspdlTensor) -> Array:
    assert tensor.data is not None
    return tensor.data.reshape(tensor.shape)


def _constant(table: FlatTable) -> EspdlTensor:
    """Returns a tensor with data."""
    name, dtype = table.text(NAME), _dtype(int(table.number(TYPE, "i")))
    shape = _shape([int(d) for d in table.numbers(DIMS, "q")], name)
    raw, wanted = table.bytes_of(RAW, BLOCK), prod(shape) * np.dtype(dtype).itemsize
    if not wanted <= len(raw) < wanted + BLOCK + 1:
        raise ValueError(f"{name} of the dims {list(shape)} ({dtype}) has {len(raw)} bytes")
    data = np.frombuffer(raw[:wanted], np.dtype(dtype).newbyteorder("<")).astype(dtype)
    layout = table.text(DOCUMENT).removeprefix(PREFIX)
    return EspdlTensor(name, dtype, shape, _exponents(table.numbers(EXPONENTS, "q"), dtype, name), data, layout)


def _value(table: FlatTable) -> EspdlTensor:
    """Returns a tensor that is computed."""
    name, kind = table.text(VALUE_NAME), table.table(VALUE_TYPE)
    value = None if kind is None else kind.table(1)
    if value is None:
        raise ValueError(f"{name} has no type")
    dims = value.table(1)
    sizes = [d.table(0) for d in dims.tables(0)] if dims is not None else []
    shape = _shape([int(s.number(1, "q")) if s is not None else -1 for s in sizes], name)
    dtype = _dtype(int(value.number(0, "i")))
    return EspdlTensor(name, dtype, shape, _exponents(table.numbers(VALUE_EXPONENTS, "q"), dtype, name))


def _node(table: FlatTable) -> EspdlNode:
    inputs, outputs = tuple(table.texts(NODE_INPUTS)), tuple(table.texts(NODE_OUTPUTS))
    attributes = dict(_attribute(t) for t in table.tables(NODE_ATTRIBUTES))
    return EspdlNode(table.text(NODE_NAME), table.text(NODE_KIND), inputs, outputs, attributes)


def _attribute(table: FlatTable) -> tuple[str, Any]:
    """Returns name and value of an attribute; a value of another kind is None."""
    value: Any = None
    kind = int(table.number(ATTRIBUTE_TYPE, "i"))
    if kind == 1:
        value = table.inline(FLOAT, "f")
    elif kind == 2:
        value = table.inline(INTEGER, "q")
    elif kind == 3:
        value = table.text(STRING)
    elif kind in (6, 7):
        value = table.numbers(FLOATS, "f") if kind == 6 else table.numbers(INTEGERS, "q")
    return table.text(ATTRIBUTE_NAME), value


def _dtype(code: int) -> str:
    if code not in DTYPES:
        raise ValueError(f"elements of the type {code}")
    return DTYPES[code]


def _shape(dims: list[int], name: str) -> tuple[int, ...]:
    if len(dims) > MAX_RANK or any(not 0 <= d <= MAX_DIM for d in dims) or prod(dims) > MAX_ELEMENTS:
        raise ValueError(f"{name} has the dims {shortened(str(dims), 60)}")
    return tuple(dims)


def _exponents(values: list[float], dtype: str, name: str) -> tuple[int, ...]:
    """Returns the exponents of a quantized tensor, () of another one."""
    if len(values) > MAX_COUNT or any(abs(v) > MAX_EXPONENT for v in values):
        raise ValueError(f"{name} has the exponents {shortened(str(values), 60)}")
    return () if dtype in ("float32", "int64", "bool") and not any(values) else tuple(int(v) for v in values)
