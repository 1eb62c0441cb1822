"""Checks whether the differences of a board with documented kernels are ones that these kernels may produce, which is
only near a tie of the rounding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qverify.compare.error_bounds.bounded_values import NoBound, Whole
from qverify.compare.error_bounds.documented_kernels import TooMany, evaluate_documented, is_fixed_point_add
from qverify.compare.error_bounds.own_places import evaluate_own_places
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.plural import count
from qverify.tensors.recording import Array

NAMES = {
    "litert-reference": "LiteRT's reference kernels",
    "litert-optimized": "LiteRT's optimised kernels",
    "litert-xnnpack": "XNNPACK's kernels",
    "onnxruntime": "onnxruntime's processor kernels",
}
FIXED_POINT = "as onnxruntime adds on aarch64: fixed point with multipliers of 22 bits, bit for bit"


@dataclass(frozen=True, slots=True)
class RoundingExplanation:
    """The extent to which documented kernels explain the differences of one tensor.

    Attributes:
        unexplained: number of elements that differ by more than these kernels may.
        limit: the limit that was applied, in words.
        why: if there are unexplained elements, which ones; else the kernel that computes exactly the recorded elements,
            or "" if none is known.
    """

    unexplained: int
    limit: str
    why: str = ""


def explain(
    unit: Unit,
    output: str,
    graph: Graph,
    given: Mapping[str, Array],
    made: Array,
    recorded: Array,
    kernels: str,
    limit: str,
) -> RoundingExplanation:
    """Returns how far the differences between both arrays are explained.

    Args:
        unit: the unit that computes the tensor.
        output: name of the tensor.
        graph: the graph of the unit.
        given: the unit's inputs, recorded by the side that recorded `recorded`.
        made: the output that the other side computes from these inputs.
        recorded: the recorded output.
        kernels: the kernels of the recorded side, a key of NAMES.
        limit: the limit that both arrays are within, in words. It is kept if the unit cannot be evaluated.
    """
    flat_made, flat_recorded = made.reshape(-1), recorded.reshape(-1)
    if flat_made.dtype.kind not in "iu":
        return RoundingExplanation(0, limit)
    differing, largest = np.flatnonzero(flat_made != flat_recorded), 0.0
    outside = [differing[:0]]
    try:
        for at, value in evaluate_documented(unit, output, graph, given, differing, kernels):
            assert isinstance(value, Whole)
            inside = [
                (value.low <= side) & (side <= value.high)
                for side in (flat_made[at].astype(np.int64), flat_recorded[at].astype(np.int64))
            ]
            outside.append(at[~(inside[0] & inside[1])])
            if value.error is not None:
                largest = max(largest, float(value.error.max(initial=0.0)))
    except NoBound as why:
        return RoundingExplanation(0, f"{limit} (no float64 evaluation of {why})")
    except (TooMany, ValueError, IndexError, MemoryError) as error:
        return RoundingExplanation(
            len(differing), limit, f"{NAMES[kernels]} could not be evaluated: {str(error) or type(error).__name__}"
        )
    unexplained = np.concatenate(outside)
    if not unexplained.size:
        fixed = kernels == "onnxruntime" and is_fixed_point_add(unit, graph, given, recorded)
        return RoundingExplanation(0, f"{limit}, within {largest:.2g} LSB of a tie", FIXED_POINT if fixed else "")
    where = [int(i) for i in np.unravel_index(int(unexplained[0]), recorded.shape)]
    some = count(len(unexplained), "element", "differs", "differ")
    return RoundingExplanation(len(unexplained), limit, f"{some} where {NAMES[kernels]} have no tie, first {where}")


def explain_places(
    unit: Unit, graph: Graph, given: Mapping[str, Array], made: Array, recorded: Array, kernels: str
) -> RoundingExplanation | None:
    """Returns how far the differing elements are what the board's own kernel computes for samples at its own places, or
    None if these places are not known. The arguments are those of explain()."""
    differing = np.flatnonzero(made.reshape(-1) != recorded.reshape(-1))
    try:
        possible = evaluate_own_places(unit, graph, given, differing, kernels)
    except (ValueError, IndexError, MemoryError):
        return None
    if possible is None or possible.error is None:
        return None
    value = recorded.reshape(-1)[differing].astype(np.int64)
    wrong = differing[(value < possible.low) | (value > possible.high)]
    error = float(possible.error.max(initial=0.0))
    limit = f"what {NAMES[kernels]} give at their own places, within {error:.2g} LSB of a tie"
    if not wrong.size:
        return RoundingExplanation(0, limit)
    where = [int(i) for i in np.unravel_index(int(wrong[0]), recorded.shape)]
    return RoundingExplanation(len(wrong), limit, f"beyond {limit}: {count(len(wrong), 'element')}, first {where}")
