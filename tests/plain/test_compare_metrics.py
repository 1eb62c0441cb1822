"""Every metric and decimals rule against straightforward float64 numpy, on drawn tensors."""

from __future__ import annotations

import math
import random
import time

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from qverify.compare import decimals
from qverify.compare import metrics as pages
from qverify.compare.criteria import GATES
from qverify.compare.metrics import Context, make_measures
from qverify.compare.paired_values import PairedValues, bits_equal
from qverify.report.document import plain
from qverify.report.schema import METRICS
from qverify.tensors.spec import TensorSpec

DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "int64", "float32", "float64", "bool")


def metrics(a, b, scale=(), zero=(), axis=-1, rule="half"):
    spec = TensorSpec("t", a.dtype.name, a.shape, scale=scale, zero_point=zero, channel_axis=axis)
    values = PairedValues(a, b, spec, spec)
    found = make_measures(Context(rule, 5, a.size, values.integers))
    for block in values.blocks():
        for measure in found.values():
            measure.add(block)
    return {name: m.result() for name, m in found.items()}, spec


@st.composite
def tensor_pairs(draw):
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(hnp.array_shapes(max_dims=4, max_side=7))
    if dtype.kind == "f":
        elements = st.floats(-1000, 1000, width=32)
    else:
        elements = hnp.from_dtype(dtype) if dtype.itemsize < 8 else st.integers(-(2**40), 2**40)
    a, b = (draw(hnp.arrays(dtype, shape, elements=elements)) for _ in range(2))
    keep = draw(hnp.arrays(np.bool_, shape))
    b = np.where(keep, a, b).astype(dtype)
    scaled = dtype.kind in "iu" and draw(st.booleans())
    channels = shape[0] if scaled and draw(st.booleans()) else 1
    scale = (
        tuple(draw(st.lists(st.floats(2.0**-10, 2, width=32), min_size=channels, max_size=channels))) if scaled else ()
    )
    zero = tuple(draw(st.lists(st.integers(-9, 9), min_size=channels, max_size=channels))) if scaled else ()
    return a, b, scale, zero, 0 if channels > 1 else -1


@settings(max_examples=150, deadline=None)
@given(tensor_pairs())
def test_metrics_are_those_of_plain_numpy(drawn):
    a, b, scale, zero, axis = drawn
    got, spec = metrics(a, b, scale, zero, axis)
    x, y = spec.dequantized(a).reshape(-1), spec.dequantized(b).reshape(-1)
    d = np.abs(x - y)
    assert got["max_abs"] == d.max()
    assert got["mismatched"] == int((a != b).sum())
    assert got["rmse"] == pytest.approx(math.sqrt((d * d).mean()), rel=1e-9, abs=0)
    if a.dtype.kind == "f":
        assert got["max_lsb"] is None and got["lsb_histogram"] is None
    else:
        steps = [int(j) - int(i) for i, j in zip(a.reshape(-1), b.reshape(-1), strict=True)]
        assert got["max_lsb"] == max(map(abs, steps))
        assert sum(got["lsb_histogram"].values()) == a.size
        assert all(steps.count(int(k)) == n for k, n in got["lsb_histogram"].items() if k[0] not in "<>")
    noise, signal = float((d * d).sum()), float((x * x).sum())
    if noise == 0:
        assert (got["sqnr_db"], got["cosine"], got["matching_digits"]) == (math.inf, 1.0, None)
    else:
        norm = math.sqrt(signal) * math.sqrt(float((y * y).sum()))
        assert got["cosine"] == pytest.approx(float((x * y).sum()) / norm if norm else 0.0, rel=1e-9, abs=1e-12)
        assert got["sqnr_db"] == (
            pytest.approx(10 * math.log10(signal / noise), rel=1e-9, abs=1e-9) if signal else -math.inf
        )
        n = got["matching_digits"]
        assert d.max() <= float(f"5e{-n - 1}") and d.max() > float(f"5e{-n - 2}")


def test_int64_that_float64_cannot_tell_apart_still_differs():
    got, _ = metrics(np.array([2**62]), np.array([2**62 + 1]))
    assert (got["mismatched"], got["max_lsb"]) == (1, 1) and got["max_abs"] > 0


def test_one_sided_nan_is_never_small():
    got, _ = metrics(np.array([1.0, np.nan], np.float32), np.array([1.0, 2.0], np.float32))
    assert got["max_abs"] == math.inf and got["mismatched"] == 1 and got["matching_digits"] == decimals.LOWEST
    assert math.isnan(got["cosine"]) and got["sqnr_db"] == -math.inf


