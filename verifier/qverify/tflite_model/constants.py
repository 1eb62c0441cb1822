"""Reads the constants of a .tflite from their bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
DTYPES = {
    "FLOAT16": "float16", "FLOAT32": "float32", "FLOAT64": "float64", "BOOL": "bool", "COMPLEX64": "complex64",
    "INT2": "int2", "INT4": "int4", "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64",
    "UINT4": "uint4", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64",
}  # fmt: skip
PACKED = {"int2": 2, "int4": 4, "uint4": 4}  # types of which a byte has several elements, the first in the lowest bits


def read_constant(data: Array, dtype: str, shape: tuple[int, ...]) -> Array:
    """Returns the constant whose bytes are `data`: unpacked if its type is in PACKED, its bytes themselves if it is not in
    DTYPES. Raises ValueError if there are more or fewer bytes than its shape needs."""
    if dtype not in DTYPES.values():
        return data
    elements = math.prod(shape)
    per_byte = 8 // PACKED[dtype] if dtype in PACKED else 1
    kind = np.dtype(np.uint8 if dtype in PACKED else dtype).newbyteorder("<")
    if len(data) != -(-elements // per_byte) * kind.itemsize:
        raise ValueError(f"a constant of {len(data)} bytes, and its tensor is {list(shape)} of {dtype}")
    values = data.view(kind)  # no copy: many tensors may share one buffer
    return (_unpack(values, PACKED[dtype], dtype)[:elements] if dtype in PACKED else values).reshape(shape)


def _unpack(data: Array, bits: int, dtype: str) -> Array:
    """Returns each element in a byte of its own."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    fields = ((data[:, None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(-1)
    if dtype.startswith("u"):
        return fields
    up = np.uint8(8 - bits)  # the sign bit of the field becomes that of the byte
    return (fields << up).view(np.int8) >> np.int8(up)
