"""OneOp: one operator with its operands, as a probe of how a board computes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Operand:
    """A quantized operand.

    Attributes:
        codes: the stored integers.
        scale: float32, one, or one for each index of `axis`.
        zero: the zero point.
        axis: axis of the scales.
    """

    codes: Array
    scale: Array
    zero: int = 0
    axis: int = 0

    def real(self) -> Array:
        """Returns the real values that the integers stand for, float32."""
        along = [1] * self.codes.ndim
        if self.scale.size > 1:
            along[self.axis] = -1
        steps = (self.codes.astype(np.int64) - self.zero).astype(np.float32)
        return np.asarray(steps * self.scale.reshape(along), np.float32)


@dataclass(frozen=True, slots=True)
class OneOp:
    """One operator of ONNX between quantized tensors.

    Attributes:
        op: the op, as NUMERICS.md names it.
        name: what it is, in words; unique among the probes of a run.
        kind: the operator of ONNX, or "" for a change of the quantization alone.
        inputs: what it reads, besides constants.
        scale, zero, dtype: quantization of its output.
        weight: constant weights, if it has any.
        bias: constant int32 bias, if it has one.
        attributes: those of the operator.
        axes: constant axes, the last input of ReduceMean.
        sizes: constant sizes of the output, the last input of Resize.
    """

    op: str
    name: str
    kind: str
    inputs: tuple[Operand, ...]
    scale: float
    zero: int
    dtype: str
    weight: Operand | None = None
    bias: Array | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    axes: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """The beginning of the names of its tensors: its name, with letters and digits only."""
        return "".join(c if c.isalnum() else "_" for c in self.name)

    @property
    def output(self) -> str:
        """The name of its output, as stored integers."""
        return f"{self.key}_y"

    def feeds(self) -> dict[str, Array]:
        """Returns the real values of its inputs by name, which are whole steps of their scales."""
        return {f"{self.key}_{'abc'[i]}": operand.real() for i, operand in enumerate(self.inputs)}
