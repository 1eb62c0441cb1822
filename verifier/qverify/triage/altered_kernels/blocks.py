"""Orders in which a kernel may add summands, and blocks of neighbours in these orders: pairs, tiles of the depth, taps,
channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.triage.altered_kernels.narrow_floats import significant

Array = npt.NDArray[Any]
SIZES = (2, 4, 8, 16, 32, 64, 128, 256)
MAX_BLOCKS = 1500  # of one sum; more take too long


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of neighbouring summands.

    Attributes:
        texts: texts that describe a block, which are equivalent at this node (by its size, by the structure).
        order: "channels outer", "channels inner" or "backward".
        size: number of summands in a block.
    """

    texts: tuple[str, ...]
    order: str
    size: int

    def ordered(self, products: Array) -> Array:
        """Returns products [S, channels, kernel rows, kernel columns] as [S, K] in this order."""
        count = len(products)
        if self.order == "channels inner":
            return products.transpose(0, 2, 3, 1).reshape(count, -1)
        if self.order == "backward":
            return products[:, :, ::-1, ::-1].transpose(0, 2, 3, 1).reshape(count, -1)
        return products.reshape(count, -1)

    def sums(self, products: Array) -> Array:
        """Returns the sum of each block, [S, blocks]; the last block may be shorter."""
        flat = self.ordered(products)
        padded = np.pad(flat, ((0, 0), (0, -flat.shape[1] % self.size)))
        return padded.reshape(len(flat), -1, self.size).sum(2)


def blocks_of(shape: tuple[int, ...], op: str, least: int = 2) -> list[Blocks]:
    """Returns the ways to divide summands [channels, kernel rows, kernel columns] into two or more blocks of at least
    `least` summands."""
    channels, rows, columns = shape
    count, taps = channels * rows * columns, rows * columns
    texts: dict[tuple[str, int], list[str]] = {}

    def add(order: str, size: int, phrase: str) -> None:
        if least <= size < count and -(-count // size) <= MAX_BLOCKS:
            texts.setdefault((order, size), []).append(phrase)

    both = taps > 1 and channels > 1
    if both and op in ("conv", "conv_transpose"):
        add("channels outer", taps, "input channel (all its taps)")
        add("channels inner", channels, "kernel tap (all its channels)")
        add("channels inner", channels * columns, "kernel row (all its channels)")
        if op == "conv_transpose":
            add("backward", channels, "kernel tap (all its channels), from the last tap to the first")
    elif rows > 1 and columns > 1:
        add(
            "channels outer",
            columns,
            "row of a plane" if op in ("global_average_pool", "reduce_mean") else "kernel row",
        )
    if op == "conv_transpose" and channels == 1:
        add("backward", 1, "kernel tap, from the last to the first")
        add("channels outer", 1, "kernel tap")
    for size in SIZES:
        text = f"{size} summands" if op != "matmul" and not both else f"{size} steps of the depth"
        add("channels outer", size, text + (" in the order channel, kernel row, kernel column" if both else ""))
        if both:
            add("channels inner", size, f"{text} in the order kernel row, kernel column, channel")
    add("channels outer", -(-count // 2), "half of the sum (its first, then its second half)")
    if both:
        add("channels outer", -(-channels // 2) * taps, "half of the input channels")
    if least == 1:
        add("channels outer", 1, "summand")
    return [Blocks(tuple(phrases), order, size) for (order, size), phrases in texts.items()]


def saturated_sums(sums: Array, width: Any) -> Array:
    """Returns the sums saturated at so many bits (one number, or an array that broadcasts)."""
    half = np.int64(1) << (np.asarray(width, np.int64) - 1)
    return np.minimum(np.maximum(sums, -half), half - 1)


def rounded_sums(sums: Array, bits: Any) -> Array:
    """Returns the sums rounded to so many significant bits (one number, or an array that broadcasts)."""
    return significant(sums.astype(np.float64), bits).astype(np.int64)
