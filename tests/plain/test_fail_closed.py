"""What peers let pass must never be PASSED: nothing compared, missing, NaN, wrong size, other names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qverify.compare.decimals import RULES, unmatched
from qverify.compare.measure import measure
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec


def side(name: str, tensors: dict[str, np.ndarray], finals: tuple[str, ...] | None = None) -> Recording:
    specs = {n: TensorSpec(n, str(v.dtype), v.shape) for n, v in tensors.items()}
    return Recording(
        name,
        name,
        specs=specs,
        finals=finals if finals is not None else tuple(tensors),
        tensors=dict(tensors),
        capabilities=frozenset({"finals", "per_node"}),
    )


def verdict(a: Recording, b: Recording, **options) -> str:
    return judge_all({"reference": a, "simulator": b}, None, [], Options(**options), {}).verdict


ONE = np.arange(12, dtype=np.float32)


def test_equal_passes():
    assert verdict(side("reference", {"y": ONE}), side("simulator", {"y": ONE.copy()})) == "PASSED"


def test_nothing_compared():
    assert verdict(side("reference", {}), side("simulator", {})) == "INCONCLUSIVE"


def test_no_pair():
    assert judge_all({"reference": side("reference", {"y": ONE})}, None, [], Options(), {}).verdict == "INCONCLUSIVE"


def test_similar_names_never_pair():
    assert verdict(side("reference", {"conv1": ONE}), side("simulator", {"conv10": ONE})) != "PASSED"


def test_tensor_that_did_not_come():
    b = side("simulator", {"y": ONE, "z": ONE})
    del b.tensors["z"]
    b.missing["z"] = "lost"
    assert verdict(side("reference", {"y": ONE, "z": ONE}), b) == "INCONCLUSIVE"


def test_side_that_did_not_run():
    b = side("simulator", {"y": ONE})
    b.state, b.why = "did not run", "no power"
    assert verdict(side("reference", {"y": ONE}), b) == "INCONCLUSIVE"


def test_second_output_counts():
    assert verdict(side("reference", {"y": ONE, "z": ONE}), side("simulator", {"y": ONE, "z": ONE + 1})) == "FAILED"


def test_size_mismatch():
    b = side("simulator", {"y": ONE})
    b.tensors["y"] = ONE[:-1]
    assert verdict(side("reference", {"y": ONE}), b) == "FAILED"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_sided_nan_or_inf(bad):
    other = ONE.copy()
    other[3] = bad
    assert verdict(side("reference", {"y": ONE}), side("simulator", {"y": other})) == "FAILED"


def test_nan_on_both_sides_is_inconclusive_unless_allowed():
    other = ONE.copy()
    other[3] = np.nan
    sides = side("reference", {"y": other}), side("simulator", {"y": other.copy()})
    assert verdict(*sides) == "INCONCLUSIVE"
    assert verdict(*sides, nan_equal=True) == "PASSED"


def test_every_element_counts():
    a = np.zeros(3_000_001, np.int8)
    b = a.copy()
    b[-1] = 1
    assert verdict(side("reference", {"y": a}), side("simulator", {"y": b})) == "FAILED"


@pytest.mark.parametrize(("rule", "digits", "a", "b", "match"), [
    ("half", 2, 1.0, 1.005, True), ("half", 2, 1.0, 1.0051, False), ("round", 2, 1.004, 1.005001, False),
    ("truncate", 2, 1.009, 1.001, True), ("numpy", 2, 1.0, 1.0149, True), ("numpy", 2, 1.0, 1.0151, False), ("exact", 2, 1.0, 1.0, True),
])  # fmt: skip
def test_decimals_rules(rule, digits, a, b, match):
    assert unmatched(np.array([a]), np.array([b]), digits, rule).any() != match


@given(
    st.lists(st.tuples(st.integers(-128, 127), st.integers(-128, 127)), min_size=1, max_size=60),
    st.floats(1e-4, 10),
    st.integers(-128, 127),
)
@settings(max_examples=80, deadline=None)
def test_histogram_metrics_equal_elementwise_ones(pairs, scale, zero):
    a, b = (np.array(v, np.int8) for v in zip(*pairs, strict=True))
    spec = TensorSpec("t", "int8", a.shape, scale=(scale,), zero_point=(zero,))
    found = measure(spec, a, b, 3, "half")
    x, y = spec.dequantized(a), spec.dequantized(b)
    assert found.elements == a.size and found.mismatched == int((a != b).sum())
    assert (
        found.max_abs == pytest.approx(np.abs(x - y).max())
        and found.max_lsb == np.abs(a.astype(int) - b.astype(int)).max()
    )
    assert found.rmse == pytest.approx(np.sqrt(((x - y) ** 2).mean()), abs=1e-12)
    assert (found.matching_digits is None) == (not found.mismatched)
    assert found.unmatched == int(unmatched(x, y, 3, "half").sum())
    assert sum(found.lsb_histogram.values()) == found.mismatched


def test_rules_are_the_documented_ones():
    assert list(RULES) == ["half", "round", "truncate", "numpy", "exact"]
