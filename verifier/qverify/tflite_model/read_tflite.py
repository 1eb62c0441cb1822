"""Reads a .tflite into plain records, or refuses it with a one-line message. Nothing in the file is trusted: every
index, length and size is checked before it is used."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import BadFileError, UnsupportedError
from qverify.extras import import_extra
from qverify.printable import printable, shortened
from qverify.tflite_model.constants import DTYPES, read_constant
from qverify.tflite_model.options import options_of

Array = npt.NDArray[Any]
MAX_COUNT = 1 << 16  # of tensors, of operators, and of tensor indices in one list
MAX_RANK, MAX_DIM, MAX_ELEMENTS = 8, 1 << 30, 2**31 - 1
NPU_OPERATORS = {
    "CUSTOM ethos-u": "made by Vela for an Ethos-U",
    "CUSTOM edgetpu-custom-op": "made by edgetpu_compiler for a Coral Edge TPU",
}  # an operator that stands for a program of an NPU, and what such a file is
MIN_BYTES = 16  # of a file
DAMAGE_ERRORS = (struct.error, ValueError, IndexError, TypeError, OverflowError, AttributeError, KeyError, MemoryError)


CUT_OFF = re.compile(
    r"buffer of at least (\d+) bytes|buffer is smaller than requested|offset must be non-negative and no greater"
)


class CutOffError(BadFileError):
    """Raised for a file whose end is missing."""


class NoValuesError(Exception):
    """Raised for an operator that reads a tensor without values."""


@dataclass(frozen=True, slots=True)
class TfliteTensor:
    """One tensor of the file.

    Attributes:
        index: its number in the file.
        dtype: numpy's name of the type; int4, int2 or uint4; or the file's name of another type (STRING, RESOURCE).
        scale: float32; empty if it is not quantized, otherwise one element or one per index of `axis`.
        zero: the zero points, int64, as many as scales.
        axis: axis of the scales.
        data: the value of a constant, None if it is computed. Elements of fewer than 8 bits are int8 or uint8 here, one
            each; a sparse constant, and one of a type that numpy does not have, is given as its bytes.
        variable: whether it keeps its value from one run to the next.
        sparse: whether the constant is stored sparsely.
        block: number of elements of its last axis that have one scale, 0 for a tensor without scales of blocks.
        block_scales: index of the tensor with these scales. block_zeros: of that with their zero points, -1 for none.
    """

    index: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: Array
    zero: Array
    axis: int
    data: Array | None
    variable: bool = False
    sparse: bool = False
    block: int = 0
    block_scales: int = -1
    block_zeros: int = -1


@dataclass(frozen=True, slots=True)
class TfliteOperator:
    """One operator of the file.

    Attributes:
        position: its number in the file.
        kind: the schema's name, such as CONV_2D.
        inputs, outputs: tensor indices; -1 for an omitted input.
        options: its options, by the schema's names.
        intermediates: tensors that state the quantization of its inner results; -1 for an omitted one.
    """

    position: int
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any]
    intermediates: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"operator {self.position} ({self.kind})"

    @property
    def runs_on_npu(self) -> bool:
        """Whether it stands for a program of an NPU, in memory that no operator of the file makes."""
        return self.kind in NPU_OPERATORS


@dataclass(frozen=True, slots=True)
class Signature:
    """An entry point of a file: its name, and the number of the subgraph that it runs."""

    name: str
    subgraph: int


@dataclass(frozen=True, slots=True)
class TfliteModel:
    """The contents of a file: its first subgraph, which LiteRT runs, and the names of what else it has.

    operators: in running order. inputs, outputs: tensor indices. made_by: tensor index to the operator that computes
    it. subgraphs: number of subgraphs. signatures: in the file's order."""

    file: str
    tensors: tuple[TfliteTensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    made_by: Mapping[int, TfliteOperator]
    subgraphs: int = 1
    signatures: tuple[Signature, ...] = ()


def schema() -> Any:
    """Returns LiteRT's Python module for the file format. Raises MissingExtraError if LiteRT is not installed."""
    return import_extra("ai_edge_litert.schema_py_generated", "a .tflite by itself")


def read_tflite(data: bytes, file: str) -> TfliteModel:
    """Returns the tensors and operators of the file's first subgraph. Raises BadFileError for a damaged file,
    UnsupportedError for a file without inputs, MissingExtraError if LiteRT is not installed."""
    module = schema()
    try:
        return _Reader(module, data, file).read()
    except NoValuesError as error:
        raise BadFileError(f"{file}: {error}; LiteRT ends its process on it. Next: convert it again") from error
    except DAMAGE_ERRORS as error:
        if match := CUT_OFF.search(str(error)):
            where = f", and something in it lies at byte {match[1]}" if match[1] else ""
            raise CutOffError(
                f"{file}: a .tflite that is cut off: it has {len(data)} bytes{where}; copy it again"
            ) from error
        why = shortened(printable(str(error)), 200) or type(error).__name__
        raise BadFileError(f"{file}: a damaged .tflite: {why}") from error


class _Reader:
    """Reads one file. An error in DAMAGE_ERRORS means that the file is damaged."""

    def __init__(self, module: Any, data: bytes, file: str):
        if data[4:8] != b"TFL3"[: max(len(data) - 4, 0)]:
            raise BadFileError(f"{file}: not a .tflite (no TFL3 at byte 4)")
        if len(data) < MIN_BYTES:
            raise CutOffError(f"{file}: a .tflite that is cut off: it has {len(data)} bytes; copy it again")
        self._schema, self._data, self._file = module, data, file
        self._model = module.Model.GetRootAs(data, 0)
        self._kinds = {v: k for k, v in vars(module.BuiltinOperator).items() if isinstance(v, int)}
        self._types = {v: k for k, v in vars(module.TensorType).items() if isinstance(v, int)}

    def read(self) -> TfliteModel:
        """Returns the contents of the file."""
        subgraphs = self._model.SubgraphsLength()
        if not subgraphs:
            raise ValueError("no subgraph")
        graph = self._model.Subgraphs(0)
        count, operators = graph.TensorsLength(), graph.OperatorsLength()
        if not 0 < count <= MAX_COUNT or not 0 < operators <= MAX_COUNT:
            raise ValueError(f"{count} tensors and {operators} operators; wanted 1 to {MAX_COUNT} of each")
        tensors = tuple(self._tensor(graph.Tensors(i), i) for i in range(count))
        inputs = self._indices(graph.InputsLength(), graph.InputsAsNumpy, count, 0)
        outputs = self._indices(graph.OutputsLength(), graph.OutputsAsNumpy, count, 0)
        records = tuple(self._operator(graph.Operators(k), k, count) for k in range(operators))
        if not inputs:
            raise UnsupportedError(f"{self._file}: it has no inputs, so there is nothing to compare it on")
        made_by = _made_by(tensors, records, inputs, outputs)
        return TfliteModel(
            self._file, tensors, records, inputs, outputs, made_by, subgraphs, tuple(self._signatures(subgraphs))
        )

    def _signatures(self, subgraphs: int) -> Iterator[Signature]:
        """Yields the signatures of the file."""
        for k in range(min(self._model.SignatureDefsLength(), MAX_COUNT)):
            table = self._model.SignatureDefs(k)
            if not 0 <= table.SubgraphIndex() < subgraphs:
                raise ValueError(f"signature {k} is of subgraph {table.SubgraphIndex()}, and there are {subgraphs}")
            yield Signature(_clean((table.SignatureKey() or b"").decode()) or f"signature_{k}", table.SubgraphIndex())

    def _numbers(self, length: int, values: Any) -> Array:
        """Returns a vector of the file, after checking its length. values: a function that returns it as an array."""
        if not 0 <= length <= len(self._data):
            raise ValueError(f"a vector of {length} elements in {len(self._data)} bytes")
        return np.asarray(values()) if length else np.zeros(0, np.int64)

    def _indices(self, length: int, values: Any, count: int, least: int) -> tuple[int, ...]:
        """Returns a vector of tensor indices, each from `least` to below `count`."""
        indices = tuple(self._numbers(min(length, MAX_COUNT + 1), values).tolist())
        if length > MAX_COUNT or any(not least <= i < count for i in indices):
            raise ValueError(f"tensor indices {shortened(str(indices), 60)}, and there are {count} tensors")
        return indices

    def _tensor(self, table: Any, index: int) -> TfliteTensor:
        """Returns the tensor that a table describes."""
        shape = tuple(int(d) for d in self._numbers(table.ShapeLength(), table.ShapeAsNumpy)[: MAX_RANK + 1])
        if len(shape) > MAX_RANK or any(not 0 <= d <= MAX_DIM for d in shape):
            raise ValueError(f"tensor {index} has the dims {list(shape)}; wanted at most {MAX_RANK} of 0 to {MAX_DIM}")
        if math.prod(shape) > MAX_ELEMENTS:
            raise ValueError(f"tensor {index} has {math.prod(shape)} elements; wanted at most {MAX_ELEMENTS}")
        kind = self._types.get(table.Type(), f"type {table.Type()}")
        dtype = DTYPES.get(kind, kind)
        sparse = table.Sparsity() is not None
        name = _clean((table.Name() or b"").decode()) or f"tensor_{index}"
        constant = self._constant(table, "" if sparse else dtype, shape)
        about = self._quantization(table, index)
        return TfliteTensor(
            index, name, dtype, shape, *about, constant, bool(table.IsVariable()), sparse, *self._blocks(table)
        )

    def _blocks(self, table: Any) -> tuple[int, int, int]:
        """Returns the size of the blocks of a tensor that has a scale for each, and the indices of their scales and zero points."""
        about, schema = table.Quantization(), self._schema
        kind = 0 if about is None else about.DetailsType()
        if kind != schema.QuantizationDetails.BlockwiseQuantization or about.Details() is None:
            return 0, -1, -1
        blocks = schema.BlockwiseQuantization()
        blocks.Init(about.Details().Bytes, about.Details().Pos)
        return int(blocks.BlockSize()), int(blocks.Scales()), int(blocks.ZeroPoints())

    def _quantization(self, table: Any, index: int) -> tuple[Array, Array, int]:
        """Returns the scales, zero points and axis of a tensor; empty arrays if it is not quantized."""
        about = table.Quantization()
        if about is None or about.ScaleLength() == 0:
            return np.zeros(0, np.float32), np.zeros(0, np.int64), 0
        scale = self._numbers(about.ScaleLength(), about.ScaleAsNumpy).astype(np.float32)
        zero = self._numbers(about.ZeroPointLength(), about.ZeroPointAsNumpy).astype(np.int64)
        zero = zero if zero.size else np.zeros(scale.size, np.int64)
        if zero.size != scale.size or not (np.isfinite(scale) & (scale > 0)).all():
            raise ValueError(
                f"tensor {index} has {scale.size} scales, {zero.size} zero points; wanted as many, above 0"
            )
        return scale, zero, int(about.QuantizedDimension())

    def _constant(self, table: Any, dtype: str, shape: tuple[int, ...]) -> Array | None:
        """Returns the data of a constant, or None if the tensor is computed."""
        at, buffers = table.Buffer(), self._model.BuffersLength()
        if not 0 <= at < buffers:
            raise ValueError(f"buffer {at}, and there are {buffers}")
        buffer = self._model.Buffers(at)
        start, length = buffer.Offset(), buffer.Size()
        if start > 1:  # it lies behind the FlatBuffer
            if start + length > len(self._data):
                raise CutOffError(
                    f"{self._file}: a .tflite that is cut off: it has {len(self._data)} bytes, and a constant lies "
                    f"at bytes {start} to {start + length}; copy it again"
                )
            return read_constant(np.frombuffer(self._data, np.uint8, length, start), dtype, shape) if length else None
        length = buffer.DataLength()
        if length > len(self._data):
            raise ValueError(f"a constant of {length} bytes in {len(self._data)} bytes")
        return read_constant(buffer.DataAsNumpy(), dtype, shape) if length else None

    def _operator(self, table: Any, position: int, count: int) -> TfliteOperator:
        """Returns the operator that a table describes. count: the number of tensors."""
        codes, at = self._model.OperatorCodesLength(), table.OpcodeIndex()
        if not 0 <= at < codes:
            raise ValueError(f"operator {position} has code {at}, and there are {codes}")
        code = self._model.OperatorCodes(at)
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        kind = self._kinds.get(number, f"code {number}")
        if kind == "CUSTOM":
            kind = f"CUSTOM {_clean((code.CustomCode() or b'').decode('utf-8', 'replace'))}".strip()
        inputs = self._indices(table.InputsLength(), table.InputsAsNumpy, count, -1)
        outputs = self._indices(table.OutputsLength(), table.OutputsAsNumpy, count, 0)
        inner = self._indices(table.IntermediatesLength(), table.IntermediatesAsNumpy, count, -1)
        return TfliteOperator(position, kind, inputs, outputs, options_of(self._schema, kind, table), inner)


def _made_by(
    tensors: tuple[TfliteTensor, ...],
    operators: tuple[TfliteOperator, ...],
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
) -> dict[int, TfliteOperator]:
    """Returns the operator that computes each tensor. Raises ValueError if a tensor is computed twice, or read before
    it is computed."""
    constants = {t.index for t in tensors if t.data is not None}
    if not outputs or len(set(inputs)) < len(inputs) or constants.intersection(inputs):
        raise ValueError("its inputs or outputs are missing, named twice or constants")
    there = {t.index for t in tensors if t.variable or 0 in t.shape} | constants | {*inputs}
    made_by: dict[int, TfliteOperator] = {}
    for operator in operators:
        for i in operator.inputs:
            if i >= 0 and i not in there and i not in made_by and not operator.runs_on_npu:
                if all(i not in o.outputs for o in operators):
                    raise NoValuesError(
                        f"{operator} reads tensor {i}, which has no values: it is no input and no constant, and no operator makes it"
                    )
                raise ValueError(f"{operator} reads tensor {i}, which nothing before it makes")
        for i in operator.outputs:
            if i in made_by or i in constants or i in inputs:
                raise ValueError(f"{operator} writes tensor {i}, which is there already")
            made_by[i] = operator
    if missing := [i for i in outputs if i not in made_by and i not in there]:
        raise ValueError(f"nothing makes output {missing[0]}")
    return made_by


def _clean(name: str) -> str:
    """Returns the first of the names that a converter joined by `;`, at most 96 characters, with unsafe ones replaced
    by `_`."""
    return re.sub(r"[^A-Za-z0-9_./:-]+", "_", name.partition(";")[0]).strip("_")[:96]
