"""Runs a model on inputs that qverify drew itself. onnxruntime may reject them, since integers may be indices or
lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

import numpy as np

from qverify.errors import BadFileError, OwnInputsError
from qverify.onnx_model.engine import Array

INDEX_BYTES = 4  # size of the smallest integers that are indices


class Runs(Protocol):
    """An engine, or a chain of them."""

    def run(self, feed: Mapping[str, Array], names: Sequence[str] | None = None) -> dict[str, Array]: ...


def run_on_own_inputs(
    engine: Runs, drawn: Mapping[str, Array], names: Sequence[str] | None
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Runs the engine on inputs that were drawn for a check. If onnxruntime rejects them, runs it with 0 for all integers
    of 32 and 64 bits, which is valid for most indices, then with 1, which is valid for most lengths and divisors.
    Returns the inputs of the run that succeeded, and the named outputs, all by default. Raises OwnInputsError if
    onnxruntime rejects all of them."""
    try:
        return dict(drawn), engine.run(drawn, names)
    except BadFileError as error:
        first = error
    for number in (0, 1):
        feed = {n: np.full_like(v, number) if _may_be_index(v) else v for n, v in drawn.items()}
        with suppress(BadFileError):
            return feed, engine.run(feed, names)
    raise OwnInputsError(
        f"the random inputs that qverify draws for its check were rejected, also with 0 and 1 for integers: {first}. "
        "Compile with --no-check, and verify with inputs of your own (-i)"
    ) from first


def _may_be_index(value: Array) -> bool:
    return value.dtype.kind in "iu" and value.dtype.itemsize >= INDEX_BYTES