@pytest.mark.parametrize(
    ("rule", "a", "b", "digits", "match"),
    [
        ("half", 0.0, 0.5e-2, 2, True),
        ("half", 0.0, 0.501e-2, 2, False),
        ("half", 0.0, 0.5e-5, 5, True),
        ("numpy", 0.0, 1.4e-2, 2, True),
        ("numpy", 0.0, 1.5e-2, 2, False),
        ("round", 0.0149, 0.0151, 2, False),
        ("round", 0.0151, 0.0249, 2, True),
        ("round", 0.005, 0.0, 2, True),
        ("truncate", 0.0199, 0.0101, 2, True),
        ("truncate", 0.0199, 0.0201, 2, False),
        ("truncate", -0.009, 0.009, 2, True),
        ("exact", 0.1, 0.1, 0, True),
        ("exact", 0.1, 0.1 + 1e-16, 0, False),
    ],
)
def test_rules(rule, a, b, digits, match):
    one, two = np.array([a]), np.array([b])
    assert bool(decimals.matches(rule, digits, one, two, np.abs(one - two))[0]) is match


@pytest.mark.parametrize("rule", decimals.RULES)
@pytest.mark.parametrize("distance", [1.0, 2.0])
def test_whole_steps_match_by_no_rule(rule, distance):
    one, two = np.array([3.0]), np.array([3.0 + distance])
    assert not decimals.matches(rule, 3, one, two, two - one).any()


@pytest.mark.parametrize("rule", decimals.RULES)
def test_rules_refuse_what_is_not_finite_on_one_side_only(rule):
    one, two = np.array([np.nan, np.inf]), np.array([np.nan, 1.0])
    assert not decimals.matches(rule, 3, one, two, np.array([np.inf, np.inf])).any()


def test_how_many_elements_fail_depends_on_the_rule_as_the_vendors_table_says():
    """VENDORS.md section 0: the same pair gives four counts; each column is one of our rules."""
    rng = np.random.Generator(np.random.PCG64(1))
    a = rng.normal(size=1000)
    b = a + rng.normal(scale=1e-5, size=1000)
    d = np.abs(a - b)
    for n in range(2, 7):
        fails = {rule: int((~decimals.matches(rule, n, a, b, d)).sum()) for rule in decimals.RULES}
        assert fails["half"] == int((d > 0.5 * 10.0**-n).sum())
        assert fails["numpy"] == int((d >= 1.5 * 10.0**-n).sum())
        assert fails["round"] == int((np.round(a, n) != np.round(b, n)).sum())
        assert fails["truncate"] == int((np.trunc(a * 10.0**n) != np.trunc(b * 10.0**n)).sum())
    assert len(set(fails.values())) > 1


def test_matching_digits_of_round_is_the_largest_n_that_passes():
    got, _ = metrics(np.array([0.0151]), np.array([0.0249]), rule="round")
    assert got["matching_digits"] == 2


def test_a_large_8_bit_set_takes_one_pass():
    """Not a benchmark: guards against a metric that walks every element (which takes minutes)."""
    random.seed(0)
    a = np.frombuffer(random.randbytes(4_000_000), np.int8)
    b = a.copy()
    b[::10] ^= 1
    start = time.perf_counter()
    got, _ = metrics(a, b, (0.1,), (3,))
    assert got["mismatched"] == 400_000 and got["max_lsb"] == 1 and time.perf_counter() - start < 5


def test_a_signalling_nan_is_a_nan():
    """Its conversion to float64 makes the processor raise a flag, which is no error of ours."""
    a = np.zeros(3, np.float32)
    b = np.array([0, 0x7F800001, 0], np.uint32).view(np.float32)
    values = PairedValues(a, b, TensorSpec("t", "float32", (3,)), TensorSpec("t", "float32", (3,)))
    assert len(list(values.blocks())) == 1 and values.one_sided == 1


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_the_schema_and_the_gates_know_every_metric(dtype):
    found, _ = metrics(np.array([1, 2, 3], dtype), np.array([1, 2, 4], dtype), scale=(0.5,) if dtype == "int8" else ())
    assert sorted(found) == sorted(METRICS)
    assert {gate.metric for gate in GATES if gate.sign} <= set(found)
    for name, value in found.items():
        jsonschema.validate(plain(value), METRICS[name])


def test_bits_are_of_one_type_and_shape():
    a = np.arange(4, dtype=np.int8)
    assert bits_equal(a, a.copy()) and bits_equal(a[::2], np.array([0, 2], np.int8))
    assert not bits_equal(a, a.view(np.uint8)) and not bits_equal(a, a.reshape(2, 2)) and not bits_equal(a, a[::-1])


def between(left, right, **specs):
    one, two = (TensorSpec("t", v.dtype.name, v.shape, **specs.get(n, {})) for n, v in (("a", left), ("b", right)))
    values = PairedValues(left, right, one, two)
    found = make_measures(Context("half", 5, left.size, values.integers))
    for block in values.blocks():
        for measure in found.values():
            measure.add(block)
    return {name: m.result() for name, m in found.items()}, values


