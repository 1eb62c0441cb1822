"""A normalization of nearly constant rows: float32 variances cancel there, so the reference is not judged, and others are held
to the exact value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qverify.compare.distance import measure_distance
from qverify.compare.foreign import ForeignUnit, judge_foreign
from qverify.compare.limits import choose_foreign_limit, limit_for
from qverify.compare.tie_aware import ExactUnit, TieAwareResult, check_both, choose_tie_aware_limit
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.report.document import Forced
from qverify.tensors.spec import TensorSpec

from tests.plain.error_pages import word

Array = Any
RNG = np.random.default_rng(8)
X = ((180 + RNG.integers(-1, 2, (6, 64)) * (RNG.random((6, 64)) < 0.1)) * np.float32(0.05)).astype(np.float32)


def network() -> Graph:
    specs = {n: TensorSpec(n, "float32", X.shape) for n in ("x", "y")}
    specs |= {n: TensorSpec(n, "float32", (64,)) for n in ("g", "b")}
    ones = np.ones(64, np.float32)
    node = Node("y", "layer_norm", ("x", "g", "b"), ("y",), (64, word(1e-5)))
    return Graph([node], specs, {"g": ones, "b": 0 * ones}, ("x",), ("y",))


def exact() -> Array:
    wide = X.astype(np.float64)
    eps = float(np.float32(1e-5))
    y = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + eps)
    return y.astype(np.float32)


def coarse() -> Array:
    """Returns what a float32 mean that is off by a roundoff gives."""
    mean = np.nextafter(X.mean(1, keepdims=True, dtype=np.float64).astype(np.float32), np.float32(100))
    spread = ((X - mean) ** 2).mean(1, keepdims=True, dtype=np.float32)
    return (X - mean) / np.sqrt(spread + np.float32(1e-5))


def checked(made: Array, recorded: Array) -> TieAwareResult:
    graph = network()
    unit = units(graph)[0]
    plain = limit_for(unit, "y", graph)
    limit, by_ties = choose_tie_aware_limit(plain, unit, "y", graph)
    assert by_ties
    result = check_both(ExactUnit(unit, "y", graph, {"x": X}), made, recorded, limit, plain)
    assert isinstance(result, TieAwareResult)
    return result


def judged(made: Array, recorded: Array) -> Forced:
    graph = network()
    unit = units(graph)[0]
    limit = choose_foreign_limit(limit_for(unit, "y", graph), graph.spec("y"))
    measured = measure_distance(made, recorded, graph.spec("y"), limit, "reference", "board")
    return judge_foreign(ForeignUnit(unit, "y", graph, {"x": X}, made, recorded, "", True), measured)


def test_the_reference_may_be_imprecise_and_the_simulator_may_not() -> None:
    assert np.abs(coarse() - exact()).max() > 2.0**-18 * np.abs(exact()).max()
    found = checked(coarse(), exact())
    assert found.holds and found.lost > 99
    assert not checked(exact(), exact() + np.float32(1e-4)).holds


def test_a_board_with_the_exact_value_is_right() -> None:
    assert judged(coarse(), exact()).verdict == "PASSED"
    assert judged(exact(), exact() * np.float32(1 + 2.0**-20)).verdict == "PASSED"


@pytest.mark.parametrize("off", [1e-4, 2e-5, -1e-4])
def test_a_board_that_is_shifted_in_every_row_is_open(off: float) -> None:
    """Each row of a board may be shifted by the rounding of its own mean, but hardly all of them to one side."""
    found = judged(exact(), exact() + np.float32(off))
    assert found.verdict == "INCONCLUSIVE" and "on one side of the exact value, in every row" in found.why
    signs = np.where(np.arange(len(X)) % 2, 1, -1)[:, None].astype(np.float32)
    assert judged(exact(), exact() + np.float32(off) * signs).verdict == "PASSED"
