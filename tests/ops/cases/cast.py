"""cast: reference cases and random nodes."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes

TYPES = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}
TYPES |= {
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "uint16": TensorProto.UINT16,
    "int16": TensorProto.INT16,
}


@reference(integer=False)
def cast_of_floats_and_back(m: Qdq) -> None:
    x = m.input((2, 11, 3), -40, 50)
    for dtype in ("int32", "int64", "bool", "uint8", "int8", "uint16", "int16"):
        m.output(m.op("Cast", [m.op("Cast", [x], to=TYPES[dtype])], to=TensorProto.FLOAT))


@reference(integer=False)
def cast_of_integers(m: Qdq) -> None:
    index = m.op("ArgMax", [m.input((2, 11, 3))], axis=1, keepdims=0)
    m.output(m.op("Cast", [index], to=TensorProto.BOOL))
    m.output(m.op("Cast", [m.op("Cast", [index], to=TensorProto.INT32)], to=TensorProto.INT64))


def random_nodes(r: RandomNodes) -> None:
    """Every pair of types: both ends, ties of the rounding to float32, and floats that no integer type holds."""
    ends = [-(2**31), 2**31 - 1, 2**24 + 1, 2**24 + 3, -1, 0, 1, 256, *r.rng.integers(-999, 999, 9)]
    wide = [-(2**63), 2**63 - 1, 2**32, 2**31, 2**53 + 1, 2**40 + 2**16, *ends]
    floats = [
        np.nan,
        np.inf,
        -np.inf,
        3e9,
        -3e9,
        2.0**31,
        -(2.0**31),
        2.0**63,
        -(2.0**63),
        0.9,
        -0.9,
        -0.0,
        1e-45,
        7.5,
        300,
        -5,
        -129,
    ]
    inputs = [np.array(ends, np.int32), np.array(wide, np.int64), np.array(floats, np.float32), np.array([True, False])]
    inputs += [r.rng.integers(0, 1 << 16, 99).astype(t) for t in ("uint16", "int16")]
    inputs += [np.arange(256).astype(np.uint8), np.arange(-128, 128).astype(np.int8)]
    for x in inputs:
        for to in TYPES:
            r.node("cast", (r.plain(x),), r.plain_output(to, x.shape))
