"""A state of a network, and how inputs that the number of the step determines get their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

ARGMAX = "argmax"


@dataclass(frozen=True, slots=True)
class State:
    """An output that the next step reads as an input.

    Attributes:
        output, input: their names.
        initial: the value of every element in the first step, or the path of a .npy with the values.
        grows: the axis along which the output is longer than the input; None if both have one shape.
        via: "argmax" if the input gets the position of the output's largest value, else "".
        found: whether it was found by name, or is a variable of the file, not stated.
        raw: the bytes of the first step's values, if the file has them; None for `initial`.
    """

    output: str
    input: str
    initial: float | str = 0.0
    grows: int | None = None
    via: Literal["", "argmax"] = ""
    found: bool = False
    raw: bytes | None = None

    @property
    def shown(self) -> str:
        """The state in one line: h <- hn, from zeros."""
        start = "the file's values" if self.raw is not None else "zeros" if self.initial == 0 else f"{self.initial}"
        how = f", {self.via} of its last row" if self.via else ""
        grows = f", grows along axis {self.grows}" if self.grows is not None else ""
        how_found = " (variable of the file)" if self.raw is not None else " (found by name)" if self.found else ""
        return f"{self.input} <- {self.output}{how}, from {start}{grows}{how_found}"


@dataclass(frozen=True, slots=True)
class StepInput:
    """An input that the number of the step determines. kind: count, mask or same. start: of a count. found: as in State."""

    input: str
    kind: Literal["count", "mask", "same"]
    start: int = 0
    found: bool = False

    @property
    def shown(self) -> str:
        """The input in one line."""
        texts = {
            "count": "the number of the step" + (f" + {self.start}" if self.start else ""),
            "mask": "1 up to the number of the step",
            "same": "the same in every step",
        }
        return f"{self.input} = {texts[self.kind]}{' (found by name)' if self.found else ''}"

    def values(self, spec: TensorSpec, step: int) -> Array:
        """Returns the values of step `step`, in the type and shape of the input. Of `same` there are none: ValueError."""
        if self.kind == "count":
            return np.full(spec.shape, self.start + step, spec.dtype)
        if self.kind == "mask":
            row = np.arange(spec.shape[-1]) <= step + self.start
            return np.broadcast_to(row, spec.shape).astype(spec.dtype)
        raise ValueError(f"{self.input}: its values are those of a file")
