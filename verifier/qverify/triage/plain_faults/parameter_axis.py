"""The scales or zero points of the weights belong to output channels, and are read along another axis of the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.near_ways import may_nearly_fit
from qverify.triage.altered_kernels.summed_elements import SummedElements, sample, whole, words_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "parameter-axis"
OPS = ("conv", "conv_transpose", "fully_connected", "matmul")
Index = Callable[[SummedElements], Array]  # of the parameter of each summand: broadcasts to the summands


def variants(case: Case) -> Iterator[FaultVariant]:
    spec = case.graph.spec(case.last.inputs[1] or "")
    if case.last.op not in OPS or len(case.unit.nodes) > 1 or sample(case) is None or spec.name in case.inputs:
        return
    count = max(len(spec.scale), len(spec.zero_point))
    for axis, (size, index) in _axes(case).items() if count > 1 else ():
        way_of_index = f" modulo {count}" if size > count else ""
        for what in _parameters(case):
            text = f"per-channel {what} of the weights: the index is {axis}{way_of_index} instead of the output channel"
            way = partial(_read, index=index, what=what)
            yield FaultVariant(
                text, partial(whole, way=way, in_parts=True), 4.0, may_fit=partial(may_nearly_fit, way=way)
            )


def _parameters(case: Case) -> list[str]:
    """Returns the parameters that differ between channels."""
    spec = case.graph.spec(case.last.inputs[1] or "")
    differing = [what for what, v in {"scales": spec.scale, "zero points": spec.zero_point}.items() if len({*v}) > 1]
    return [*differing, "scales and zero points"] if len(differing) > 1 else differing


def _axes(case: Case) -> dict[str, tuple[int, Index]]:
    """Returns the other axes of the weights: by name, the number of indices and what computes them."""
    shape, group = case.graph.spec(case.last.inputs[1] or "").shape, 1
    if case.last.op == "fully_connected":
        return {"the input channel": (shape[1], partial(_along, axis=1))}
    if case.last.op == "matmul":
        return {"the row of the matrix": (shape[-2], partial(_along, axis=1))}
    group = words_of(case)["group"]
    channels = case.graph.spec(case.last.inputs[0] or "").shape[1]
    axes: dict[str, tuple[int, Index]] = {"the input channel": (channels, _input_channel)}
    if group > 1:
        axes["the input channel in its group"] = (channels // group, partial(_along, axis=1))
    axes["the row of the kernel"] = (shape[2], partial(_along, axis=2))
    axes["the column of the kernel"] = (shape[3], partial(_along, axis=3))
    return {name: (size, index) for name, (size, index) in axes.items() if size > 1}


def _along(e: SummedElements, axis: int) -> Array:
    """Returns the place of each summand on this axis of the summands."""
    size = np.broadcast_shapes(e.summands.x.shape, e.summands.w.shape)[axis]
    return np.arange(size).reshape([-1 if at == axis else 1 for at in range(4)])


def _input_channel(e: SummedElements) -> Array:
    channels: int = e.case.graph.spec(e.case.last.inputs[0] or "").shape[1]
    return e.summands.plane % channels


def _read(e: SummedElements, index: Index, what: str) -> Array:
    """Returns the elements with these parameters read at the index, in float64."""
    spec, of = e.case.graph.spec(e.case.last.inputs[1] or ""), e.summands
    scales, zeros = np.array(spec.scale, np.float64), np.array(spec.zero_point)
    own, at = e.channel % max(len(scales), len(zeros)), index(e) % max(len(scales), len(zeros))
    right = scales[own % len(scales)]
    weights = of.w - zeros[at] if "zero" in what else of.centred_w
    factors = scales[at] if "scales" in what else right.reshape(-1, 1, 1, 1)
    products = of.centred_x * weights * factors
    steps = products.reshape(len(e.places), -1).sum(1) * (e.scale.astype(np.float64) / right)
    return e.finished(np.rint(steps + e.bias * e.scale.astype(np.float64)))
