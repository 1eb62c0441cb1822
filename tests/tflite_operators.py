"""Single operators as .tflite files, with random constants: one table, from which tests and measurements are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.tflite_files import File

Shape = tuple[int, ...]
SCALES = (0.05, 0.0078125, 0.1, 0.021, 0.25, 0.5, 0.003, 1.0)  # with powers of two, which make ties
SAME = "same"  # the output has the quantization of the first input


@dataclass(frozen=True, slots=True)
class Case:
    """One operator with its operands.

    Attributes:
        kind: the schema's name.
        shapes: those of its computed inputs.
        outputs: those of its outputs.
        table, options: the name of its table of options, and these.
        constants: int32 constants, by their place among the inputs.
        same: whether every tensor has one quantization.
        dtypes: types of the computed inputs that it is tried with.
        made: type of the outputs, "" for that of the inputs.
        fixed: scale and zero point (of int8) of the outputs that the operator wants, or None.
        floor: whether zero points of inputs are the lowest value, so that no input is negative.
        operands: further tensors that are quantized constants, by their place: shape.
    """

    kind: str
    shapes: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    table: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    constants: dict[int, Any] = field(default_factory=dict)
    same: bool = False
    dtypes: tuple[str, ...] = ("int8", "uint8")
    made: str = ""
    fixed: tuple[float, int] | None = None
    floor: bool = False
    operands: dict[int, Shape] = field(default_factory=dict)

    def __str__(self) -> str:
        options = ",".join(f"{k}={v}" for k, v in self.options.items())
        shapes = "+".join("x".join(map(str, s)) for s in self.shapes)
        return "-".join(p for p in (self.kind, shapes, options) if p)

    def written(self, dtype: str, seed: int) -> bytes:
        """Returns the file. seed: of the quantizations and constants."""
        return joined([(self, dtype)], seed)

    def add(self, f: File, dtype: str, seed: int, name: str = "") -> None:
        """Adds the operator to a file. name: what the names of its tensors begin with."""
        rng = np.random.default_rng([seed, *self.kind.encode()])
        offset = 128 if dtype == "uint8" else 0

        def quantization() -> tuple[float, int]:
            scale = float(rng.choice(SCALES)) if rng.random() < 0.6 else float(np.exp(rng.uniform(-6, 0)))
            return scale, -128 if self.floor or rng.random() < 0.2 else int(rng.integers(-128, 128))

        first = quantization()
        inputs: dict[int, int] = {}
        for k, value in self.constants.items():
            value = np.array(value, np.int32)
            inputs[k] = f.tensor(f"{name}c{k}", list(value.shape), "int32", None, value=value)
        for k, shape in self.operands.items():
            scale, zero = first if self.same else quantization()
            value = rng.integers(offset - 128, offset + 128, shape)
            inputs[k] = f.tensor(f"{name}c{k}", list(shape), dtype, scale, zero + offset, value=value)
        places = [k for k in range(len(inputs) + len(self.shapes)) if k not in inputs]
        for k, shape in zip(places, self.shapes, strict=True):
            scale, zero = first if self.same or k == places[0] else quantization()
            inputs[k] = f.tensor(f"{name}x{k}", list(shape), dtype, scale, zero + offset)
            f.inputs.append(inputs[k])
        outputs = []
        for k, shape in enumerate(self.outputs):
            scale, zero = self.fixed or (first if self.same else quantization())
            made = self.made or dtype
            if made in ("int8", "uint8"):
                outputs.append(
                    f.tensor(f"{name}y{k}", list(shape), made, scale, zero + (128 if made == "uint8" else 0))
                )
            else:
                outputs.append(f.tensor(f"{name}y{k}", list(shape), made, None))
        f.operator(self.kind, [inputs[k] for k in sorted(inputs)], outputs, self.table, **self.options)
        f.outputs += outputs


def joined(cases: Sequence[tuple[Case, str]], seed: int) -> bytes:
    """Returns a file with several operators, each with inputs and outputs of its own. cases: with their types."""
    f = File()
    for k, (case, dtype) in enumerate(cases):
        case.add(f, dtype, seed, f"n{k}_" if len(cases) > 1 else "")
    return f.written()


def movements() -> Iterator[Case]:
    """Yields operators that move elements."""

    def one(
        kind: str, x: Shape, y: Shape | list[Shape], table: str = "", constants: Any = None, **options: Any
    ) -> Case:
        outputs = (y,) if isinstance(y, tuple) else tuple(y)
        return Case(kind, (x,), outputs, table, options, constants or {}, same=True)

    yield one("TRANSPOSE", (1, 5, 6, 3), (1, 3, 5, 6), "TransposeOptions", {1: [0, 3, 1, 2]})
    yield one("TRANSPOSE", (2, 5, 6, 3), (6, 2, 3, 5), "TransposeOptions", {1: [2, 0, 3, 1]})
    yield one("TRANSPOSE", (4, 5, 3), (3, 4, 5), "TransposeOptions", {1: [2, 0, 1]})
    yield one("TRANSPOSE", (2, 3, 4, 2, 5), (5, 2, 4, 3, 2), "TransposeOptions", {1: [4, 0, 2, 1, 3]})
    yield one("SLICE", (1, 6, 7, 4), (1, 3, 5, 2), "SliceOptions", {1: [0, 2, 1, 2], 2: [1, 3, 5, -1]})
    yield one("SLICE", (6, 7), (2, 7), "SliceOptions", {1: [3, 0], 2: [2, -1]})
    table = "StridedSliceOptions"
    yield one(
        "STRIDED_SLICE",
        (1, 8, 9, 4),
        (1, 3, 9, 2),
        table,
        {1: [0, 1, 0, 0], 2: [1, 7, 0, 3], 3: [1, 2, 1, 2]},
        endMask=4,
    )
    yield one(
        "STRIDED_SLICE",
        (1, 8, 9, 4),
        (1, 9, 4),
        table,
        {1: [0, 3, 0, 0], 2: [1, 4, 9, 4], 3: [1, 1, 1, 1]},
        shrinkAxisMask=2,
    )
    yield one(
        "STRIDED_SLICE",
        (1, 8, 9, 4),
        (1, 8, 9, 4),
        table,
        {1: [0, -1, 0, 0], 2: [1, 0, 9, 4], 3: [1, -1, 1, 1]},
        beginMask=2,
        endMask=2,
    )
    yield one("STRIDED_SLICE", (5, 9, 4), (2, 4), table, {1: [-1, 1], 2: [0, 4], 3: [1, 2]}, shrinkAxisMask=1)
    yield one("STRIDED_SLICE", (6, 10), (3, 4), table, {1: [5, 9], 2: [0, 1], 3: [-2, -2]})
    yield one(
        "STRIDED_SLICE",
        (1, 2, 5, 3, 2),
        (2, 5, 3),
        table,
        {1: [0, 0, 0, 0, 1], 2: [1, 2, 5, 3, 2], 3: [1, 1, 1, 1, 1]},
        shrinkAxisMask=17,
    )
    yield one("STRIDED_SLICE", (2, 5, 9, 4), (2, 5, 9, 2), table, {1: [0, 1], 2: [0, 3], 3: [1, 1]}, ellipsisMask=1)
    yield one("STRIDED_SLICE", (5, 9), (5, 1, 4), table, {1: [0, 0, 1], 2: [5, 1, 5], 3: [1, 1, 1]}, newAxisMask=2)
    yield one("SPLIT", (1, 4, 5, 6), [(1, 4, 5, 2)] * 3, "SplitOptions", {0: 3}, numSplits=3)
    yield one("SPLIT", (1, 4, 5, 6), [(1, 2, 5, 6)] * 2, "SplitOptions", {0: 1}, numSplits=2)
    yield one("SPLIT", (4, 10), [(4, 5)] * 2, "SplitOptions", {0: -1}, numSplits=2)
    yield one("SPLIT_V", (1, 4, 5, 6), [(1, 4, 2, 6), (1, 4, 3, 6)], "SplitVOptions", {1: [2, 3], 2: 2}, numSplits=2)
    yield one("SPLIT_V", (4, 10), [(4, 1), (4, 9)], "SplitVOptions", {1: [1, -1], 2: 1}, numSplits=2)
    yield one("UNPACK", (1, 3, 5, 4), [(1, 5, 4)] * 3, "UnpackOptions", num=3, axis=1)
    yield one("UNPACK", (2, 3, 5, 4, 2), [(2, 3, 5, 4)] * 2, "UnpackOptions", num=2, axis=-1)
    yield one("UNPACK", (4, 6), [(6,)] * 4, "UnpackOptions", num=4, axis=0)
    for x, y, axis in (
        ((5, 4), (5, 2, 4), 1),
        ((3, 5, 4), (2, 3, 5, 4), 0),
        ((3, 5, 4), (3, 5, 4, 2), -1),
        ((2, 3, 5, 4), (2, 3, 2, 5, 4), 2),
    ):
        yield Case("PACK", (x, x), (y,), "PackOptions", {"valuesCount": 2, "axis": axis}, same=True)
    yield one("TILE", (1, 3, 4, 5), (2, 3, 8, 15), "TileOptions", {1: [2, 1, 2, 3]})
    yield one("TILE", (3, 4), (6, 12), "TileOptions", {1: [2, 3]})
    yield one("GATHER", (10, 6), (4, 6), "GatherOptions", {1: [3, 0, 9, 3]}, axis=0)
    yield one("GATHER", (1, 6, 5, 4), (1, 6, 3, 4), "GatherOptions", {1: [4, 0, 2]}, axis=2)
    yield one("GATHER", (1, 6, 5, 4), (1, 6, 5), "GatherOptions", {1: 2}, axis=-1)
    yield one("GATHER", (8, 5), (2, 3, 5), "GatherOptions", {1: [[1, 2, 7], [0, 0, 3]]}, axis=0)
    yield one("GATHER_ND", (4, 6, 5), (3, 5), "GatherNdOptions", {1: [[0, 1], [3, 5], [2, 2]]})
    yield one("GATHER_ND", (2, 4, 6, 5), (2, 6, 5), "GatherNdOptions", {1: [[0, 1], [1, 3]]})
    yield one("DEPTH_TO_SPACE", (2, 3, 4, 12), (2, 6, 8, 3), "DepthToSpaceOptions", blockSize=2)
    yield one("DEPTH_TO_SPACE", (1, 2, 2, 18), (1, 6, 6, 2), "DepthToSpaceOptions", blockSize=3)
    yield one("SPACE_TO_DEPTH", (2, 6, 8, 3), (2, 3, 4, 12), "SpaceToDepthOptions", blockSize=2)
    yield one("SPACE_TO_DEPTH", (1, 6, 6, 2), (1, 2, 2, 18), "SpaceToDepthOptions", blockSize=3)
    yield one(
        "SPACE_TO_BATCH_ND", (1, 6, 8, 3), (8, 3, 2, 3), "SpaceToBatchNDOptions", {1: [2, 4], 2: [[0, 0], [0, 0]]}
    )
    yield one(
        "BATCH_TO_SPACE_ND", (8, 3, 2, 3), (1, 5, 6, 3), "BatchToSpaceNDOptions", {1: [2, 4], 2: [[1, 0], [0, 2]]}
    )
    yield one("REVERSE_V2", (1, 6, 5, 4), (1, 6, 5, 4), "ReverseV2Options", {1: [2]})
    yield one("REVERSE_V2", (6, 5), (6, 5), "ReverseV2Options", {1: [1]})
    yield one("EXPAND_DIMS", (3, 5, 4), (3, 1, 5, 4), "ExpandDimsOptions", {1: 1})
    yield one("EXPAND_DIMS", (2, 3, 5, 4), (2, 3, 5, 4, 1), "ExpandDimsOptions", {1: -1})
    yield one("SQUEEZE", (2, 3, 1, 4), (2, 3, 4), "SqueezeOptions", squeezeDims=[2])
    yield one("SQUEEZE", (1, 3, 5, 4, 1), (3, 5, 4), "SqueezeOptions", squeezeDims=[0, 4])
    yield one("RESHAPE", (1, 3, 5, 4), (1, 12, 5), "ReshapeOptions", {1: [1, 12, 5]}, newShape=[1, 12, 5])
    yield one("RESHAPE", (12, 5), (1, 2, 6, 5), "ReshapeOptions", {1: [1, 2, 6, 5]}, newShape=[1, 2, 6, 5])
    yield one("PAD", (1, 4, 5, 3), (1, 5, 7, 6), "PadOptions", {1: [[0, 0], [1, 0], [1, 1], [0, 3]]})
    yield Case(
        "PADV2",
        ((1, 4, 5, 3),),
        ((1, 5, 7, 6),),
        "PadV2Options",
        {},
        {1: [[0, 0], [1, 0], [1, 1], [0, 3]]},
        same=True,
        operands={2: ()},
    )
    yield one(
        "MIRROR_PAD", (1, 4, 5, 3), (1, 6, 8, 3), "MirrorPadOptions", {1: [[0, 0], [1, 1], [2, 1], [0, 0]]}, mode=0
    )
    yield one(
        "MIRROR_PAD", (1, 4, 5, 3), (1, 6, 8, 4), "MirrorPadOptions", {1: [[0, 0], [1, 1], [2, 1], [0, 1]]}, mode=1
    )


def tables() -> Iterator[Case]:
    """Yields functions of one or two tensors."""
    shape, every, one = (1, 6, 9, 5), ("int8", "uint8"), ("int8",)
    for kind, table, dtypes, options in (
        ("RELU", "", every, {}),
        ("RELU6", "", every, {}),
        ("RELU_N1_TO_1", "", every, {}),
        ("RELU_0_TO_1", "", every, {}),
        ("LEAKY_RELU", "LeakyReluOptions", every, {"alpha": 0.1}),
        ("LEAKY_RELU", "LeakyReluOptions", every, {"alpha": 0.25}),
        ("LEAKY_RELU", "LeakyReluOptions", every, {"alpha": -0.2}),
        ("GELU", "GeluOptions", every, {"approximate": False}),
        ("GELU", "GeluOptions", every, {"approximate": True}),
        ("HARD_SWISH", "HardSwishOptions", every, {}),
        ("ABS", "AbsOptions", one, {}),
        ("EXP", "ExpOptions", one, {}),
        ("LOG", "", one, {}),
        ("SQRT", "", one, {}),
        ("RSQRT", "", one, {}),
    ):
        yield Case(kind, (shape,), (shape,), table, options, dtypes=dtypes, floor=kind in ("LOG", "SQRT", "RSQRT"))
    yield Case("TANH", (shape,), (shape,), fixed=(1 / 128, 0))
    names = {
        "DIV": ("DivOptions", every),
        "PRELU": ("", every),
        "SQUARED_DIFFERENCE": ("SquaredDifferenceOptions", one),
    }
    for kind, (table, dtypes) in names.items():
        constants = [{1: (1, 1, 5)}, {1: (5,)}, {1: ()}]
        if kind != "DIV":
            yield Case(kind, (shape, (1, 1, 9, 5) if kind == "PRELU" else shape), (shape,), table, dtypes=dtypes)
            yield Case(kind, ((7, 5), (7, 5)), ((7, 5),), table, dtypes=dtypes)
        for constant in constants[: 1 if kind == "PRELU" else 3]:
            yield Case(kind, (shape,), (shape,), table, dtypes=dtypes, operands=constant)
    for kind in ("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL"):
        table = "".join(p.capitalize() for p in kind.split("_")) + "Options"
        yield Case(kind, (shape, shape), (shape,), table, made="bool")
        yield Case(kind, (shape,), (shape,), table, made="bool", operands={1: (5,)})


def elementwise() -> Iterator[Case]:
    """Yields sums, products, extrema and choices, with operands of fewer axes."""
    shape = (1, 6, 9, 5)
    for kind in ("ADD", "SUB", "MUL"):
        table = f"{kind.capitalize()}Options"
        for other in ((5,), (9, 1), (6, 9, 1), (6, 9, 5), (1, 1, 1, 5), ()):
            yield Case(kind, (shape,), (shape,), table, operands={1: other})
        yield Case(kind, (shape, (6, 1, 5)), (shape,), table)
        yield Case(kind, (shape, (5,)), (shape,), table)
        yield Case(kind, ((5,), shape), (shape,), table)
        yield Case(kind, ((2, 3, 4, 5, 3), (3,)), ((2, 3, 4, 5, 3),), table)
    for kind in ("MAXIMUM", "MINIMUM"):
        for other in (shape, (5,), (9, 1)):
            yield Case(kind, (shape, other), (shape,), "MaximumMinimumOptions", same=True)
        yield Case(kind, ((7, 5),), ((7, 5),), "MaximumMinimumOptions", same=True, operands={1: ()})
    yield Case("NEG", (shape,), (shape,), "NegOptions", dtypes=("int8",))
    yield Case("CAST", (shape,), (shape,), "CastOptions", made="float32")
    yield Case("CAST", (shape,), (shape,), "CastOptions", made="int32")


def reductions() -> Iterator[Case]:
    """Yields operators that reduce axes."""
    x = (2, 6, 7, 5)
    for kind in ("REDUCE_MAX", "REDUCE_MIN", "MEAN", "SUM"):
        for axes, keep, y in (
            ([1, 2], False, (2, 5)),
            ([1, 2], True, (2, 1, 1, 5)),
            ([3], True, (2, 6, 7, 1)),
            ([-1], False, (2, 6, 7)),
            ([2], False, (2, 6, 5)),
            ([1], False, (2, 7, 5)),
            ([0, 3], False, (6, 7)),
        ):
            same = kind.startswith("REDUCE")
            yield Case(kind, (x,), (y,), "ReducerOptions", {"keepDims": keep}, {1: axes}, same=same)
        yield Case(kind, ((4, 30),), ((4,),), "ReducerOptions", {"keepDims": False}, {1: [1]}, same=same)
        yield Case(kind, ((4, 30, 3),), ((4, 1, 3),), "ReducerOptions", {"keepDims": True}, {1: [1]}, same=same)
    for kind in ("ARG_MAX", "ARG_MIN"):
        for number, made in ((2, "int32"), (4, "int64")):
            table, how = f"Arg{kind[4:].capitalize()}Options", {"outputType": number}
            for shape, axis, y in ((x, -1, (2, 6, 7)), (x, 1, (2, 7, 5)), ((4, 9), 1, (4,))):
                yield Case(kind, (shape,), (y,), table, how, {1: axis}, made=made)


def products() -> Iterator[Case]:
    """Yields products of matrices and transposed convolutions."""
    for a, b, y, how in (
        ((2, 9, 16), (2, 16, 12), (2, 9, 12), {}),
        ((2, 9, 16), (2, 12, 16), (2, 9, 12), {"adjY": True}),
        ((2, 16, 9), (2, 16, 12), (2, 9, 12), {"adjX": True}),
        ((1, 3, 9, 16), (1, 3, 16, 12), (1, 3, 9, 12), {}),
        ((2, 3, 9, 16), (2, 3, 12, 16), (2, 3, 9, 12), {"adjY": True}),
        ((60, 40), (40, 50), (60, 50), {}),
    ):
        wanted = {"adjX": False, "adjY": False, **how}
        yield Case("BATCH_MATMUL", (a, b), (y,), "BatchMatMulOptions", wanted, dtypes=("int8",))
        yield Case("BATCH_MATMUL", (a,), (y,), "BatchMatMulOptions", wanted, dtypes=("int8",), operands={1: b})


def resizes() -> Iterator[Case]:
    """Yields choices of the nearest pixel."""
    table = "ResizeNearestNeighborOptions"
    for x, y in (((1, 5, 6, 3), (1, 10, 12, 3)), ((2, 7, 9, 4), (2, 13, 5, 4)), ((1, 17, 33, 2), (1, 8, 64, 2))):
        for how in ({}, {"alignCorners": True}, {"halfPixelCenters": True}):
            yield Case("RESIZE_NEAREST_NEIGHBOR", (x,), (y,), table, how, {1: y[1:3]}, same=True)


def transposed_convolution(
    dtype: str, per_channel: bool, steps: tuple[int, int], same: bool, bias: bool, seed: int = 0
) -> bytes:
    """Returns one TRANSPOSE_CONV. same: whether its padding is SAME, not VALID."""
    rng, f = np.random.default_rng(seed), File()
    offset, channels, outputs, size, taps = (0 if dtype == "int8" else 128), 6, 5, (9, 11), (3, 4)
    x = f.tensor("x", [2, *size, channels], dtype, 0.04, 3 + offset)
    scales = rng.uniform(0.002, 0.01, outputs if per_channel else 1).astype(np.float32)
    codes = rng.integers(offset - 127, offset + 128, (outputs, *taps, channels))
    w = f.tensor("w", [outputs, *taps, channels], dtype, scales, offset, codes)
    sides = [n * s if same else (n - 1) * s + t for n, s, t in zip(size, steps, taps, strict=True)]
    dims = f.tensor("dims", [4], "int32", None, value=np.array([2, *sides, outputs]))
    more = [f.tensor("b", [outputs], "int32", np.float32(0.04) * scales, 0, rng.integers(-4000, 4000, outputs))]
    y = f.tensor("y", [2, *sides, outputs], dtype, 0.21, offset - 5)
    how = {"strideH": steps[0], "strideW": steps[1], "padding": 0 if same else 1}
    f.operator("TRANSPOSE_CONV", [dims, w, x, *(more if bias else [])], [y], "TransposeConvOptions", **how)
    f.inputs, f.outputs = [x], [y]
    return f.written()
