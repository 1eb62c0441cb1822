"""PreparedInputs: the aligned raw bytes of every model input, made once and shared by all sides."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from qverify.tensors.spec import TensorSpec


@dataclass(frozen=True)
class PreparedInput:
    """One prepared model input.

    Attributes:
        spec: spec of the input.
        data: the aligned bytes (spec.size_bytes).
        source: a path, or `random`.
        seed: seed of a random input, else None.
        is_bgr: whether its three channels are blue, green and red, as its description states.
    """

    spec: TensorSpec
    data: bytes
    source: str
    seed: int | None = None
    is_bgr: bool = False

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def array(self) -> npt.NDArray[np.generic]:
        """Returns the valid elements, shape spec.shape."""
        return self.spec.valid_view(self.data)


@dataclass(frozen=True)
class PreparedInputs:
    """The inputs of one run, in the graph's order. step, feed: of a sequence, for runners that keep a state of their own; None and
    "" without one. keep: final outputs that may be inputs of the next run, so that the board's store should keep them. sha256: hash over the names and hashes of all inputs."""

    inputs: tuple[PreparedInput, ...]
    step: int | None = None
    feed: str = ""
    keep: tuple[str, ...] = ()

    @cached_property
    def sha256(self) -> str:
        text = "".join(f"{i.spec.name}\0{i.sha256}\n" for i in self.inputs)
        return hashlib.sha256(text.encode()).hexdigest()

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Returns the valid elements by input name."""
        return {i.spec.name: i.array() for i in self.inputs}
