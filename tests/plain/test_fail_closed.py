"""What peers let pass must never be PASSED: nothing compared, missing, NaN, wrong size, other names."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.errors import UsageError
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
    with pytest.raises(UsageError):
        judge_all({"reference": side("reference", {"y": ONE})}, None, [], Options(), {})


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
