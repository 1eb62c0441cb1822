"""The interface of a model, which a module of runtimes/ opens: named inputs and outputs."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from qverify_worker.errors import FORMAT, WRONG_INPUT, RequestError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class RuntimeSettings:
    """The settings with which a runtime runs models.

    Attributes:
        providers: onnxruntime's execution providers, the preferred one first, each with its options.
        level: onnxruntime's level of graph optimization, or "" for its default.
        threads: number of threads, 0 for the library's default.
        delegate: path of a shared library with a LiteRT delegate, or "".
        delegate_options: the delegate's options.
        kernels: LiteRT's kernels: "reference", "optimized", "xnnpack", or "" for "optimized".
        disabled: names of onnxruntime's optimizers that do not run.
        finals_only: a .tflite offers its final outputs alone.
    """

    providers: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    level: str = ""
    threads: int = 1
    delegate: str = ""
    delegate_options: tuple[tuple[str, str], ...] = ()
    kernels: str = ""
    disabled: tuple[str, ...] = ()
    finals_only: bool = False


LEVELS = ("", "disable_all", "basic", "extended", "all")
MAX_DISABLED = 1000


def read_session(data: bytes, settings: RuntimeSettings) -> tuple[str, RuntimeSettings] | None:
    """Returns the content hash of the model, and the settings for it, that a content of JSON states: {"model": SHA-256,
    "level": "basic", "disabled": ["NAME"], "finals_only": false}; all but the model may be absent. Returns None for any other content, which is a model itself. Raises
    RequestError for JSON of another form."""
    if data[:1] != b"{":
        return None
    try:
        content = json.loads(data)
        model, level, disabled = content["model"], content.get("level", ""), content.get("disabled", [])
        finals_only = content.get("finals_only", False)
        fits = isinstance(model, str) and level in LEVELS and isinstance(disabled, list) and type(finals_only) is bool
        if not fits or len(disabled) > MAX_DISABLED or not all(isinstance(n, str) for n in disabled):
            raise ValueError("of another form")
    except (AttributeError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise RequestError(FORMAT, f"a session's settings: {' '.join(str(error).split())[:200]}") from error
    level = level or settings.level
    return model, replace(settings, level=level, disabled=tuple(disabled), finals_only=finals_only)


class Model(Protocol):
    """A model that a runtime has opened.

    `run` returns at least the `wanted` outputs by name. `time` returns, for each of `runs` runs, the seconds by output.
    `report` returns facts on the last run, such as the number of nodes by provider.

    Attributes:
        inputs: name, dtype and dims of each input, in order; a dim of 0 is not fixed.
        outputs: names of the outputs, in order.
        seconds: by output, the seconds that its nodes took in the last run, as far as they are known.
    """

    inputs: list[tuple[str, np.dtype[Any], tuple[int, ...]]]
    outputs: list[str]
    seconds: dict[str, float]

    def run(self, values: dict[str, Array], wanted: Collection[str]) -> dict[str, Array]: ...
    def time(self, values: dict[str, Array], wanted: Collection[str], runs: int) -> list[dict[str, float]]: ...
    def report(self) -> dict[str, Any]: ...


def decode_inputs(model: Model, contents: list[bytes]) -> dict[str, Array]:
    """Returns the model's inputs by name, from contents in the model's order. Raises RequestError if one has the wrong
    size."""
    if len(contents) != len(model.inputs):
        raise RequestError(WRONG_INPUT, f"{len(contents)} inputs, wanted {len(model.inputs)}")
    values = {}
    for (name, dtype, dims), data in zip(model.inputs, contents):  # noqa: B905 (strict= is of Python 3.10)
        open_dims, fixed_size = dims.count(0), math.prod(d for d in dims if d)
        count = len(data) // dtype.itemsize
        fits = len(data) % dtype.itemsize == 0 and (
            count == fixed_size if not open_dims else fixed_size and count % fixed_size == 0
        )
        if not fits or open_dims > 1:
            shape = "x".join(str(d or "?") for d in dims) or "a scalar"
            raise RequestError(WRONG_INPUT, f"input {name}: {len(data)} bytes, wanted {shape} of {dtype}")
        value_shape = tuple(d or count // fixed_size for d in dims)
        values[name] = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(value_shape)
    return values
