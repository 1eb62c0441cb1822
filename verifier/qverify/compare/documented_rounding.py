"""Whether the differences of a board whose kernels are documented are those that they may have: only near a tie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qverify.compare.error_bounds.bounded_values import NoBound, Whole
from qverify.compare.error_bounds.documented import TooMany, documented, is_fixed_point_add
from qverify.compare.error_bounds.own_places import own_places
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
    """unexplained: how many elements differ by more than these kernels may. limit: the limit as applied, in words. why: of
    the elements that are not explained; else which kernel gives them, "" where that is not known."""

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
    """Returns which differences between both arrays are explained. given: the unit's inputs, as recorded beside `recorded`.
    kernels: of the side that recorded it, a key of NAMES. limit: that both arrays are within, in words; it stays where
    there is no evaluation."""
    one, other = made.reshape(-1), recorded.reshape(-1)
    if one.dtype.kind not in "iu":
        return RoundingExplanation(0, limit)
    differ, largest = np.flatnonzero(one != other), 0.0
    wrong = [differ[:0]]
    try:
        for at, value in documented(unit, output, graph, given, differ, kernels):
            assert isinstance(value, Whole)
            inside = [
                (value.low <= side) & (side <= value.high)
                for side in (one[at].astype(np.int64), other[at].astype(np.int64))
            ]
            wrong.append(at[~(inside[0] & inside[1])])
            if value.error is not None:
                largest = max(largest, float(value.error.max(initial=0.0)))
    except NoBound as why:
        return RoundingExplanation(0, f"{limit} (no float64 evaluation of {why})")
    except (TooMany, ValueError, IndexError, MemoryError) as error:
        return RoundingExplanation(
            len(differ), limit, f"{NAMES[kernels]} could not be evaluated: {str(error) or type(error).__name__}"
        )
    lost = np.concatenate(wrong)
    if not lost.size:
        fixed = kernels == "onnxruntime" and is_fixed_point_add(unit, graph, given, recorded)
        return RoundingExplanation(0, f"{limit}, within {largest:.2g} LSB of a tie", FIXED_POINT if fixed else "")
    where = [int(i) for i in np.unravel_index(int(lost[0]), recorded.shape)]
    some = count(len(lost), "element", "differs", "differ")
    return RoundingExplanation(len(lost), limit, f"{some} where {NAMES[kernels]} have no tie, first {where}")


def explain_places(
    unit: Unit, graph: Graph, given: Mapping[str, Array], made: Array, recorded: Array, kernels: str
) -> RoundingExplanation | None:
    """Returns how many of the elements that differ are not what the board's own kernel gives at its own places; None where
    these are not known. The other arguments as for explain()."""
    differ = np.flatnonzero(made.reshape(-1) != recorded.reshape(-1))
    try:
        found = own_places(unit, graph, given, differ, kernels)
    except (ValueError, IndexError, MemoryError):
        return None
    if found is None or found.error is None:
        return None
    value = recorded.reshape(-1)[differ].astype(np.int64)
    wrong = differ[(value < found.low) | (value > found.high)]
    limit = (
        f"what {NAMES[kernels]} give at their own places, within {float(found.error.max(initial=0.0)):.2g} LSB of a tie"
    )
    if not wrong.size:
        return RoundingExplanation(0, limit)
    where = [int(i) for i in np.unravel_index(int(wrong[0]), recorded.shape)]
    return RoundingExplanation(len(wrong), limit, f"beyond {limit}: {count(len(wrong), 'element')}, first {where}")
