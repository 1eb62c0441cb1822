"""What a runtime's page opens: a model with named inputs and outputs."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from qverify_worker.errors import WRONG_INPUT, RequestError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Settings:
    """How a runtime runs models. providers: of onnxruntime, best first, each with its options. level: of optimization.
    threads: 0 for the library's own number. delegate: a shared library of LiteRT, with its options. kernels: "reference",
    "optimized" or "xnnpack", of LiteRT."""

    providers: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    level: str = ""
    threads: int = 1
    delegate: str = ""
    delegate_options: tuple[tuple[str, str], ...] = ()
    kernels: str = ""


class Model(Protocol):
    """inputs: name, dtype and dims of each, in order; a dim of 0 is not fixed. outputs: names in order. run: returns at
    least the `wanted` ones. report: what the runtime says of its last run, such as nodes by provider."""

    inputs: list[tuple[str, np.dtype[Any], tuple[int, ...]]]
    outputs: list[str]
    seconds: dict[str, float]

    def run(self, values: dict[str, Array], wanted: Collection[str]) -> dict[str, Array]: ...
    def time(self, values: dict[str, Array], wanted: Collection[str], runs: int) -> list[dict[str, float]]: ...
    def report(self) -> dict[str, Any]: ...


def as_inputs(model: Model, contents: list[bytes]) -> dict[str, Array]:
    """Returns the contents as the model's inputs, in its order. Raises RequestError where one has another size."""
    if len(contents) != len(model.inputs):
        raise RequestError(WRONG_INPUT, f"{len(contents)} inputs, wanted {len(model.inputs)}")
    values = {}
    for (name, dtype, dims), data in zip(model.inputs, contents):  # noqa: B905 (strict= is of Python 3.10)
        unknown, known = dims.count(0), math.prod(d for d in dims if d)
        count = len(data) // dtype.itemsize
        fits = len(data) % dtype.itemsize == 0 and (count == known if not unknown else known and count % known == 0)
        if not fits or unknown > 1:
            shape = "x".join(str(d or "?") for d in dims) or "a scalar"
            raise RequestError(WRONG_INPUT, f"input {name}: {len(data)} bytes, wanted {shape} of {dtype}")
        shape_of = tuple(d or count // known for d in dims)
        values[name] = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape_of)
    return values
