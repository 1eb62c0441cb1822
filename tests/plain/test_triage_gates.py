"""Gates of TRIAGE.md and how loud an output is, one rule at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from qverify.errors import UsageError
from qverify.tensors.spec import TensorSpec
from qverify.triage.ladder import Distance, OutputComparison, RungGate, default_gate, parse_gate, real_spec, real_values
from qverify.triage.loudness import OutputStep, loudness_text

Array = Any


@pytest.mark.parametrize(
    ("kinds", "gate", "text"),
    [
        (("float", "float"), RungGate("cosine", 0.9999), "cosine >= 0.9999"),
        (("float", "reference"), RungGate("cosine", 0.7), "cosine >= 0.7"),
        (("float", "fake-quantized"), RungGate("cosine", 0.7), "cosine >= 0.7"),
        (("fake-quantized", "reference"), RungGate("cosine", 0.98), "cosine >= 0.98"),
        (("reference", "dump"), RungGate("cosine", 0.98), "cosine >= 0.98"),
        (("reference", "simulator"), RungGate("decimals", 5), None),
        (("reference", "board"), RungGate("decimals", 5), None),
        (("simulator", "board"), RungGate("exact"), "equal values"),
        (("board", "application"), RungGate("decimals", 3), None),
        (("float", "application"), RungGate("decimals", 3), None),
        (("simulator", "float"), RungGate("cosine", 0.98), "cosine >= 0.98"),
    ],
)
def test_the_gate_between_two_kinds_of_stages(kinds: tuple[str, str], gate: RungGate, text: str | None) -> None:
    assert default_gate(*kinds) == gate
    assert text is None or gate.describe() == text


@pytest.mark.parametrize(
    ("text", "rung", "gate"),
    [
        ("a~b=exact", "a~b", RungGate("exact")),
        (" a ~ b =exact", "a~b", RungGate("exact")),
        ("a~b=decimals:0", "a~b", RungGate("decimals", 0)),
        ("a=1~b=decimals:17", "a=1~b", RungGate("decimals", 17)),
        ("a~b=cosine:-1", "a~b", RungGate("cosine", -1)),
        ("a~b=cosine:1", "a~b", RungGate("cosine", 1)),
        ("a~b=cosine:0.5", "a~b", RungGate("cosine", 0.5)),
    ],
)
def test_a_gate_of_the_command_line(text: str, rung: str, gate: RungGate) -> None:
    assert parse_gate(text) == (rung, gate)


@pytest.mark.parametrize(
    "text", ["a~b=exact:0", "a~b=decimals:-1", "a~b=decimals:0.5", "a~b=cosine:1.1", "a~b=cosine:-1.1", "a~b=cosine",
             "a~b=cosine:x", "a~b=near:1", "a~bexact", "ab=exact", "a~b=decimals:18"],
)  # fmt: skip
def test_no_gate(text: str) -> None:
    with pytest.raises(UsageError, match="wanted A~B=exact"):
        parse_gate(text)


@pytest.mark.parametrize(
    ("gate", "max_abs", "cosine", "holds"),
    [
        (RungGate("exact"), 0.0, 1.0, True),
        (RungGate("exact"), 1e-30, 1.0, False),
        (RungGate("decimals", 2), 0.005, 0.0, True),
        (RungGate("decimals", 2), 0.00501, 1.0, False),
        (RungGate("cosine", 0.5), 99.0, 0.5, True),
        (RungGate("cosine", 0.5), 0.0, 0.4999, False),
        (RungGate("cosine", -1), 0.0, math.nan, False),
        (RungGate("decimals", 2), math.nan, 1.0, False),
        (RungGate("exact"), math.nan, 1.0, False),
    ],
)
def test_what_a_gate_holds(gate: RungGate, max_abs: float, cosine: float, holds: bool) -> None:
    assert gate.holds(max_abs, cosine) is holds


def test_distances_add_up_over_frames() -> None:
    found, a = Distance(), np.array([[3.0, -4.0]], np.float32)
    assert found.rmse == 0
    for b in (a + np.float32([[1, 0]]), a + np.float32([[0, -2]])):
        found.add(a, b, real_spec("a", a), real_spec("b", b))
    assert (found.elements, found.largest, found.metric("max_abs")) == (4, 4.0, 2.0)
    assert found.rmse == pytest.approx(math.sqrt(5 / 4))
    assert found.metric("sqnr_db") == pytest.approx(10 * math.log10(50 / 5))
    assert found.metric("cosine") == pytest.approx((12 + 16 + 9 + 24) / math.sqrt(50 * (32 + 45)))
    with pytest.raises(ValueError, match=r"shape \[1, 2\] and \[2\]"):
        found.add(a, a[0], real_spec("a", a), real_spec("b", a[0]))
    found.add(a, np.array([[np.inf, 0]], np.float32), real_spec("a", a), real_spec("b", a))
    assert (found.one_sided, found.both_sided) == (1, 0)


def test_real_values_of_integers() -> None:
    spec = TensorSpec("y", "int8", (2,), (), (0.5,), (3,))
    assert real_values(np.array([5, 1], np.int8), spec).tolist() == [1.0, -1.0]
    assert real_values(np.array([5, 1], np.int8), spec).dtype == np.float32
    value = np.array([5, 1], np.int8)
    assert real_values(value, TensorSpec("y", "int8", (2,))) is value


def outputs_of(
    gate: RungGate, names: dict[str, str], one: dict[str, Any], two: dict[str, Any], **steps: OutputStep
) -> Any:
    found = OutputComparison("a", "b", gate, names, steps=steps)
    sides = [{n: (np.float32(v), real_spec(n, np.float32(v))) for n, v in side.items()} for side in (one, two)]
    found.add(*sides)
    return found.rung()


def test_the_worst_of_several_outputs_is_said() -> None:
    x = np.arange(1.0, 5)
    rung = outputs_of(RungGate("cosine", 0.9), {"y": "y2", "z": "z2", "w": "w2"},
                      {"y": x, "z": x, "w": x}, {"y2": x, "z2": -x, "w2": x[::-1]})  # fmt: skip
    assert (rung.a, rung.b, rung.gate, rung.verdict, rung.kind) == ("a", "b", "cosine >= 0.9", "FAILED", "outputs")
    assert rung.why == "z: cosine -1.0000, off by up to 8 (2 of 3 outputs)"
    assert [(r.name, r.holds, r.elements) for r in rung.outputs] == [("y", True, 4), ("z", False, 4), ("w", False, 4)]
    one = outputs_of(RungGate("cosine", 0.9), {"y": "y"}, {"y": x}, {"y": -x})
    assert one.why == "y: cosine -1.0000, off by up to 8"


@pytest.mark.parametrize(
    ("one", "two", "why"),
    [
        ({}, {"y2": [1.0]}, "output y is missing on one side"),
        ({"y": [1.0]}, {}, "output y2 is missing on one side"),
        ({"y": [1.0]}, {"y2": [1.0, 2.0]}, r"y: shape [1] and [2]"),
        ({"y": [math.inf, 1.0]}, {"y2": [math.inf, 1.0]}, "an output contains NaN or Inf on both sides"),
        ({"y": []}, {"y2": []}, "no output to compare"),
    ],
)
def test_outputs_that_cannot_be_compared(one: dict[str, Any], two: dict[str, Any], why: str) -> None:
    rung = outputs_of(RungGate("decimals", 5), {"y": "y2"}, one, two)
    assert (rung.verdict, rung.why) == ("INCONCLUSIVE", why)


STEP = OutputStep(1.0, 256.0)


def test_the_step_of_a_tensor() -> None:
    assert OutputStep.of(TensorSpec("y", "int16", (2,), (), (0.5, 0.25), (0, 0), 0)) == OutputStep(0.25, 0.25 * 65535)
    assert OutputStep.of(TensorSpec("y", "uint8", (1,), (), (2.0,), (0,))) == OutputStep(2.0, 510.0)


@pytest.mark.parametrize(
    ("largest", "off", "judged"),
    [
        (0.999, 1.0, "quiet"),
        (0.999, 1.001, "too_small"),
        (0.999, 32.0, "too_small"),
        (0.999, 32.001, "gate"),
        (1.0, 0.5, "too_small"),
        (3.999, 0.5, "too_small"),
        (4.0, 0.5, "near"),
        (4.0, 0.501, "too_small"),
        (4.0, 1.0, "too_small"),
        (4.0, 1.001, "gate"),
        (math.inf, 0.1, "gate"),
        (4.0, math.nan, "gate"),
        (0.0, math.inf, "gate"),
        (1000.0, 0.5 + 1000 * 2.0**-22, "near"),
        (1000.0, 0.5 + 1001 * 2.0**-21, "too_small"),
    ],
)
def test_what_a_cosine_below_its_limit_tells(largest: float, off: float, judged: str) -> None:
    assert STEP.judged(largest, off) == judged


@pytest.mark.parametrize(
    ("largest", "text"),
    [
        (0.0, "it is zero everywhere"),
        (0.25, "its largest value is 0.5 of half a step"),
        (0.5, "its largest value is 0.5 of a step"),
        (0.75, "its largest value is 0.75 of a step"),
    ],
)
def test_how_loud_is_said(largest: float, text: str) -> None:
    assert loudness_text(largest, 1.0) == text


QUIET = "its largest value is 0.9 of a step"


@pytest.mark.parametrize(
    ("gate", "one", "two", "verdict", "kind", "why", "evidence"),
    [
        (0.9, [0.9, 0], [0, 2], "INCONCLUSIVE", "too_small", f"the float output is quiet on this input, {QUIET}", []),
        (0.9, [2, 0], [1, 1], "INCONCLUSIVE", "too_small", "not more than one LSB, about which a cosine says nothing", []),
        (0.9, [0.9, 0], [0.9, 1], "INCONCLUSIVE", "quiet", f"every final output is quiet on this input: y: {QUIET} (0.9 of 1)",
         [f"quiet on this input, not judged: y: {QUIET} (0.9 of 1)"]),
        (0.999, [4, 0], [4, 0.5], "PASSED", "", "",
         ["y is within half a step of the float output everywhere: cosine 0.9923 is what its scale allows"]),
        (0.99, [4, 0], [4, 0.5], "PASSED", "", "", []),
        (0.9, [0.9, 0], [0, 33], "FAILED", "outputs", "y: cosine 0.0000, off by up to 33", []),
        (0.9, [1, 0], [1, 0], "PASSED", "", "", []),
    ],
)  # fmt: skip
def test_an_output_of_a_step(
    gate: float, one: Any, two: Any, verdict: str, kind: str, why: str, evidence: list[str]
) -> None:
    rung = outputs_of(RungGate("cosine", gate), {"y": "y2"}, {"y": one}, {"y2": two}, y2=STEP)
    assert (rung.verdict, rung.kind, rung.evidence) == (verdict, kind, evidence) and rung.why.endswith(why)


def test_a_quiet_output_beside_a_loud_one() -> None:
    loud, quiet = [9, 1], [0.9, 0]
    rung = outputs_of(RungGate("cosine", 0.9), {"y": "y", "z": "z"},
                      {"y": loud, "z": quiet}, {"y": loud, "z": quiet}, y=STEP, z=STEP)  # fmt: skip
    assert (rung.verdict, rung.kind) == ("PASSED", "") and [r.judged for r in rung.outputs] == ["gate", "quiet"]
    assert rung.evidence == [f"quiet on this input, not judged: z: {QUIET} (0.9 of 1)"]
    absolute = outputs_of(RungGate("decimals", 5), {"y": "y"}, {"y": quiet}, {"y": quiet}, y=STEP)
    assert absolute.verdict == "PASSED" and [r.judged for r in absolute.outputs] == ["gate"]


def test_an_output_that_is_not_finite_is_the_worst() -> None:
    rung = outputs_of(RungGate("cosine", 0.9), {"y": "y", "z": "z"},
                      {"y": [1, 2], "z": [1, 2]}, {"y": [-1, -2], "z": [1, math.nan]})  # fmt: skip
    assert rung.verdict == "FAILED" and rung.why.startswith("z: cosine nan")
