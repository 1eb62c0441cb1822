"""Drawn: one operator with operands from which the cases of the vectors are chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from qverify.compare.probing.draws import random_of
from qverify.tensors.one_op import OneOp, Operand

Array = npt.NDArray[Any]
Rng = np.random.Generator
SCALE_Y = float(np.float32(0.0473))


@dataclass(frozen=True)
class Drawn:
    """One operator with operands, of which a part becomes a case.

    Attributes:
        probe: the operator.
        what: the case in words.
        a, b: what a kernel is given for each item, [items, ...]; b is None where there is no second operand.
        items_of: function that returns the output as [items, results].
        scales, zeros: those of the operands and of the output.
        count: as vectors/README.md states it for the op.
        most: how many items are taken.
        edges: how many items at the beginning are always taken.
        types: the types of a, b and of the output.
    """

    probe: OneOp
    what: str
    a: Array
    b: Array | None
    items_of: Callable[[Array], Array]
    scales: tuple[float, ...]
    zeros: tuple[int, ...]
    count: int
    most: int
    edges: int
    types: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """Returns the operands that are inputs of the network."""
        return self.probe.inputs


def in_rows(output: Array) -> Array:
    """Returns an output as items of one result each, in the order of its elements."""
    return output.reshape(-1, 1)


def scale32(value: float) -> float:
    """Returns the nearest float32."""
    return float(np.float32(value))


def codes(rng: Rng, shape: tuple[int, ...], dtype: str) -> Array:
    """Returns random integers of the type, the first and last of which are its ends."""
    limits = np.iinfo(dtype)
    found = rng.integers(limits.min, limits.max + 1, shape)
    found.reshape(-1)[[0, -1]] = limits.min, limits.max
    return found.astype(dtype)


def middle(dtype: str, offset: int) -> int:
    """Returns the zero point that lies so far from the middle of the type's range."""
    return (128 if dtype == "uint8" else 0) + offset


__all__ = ["SCALE_Y", "Array", "Drawn", "Rng", "codes", "in_rows", "middle", "random_of", "scale32"]
