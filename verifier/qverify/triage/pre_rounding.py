"""The output before it is rounded: the unit is computed again with an output step that is 2^12 times smaller."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify import ops
from qverify.arithmetic.requantize import subtracts
from qverify.triage.case import Case, UnitChange, limits
from qverify.triage.linear_sums import OPS, WIDE_LIMITS, real_scale

Array = npt.NDArray[Any]
FINER_BITS = 12  # of the output step
WIDE_DTYPE = "int64"


@dataclass(frozen=True, slots=True)
class PreRounding:
    """The output before rounding. steps: float64, in output LSB with a resolution of 1/4096, before the zero point is
    added and the value is clipped. low, high: limits of the clip."""

    steps: Array
    zero_point: int
    low: int
    high: int


def pre_rounding(case: Case) -> PreRounding | None:
    """Returns the output before rounding, or None if the op rounds nothing or its output is not quantized per
    tensor."""
    return case.compute_once("unrounded", lambda: _pre_rounding(case))


def _pre_rounding(case: Case) -> PreRounding | None:
    if len(case.spec.scale) != 1:
        return None
    change = _finer(case)
    if change is None:
        return None
    words = ops.words(case.last)
    low, high = limits(case.spec)
    fine = case.recompute(change).astype(np.float64) / 2**FINER_BITS
    return PreRounding(fine, case.spec.zero_point[0], words.get("act_min", low), words.get("act_max", high))


def _finer(case: Case) -> UnitChange | None:
    node, spec = case.last, case.spec
    wide = replace(spec, dtype=WIDE_DTYPE, zero_point=(0,), scale=(spec.scale[0] / 2**FINER_BITS,))
    rq = case.graph.constants.get(node.inputs[-1] or "")
    specs = {case.output: wide}
    nodes = {node.name: replace(node, words=(*node.words[:-2], *WIDE_LIMITS))}
    if node.op in OPS and rq is not None:
        real = real_scale(case, rq, False) * 2.0**FINER_BITS
        return UnitChange(constants={node.inputs[-1] or "": real}, specs=specs, nodes=nodes)
    if node.op == "add" and rq is not None:
        words = ops.words(node) | {"act_min": WIDE_LIMITS[0], "act_max": WIDE_LIMITS[1]}
        nodes = {node.name: replace(node, words=tuple(words.values()))}
        return UnitChange(
            constants={node.inputs[2] or "": add_ratios(case) * 2.0**FINER_BITS}, specs=specs, nodes=nodes
        )
    if node.op == "average_pool" and rq is not None:
        ratio = np.float64(case.graph.spec(node.inputs[0] or "").scale[0]) / np.float64(spec.scale[0])
        return UnitChange(
            constants={node.inputs[1] or "": np.array([ratio * 2.0**FINER_BITS])}, specs=specs, nodes=nodes
        )
    if node.op in ("quantize", "resize_linear", "concat", "where"):
        return UnitChange(specs=specs)
    return None


def add_ratios(case: Case) -> Array:
    """Returns float64 [2]: the scales of an addition's operands divided by that of the output; the second is negative
    for a subtraction."""
    node, graph = case.last, case.graph
    rq = graph.constants[node.inputs[2] or ""]
    ratios = [np.float64(graph.spec(n or "").scale[0]) / np.float64(case.spec.scale[0]) for n in node.inputs[:2]]
    return np.array(ratios) * (1, -1 if subtracts(rq) else 1)
