"""Notices that a device dequantized an output with another scale while its chip rounds in its own way, so that no mistake
reproduces what it wrote."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.compare.find_scales import describe_scale, find_factor, find_scale
from qverify.compare.orders import list_orders
from qverify.outputs.recipe import Output
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[Any]
MOST_ORDERS = 8  # of the axes, that are tried


def find_near_scale(name: str, theirs: Array, outputs: dict[str, Output]) -> str:
    """Returns the sentence on an output that is not explained exactly, or "". theirs: the device's values."""
    wanted = np.asarray(outputs[name].real(), np.float64)
    if theirs.dtype.kind != "f" or theirs.size != wanted.size or not np.isfinite(wanted).all():
        return ""
    specs = {n: _describe(n, output) for n, output in outputs.items() if len(output.scale) == 1}
    own = specs.get(name)
    others = [s for n, s in specs.items() if n != name and own is not None and s.scale != own.scale]
    for words, given in _list_readings(theirs.astype(np.float64), wanted.shape):
        a, b = wanted.reshape(-1), given.reshape(-1)
        if not np.isfinite(b).all():
            return ""
        if own is not None and (other := find_scale(a, b, own, others)) is not None:
            return describe_scale(own, other, "that the device wrote", "of the reference") + words
        if (factor := find_factor(a, b)) is not None:
            return f"the values are {factor:.3g} times those of the reference, but for rounding: a scale{words}"
    return ""


def _describe(name: str, output: Output) -> TensorSpec:
    return TensorSpec(name, output.values.dtype.name, output.values.shape, scale=output.scale, zero_point=output.zero)


def _list_readings(theirs: Array, shape: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    """Yields the device's values in the order of the reference: as they are, then with the axes in other orders."""
    yield "", theirs
    for order in islice((o for o in list_orders(theirs, shape) if not o.block), MOST_ORDERS):
        yield f" ({order.words})", np.ascontiguousarray(order.view)