def test_integers_of_two_types_are_compared_as_real_values():
    big = 2**53
    found, _ = between(np.array([5, big + 1]), np.array([5, big], np.uint64))
    assert (found["mismatched"], found["max_lsb"], found["max_abs"]) == (1, None, 1.0)
    found, _ = between(np.array([10], np.int8), np.array([5], np.int16), a={"scale": (0.5,), "zero_point": (0,)})
    assert found["mismatched"] == 0 and found["max_abs"] == 0.0
    zero = {"b": {"scale": (1.0,), "zero_point": (128,)}, "a": {"scale": (1.0,), "zero_point": (0,)}}
    found, _ = between(np.array([-3, 4], np.int8), np.array([125, 132], np.uint8), **zero)
    assert found["mismatched"] == 0
    found, _ = between(np.array([10], np.int8), np.array([30], np.int8), a={"scale": (2.0,), "zero_point": (1,)})
    assert (found["max_abs"], found["max_lsb"]) == (12.0, 20)
    found, _ = between(np.array([4], np.int16), np.array([4], np.int16), a={"scale": (0.5,)})  # no zero point: 0
    assert found["max_abs"] == 2.0


def test_one_side_by_channel_and_the_other_by_tensor():
    rows, one = {"scale": (0.5, 2.0), "zero_point": (0, 0), "channel_axis": 0}, {"scale": (0.5,), "zero_point": (0,)}
    whole = np.array([[1, 2], [3, 4]], np.int8)
    for sides in ({"a": rows, "b": one}, {"a": one, "b": rows}):
        found, _ = between(whole, whole.copy(), **sides)
        assert (found["mismatched"], found["max_abs"], found["max_lsb"]) == (2, 6.0, 0)


def test_differences_that_wrap_int64_keep_their_sign():
    low, high = -(2**63), 2**63 - 1
    found, _ = between(np.array([low, high, 0]), np.array([high, low, 0]))
    assert found["max_lsb"] == 2**63 - 1 and found["lsb_histogram"] == {"<-255": 1, "0": 1, ">255": 1}


def test_the_histogram_of_steps_counts_together_what_is_far():
    b = np.array([0, 1, 255, 256, 300, -1, -255, -256, -900, 0], np.int16)
    found, _ = between(np.zeros(10, np.int16), b)
    wanted = {"0": 2, "1": 1, "255": 1, ">255": 2, "-1": 1, "-255": 1, "<-255": 2}
    assert found["lsb_histogram"] == wanted


def test_elements_that_are_not_finite_are_counted_apart():
    a = np.array([np.nan, np.inf, -np.inf, np.inf, 1.0, np.nan, 2.0], np.float32)
    b = np.array([np.nan, np.inf, np.inf, 1.0, np.nan, np.nan, 2.0], np.float32)
    found, values = between(a, b)
    assert (values.both_sided, values.one_sided, found["mismatched"]) == (3, 3, 3)
    alike, values = between(a[[0, 1, 6]], b[[0, 1, 6]])
    assert (values.both_sided, values.one_sided) == (2, 0)
    assert (alike["max_abs"], alike["cosine"], alike["sqnr_db"], alike["rmse"]) == (0.0, 1.0, math.inf, 0.0)


def test_values_over_more_than_one_block():
    a = np.zeros(200_000, np.float32)
    b = a.copy()
    b[[65_535, 65_536, 131_071, 131_072]] = [1, 2, 3, 4]
    found, _ = between(a, b)
    assert (found["mismatched"], found["max_abs"], found["cosine"], found["sqnr_db"]) == (4, 4.0, 0.0, -math.inf)
    assert found["rmse"] == pytest.approx(math.sqrt(30 / 200_000))
    scaled = {"scale": tuple(1.0 + i for i in range(4)), "zero_point": (0, 1, 2, 3), "channel_axis": 0}
    whole = np.ones((4, 70_000), np.int8)
    other = whole.copy()
    other[3, 69_999] = 6
    found, _ = between(whole, other, a=scaled, b=scaled)
    assert (found["mismatched"], found["max_abs"], found["max_lsb"]) == (1, 20.0, 5)


def test_metrics_of_values_beyond_float64():
    huge = np.array([1e200, 1.0])
    found, _ = between(huge, huge * -1)
    assert math.isnan(found["cosine"]) and found["sqnr_db"] == -math.inf and found["rmse"] == math.inf
    found, _ = between(huge, huge + np.array([0, 1.0]))
    assert math.isnan(found["sqnr_db"]) and found["rmse"] == pytest.approx(math.sqrt(0.5))
    none, _ = between(np.zeros(0, np.float32), np.zeros(0, np.float32))
    assert none["rmse"] == 0.0 and none["max_abs"] == 0.0 and none["mismatched"] == 0
    x = np.array([-0.5356693863868713, 0.3615950644016266])
    beside, _ = between(x, x * (1 + 2**-20))  # float64 alone would say 1.0000000000000002
    assert beside["cosine"] == 1.0
    opposite, _ = between(x, -x * (1 + 2**-20))
    assert opposite["cosine"] == -1.0


def test_a_page_without_its_parts_names_itself(monkeypatch, tmp_path):
    (tmp_path / "half_done.py").write_text("NAME = 'half_done'\n")
    monkeypatch.setattr(pages, "__path__", [*pages.__path__, str(tmp_path)])
    pages._load_pages.cache_clear()
    with pytest.raises(ImportError, match=r"compare/metrics/half_done.py: a page of this folder must define Measure"):
        make_measures(Context("half", 5, 1, True))
    monkeypatch.undo()
    assert "rmse" in make_measures(Context("half", 5, 1, True))
