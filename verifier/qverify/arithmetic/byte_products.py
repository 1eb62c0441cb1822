"""Computes exact matrix products of 8-bit operands as they are stored, if oneDNN can; see one_dnn.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.one_dnn import OneDnn, load_one_dnn
from qverify.arithmetic.workers import run_blocks, split_range

Array = npt.NDArray[Any]
COLUMNS = 1024  # of a block
FEW_MULTIPLICATIONS = 1 << 19  # numpy multiplies so few faster (measured)


@dataclass(frozen=True, slots=True)
class ByteProduct:
    """The product (a - zeros[0]) @ (b - zeros[1]) of 8-bit matrices.

    Attributes:
        engine: the library.
        zeros: zero points of a and, as a number of int8, of b.
        dtype: type of the sums, which are exact in it.
    """

    engine: OneDnn
    zeros: tuple[int, int]
    dtype: np.dtype[Any]

    def multiply(self, a: Array, b: Array) -> Array:
        """Returns the product in `dtype`. a: [M, K] or [count, M, K], as stored; b: [K, N] or [count, K, N], int8 (see
        signed_bytes())."""
        out = np.empty((*a.shape[:-1], b.shape[-1]), np.int32)
        if a.ndim == 2:
            self.engine.multiply(a, b, self.zeros, out)
        else:
            for left, right, product in zip(a, b, out, strict=True):
                self.engine.multiply(left, right, self.zeros, product)
        return out.astype(self.dtype)

    def sum_products(self, a: Sequence[Array], b: Sequence[Array], bias: Array | None) -> Array:
        """Returns the sum of the products of these matrices, and of the bias (int32 [M], or None), in `dtype`."""
        out = np.empty((len(a[0]), b[0].shape[1]), np.int32)
        for i, (left, right) in enumerate(zip(a, b, strict=True)):
            self.engine.multiply(left, right, self.zeros, out, None if i else bias, add=i > 0)
        return out.astype(self.dtype)


def multiply_bytes(a: Array, zeros_a: Array | None, b: Array, zeros_b: Array | None) -> Array | None:
    """Returns (a - zeros_a) @ (b - zeros_b) in int32, or None where oneDNN cannot compute it or is not faster. a:
    [..., K]; b: [K, N]. No zero points are zero points of 0."""
    if b.ndim != 2 or a.ndim < 2:
        return None
    rows = a.reshape(-1, a.shape[-1])
    operands = (_operand(a, zeros_a, (1,)), _operand(b, zeros_b, (1, b.shape[1])))
    product = plan_byte_product(*operands, (len(rows) * b.shape[1], len(b)), np.dtype(np.int32))
    if product is None:
        return None
    out = np.empty((len(rows), b.shape[1]), np.int32)

    def block(columns: slice) -> None:
        product.engine.multiply(rows, signed_bytes(b[:, columns]), product.zeros, out[:, columns])

    run_blocks([partial(block, columns) for columns in split_range(b.shape[1], COLUMNS)])
    return out.reshape(*a.shape[:-1], b.shape[1])


def _operand(values: Array, zeros: Array | None, sizes: tuple[int, ...]) -> tuple[str, list[int]]:
    """Returns the dtype of an operand and its zero points; none if they are not of these sizes or of another type."""
    if zeros is None:
        return values.dtype.name, [0]
    fits = zeros.dtype == values.dtype and zeros.size in sizes
    return values.dtype.name, [int(zero) for zero in zeros.reshape(-1)] if fits else []


def plan_byte_product(
    a: tuple[str, Sequence[int]],
    b: tuple[str, Sequence[int]],
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    bias: Array | None = None,
) -> ByteProduct | None:
    """Returns a product of bytes, or None where oneDNN cannot compute it or is not faster.

    Args:
        a, b: dtype and zero points of the operands.
        shape: number of sums, and of the terms of each.
        dtype: type in which the sums are exact.
        bias: whole numbers that are added, or None.
    """
    sums, terms = shape
    largest = terms * 255 * 255
    if bias is not None and bias.size:
        largest += max(int(bias.max()), -int(bias.min()))
    if sums * terms < FEW_MULTIPLICATIONS or largest >= 1 << 31:
        return None
    zero_a, zero_b = _zero_point_of(*a), _zero_point_of(*b)
    if zero_a is None or zero_b is None:
        return None
    engine = load_one_dnn()
    if engine is None:
        return None
    return ByteProduct(engine, (zero_a, zero_b - (128 if b[0] == "uint8" else 0)), dtype)


def _zero_point_of(dtype: str, zeros: Sequence[int]) -> int | None:
    """Returns the zero point of an 8-bit operand. None if it has several, or one that is not a number of its type, as
    in a fault that triage tries."""
    if dtype not in ("uint8", "int8") or len(set(zeros)) != 1:
        return None
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return zeros[0] if low <= zeros[0] <= high else None


def signed_bytes(values: Array) -> Array:
    """Returns uint8 values minus 128 as int8, and int8 values unchanged. Raises ValueError for other types."""
    if values.dtype not in (np.uint8, np.int8):
        raise ValueError(f"values of {values.dtype} as bytes")
    return values if values.dtype == np.int8 else (values ^ 0x80).view(np.int8)
