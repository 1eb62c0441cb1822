"""The rules of TRIAGE.md one by one: gates, how loud an output is, losses, what is left in float, next steps, neighbourhoods, descriptions, evidence."""

from __future__ import annotations

import math
from dataclasses import replace
from math import comb, log2
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from qverify.errors import UsageError
from qverify.model_bin.units import Unit, units
from qverify.onnx_model.view import View
from qverify.report.document import Forced
from qverify.report.triage_document import OutputRow, SingleTensorLoss, TensorLoss, WhatIf, WhatIfStep
from qverify.tensors.spec import TensorSpec
from qverify.triage import evidence
from qverify.triage.advice import ADVICE, advice, loss_evidence, loss_kind
from qverify.triage.case import Case, noise
from qverify.triage.difference_description import describe_difference, drawing
from qverify.triage.divergence import agreeing, first_of, forced_pieces, pieces
from qverify.triage.ladder import Distance, Outputs, RungGate, default_gate, parse_gate, real_spec, real_values
from qverify.triage.loss import ExperimentResult, channels_lost, nearest, quantized_range, sqnr_db
from qverify.triage.loudness import OutputStep, loudness_text, quiet_outputs
from qverify.triage.memory_sources import memory_sources, output_from_all
from qverify.triage.neighbourhood import neighbourhoods, numbers
from qverify.triage.what_if import what_if

from tests.plain.forensic_units import Small, generator
from tests.plain.test_hypotheses_of_order import Table

Array = Any

# Gates


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
        ("a=1~b=decimals:15", "a=1~b", RungGate("decimals", 15)),
        ("a~b=cosine:-1", "a~b", RungGate("cosine", -1)),
        ("a~b=cosine:1", "a~b", RungGate("cosine", 1)),
        ("a~b=cosine:0.5", "a~b", RungGate("cosine", 0.5)),
    ],
)
def test_a_gate_of_the_command_line(text: str, rung: str, gate: RungGate) -> None:
    assert parse_gate(text) == (rung, gate)


@pytest.mark.parametrize(
    "text", ["a~b=exact:0", "a~b=decimals:-1", "a~b=decimals:0.5", "a~b=cosine:1.1", "a~b=cosine:-1.1", "a~b=cosine",
             "a~b=cosine:x", "a~b=near:1", "a~bexact", "ab=exact", "a~b=decimals:99"],
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


def outputs_of(gate: RungGate, names: dict[str, str], one: dict[str, Array], two: dict[str, Array]) -> Any:
    found = Outputs("a", "b", gate, names)
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


# How loud an output is

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


def loss(tensor: str = "t", **fields: Any) -> TensorLoss:
    base = TensorLoss(tensor, "q", "n", "Conv", "name", 30.0, 0.99, 0.1, None, -1.0, 1.0, -1.0, 1.0, 0.0, 1.0, 0.1)
    return replace(base, single=SingleTensorLoss("y", 0.5, 3.0), **fields)


def test_tensors_that_no_frame_made_loud() -> None:
    def row(name: str, judged: Any, largest: float | None = 0.02, step: float | None = 0.1) -> OutputRow:
        return OutputRow(name, 1, False, 0, 0, 0, 0, judged, largest, step)

    rows = [
        row("y", "quiet"),
        row("y", "quiet", 0.03),
        row("z", "gate"),
        row("v", "quiet", None),
        row("u", "quiet", 0.1, None),
    ]
    losses = [loss("a", float_low=-0.049, float_high=0.01), loss("b", float_low=-0.05, float_high=0.01),
              loss("c", float_low=0.0, float_high=0.0)]  # fmt: skip
    found = [(q.tensor, q.output, q.largest, q.step, q.said) for q in quiet_outputs(rows, losses)]
    assert found == [
        ("y", True, 0.02, 0.1, "its largest value is 0.4 of half a step"),
        ("a", False, 0.049, 0.1, "its largest value is 0.98 of half a step"),
        ("c", False, 0.0, 0.1, "it is zero everywhere"),
    ]


# Losses


def test_signal_to_noise() -> None:
    a, b = np.array([3.0, 4.0], np.float32), np.array([3.0, 3.5], np.float32)
    assert sqnr_db(a, b) == pytest.approx(20.0) and sqnr_db(a, a) == math.inf
    assert sqnr_db(a * 0, b) == -math.inf and sqnr_db(a * 0, a * 0) == math.inf


def test_channels_that_are_lost() -> None:
    a = np.ones((4, 2), np.float32)
    b = a.copy()
    b[0] += 0.5
    b[1] += 0.05
    assert channels_lost(a, b, 0) == 0.25 and channels_lost(a.T, b.T, 1) == 0.25 and channels_lost(a, b, -1) == 1.0
    assert channels_lost(a[:0], b[:0], 0) == 0


def test_the_quantized_range() -> None:
    assert quantized_range(TensorSpec("t", "int8", (1,), (), (0.5,), (-28,))) == (-50.0, 77.5)
    assert quantized_range(TensorSpec("t", "uint8", (2,), (), (0.5, 1.0), (0, 5), 0)) == (-5.0, 250.0)


def view() -> View:
    """x -> Relu a -> Add(a, c) b -> Add(b, a) d -> y; c a constant; Add(d, z) y."""
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Add", ["a", "c"], ["b"]),
             helper.make_node("Add", ["b", "a"], ["d"]), helper.make_node("Add", ["d", "z"], ["y"])]  # fmt: skip
    const = helper.make_tensor("c", TensorProto.FLOAT, [1], [1.0])
    ends = [info(n, TensorProto.FLOAT, [4]) for n in "xzy"]
    return View(helper.make_model(helper.make_graph(nodes, "g", ends[:2], ends[2:], [const])), "made")


@pytest.mark.parametrize(
    ("tensor", "known", "found"),
    [
        ("y", "xabdz", ["d", "z"]),
        ("y", "xz", ["z", "x"]),
        ("y", "xazc", ["z", "a"]),
        ("d", "xab", ["b", "a"]),
        ("d", "a", ["a"]),
        ("a", "ab", []),
        ("x", "xab", []),
        ("y", "y", []),
    ],
)
def test_the_nearest_known_tensors(tensor: str, known: str, found: list[str]) -> None:
    assert nearest(view(), tensor, known) == found


# First divergence of two float files


def test_which_tensors_agree() -> None:
    one = {"a": np.ones(4), "b": np.ones(4), "c": np.ones(4), "d": np.ones(4), "e": np.ones(4)}
    other = {"a": np.ones(4), "b": np.ones(4) + 1.01e-4, "c": np.ones(4) + 0.99e-4, "d": np.ones(5)}
    assert agreeing(one, other) == {"a": True, "b": False, "c": True}


def test_each_tensor_on_the_other_files_values() -> None:
    parts = pieces(view(), {"a": True, "d": True, "y": False})
    assert [(u.name, u.op, u.inputs, u.outputs) for u in parts] == [
        ("a", "Relu", ("x",), ("a",)),
        ("d", "Add", ("a",), ("d",)),
        ("y", "Add", ("d", "z"), ("y",)),
    ]
    values = {n: np.ones(4, np.float32) for n in "xadzy"}
    asked: list[str] = []

    def alone(name: str, given: Any) -> Array:
        asked.append(name)
        assert set(given) == {"d", "z"}
        return np.float32([1, 1, 1.5, 1])

    found = forced_pieces(parts, {"a": True, "d": True, "y": False}, values, alone)
    assert asked == ["y"] and [f.verdict for f in found.values()] == ["PASSED", "PASSED", "FAILED"]
    assert (found["a"].mismatched, found["a"].max_abs, found["a"].elements, found["a"].limit) == (0, 0.0, 4, "80 dB")
    assert found["a"].why == "inputs and outputs agree"
    assert (found["y"].mismatched, found["y"].max_abs, found["y"].elements) == (1, 0.5, 4)
    same = forced_pieces(parts[2:], {"y": False}, values, lambda name, given: values["y"])
    assert same["y"].verdict == "PASSED"
    other = forced_pieces(parts[2:], {"y": False}, values, lambda name, given: np.ones(5, np.float32))
    assert (other["y"].verdict, other["y"].mismatched, other["y"].max_abs) == ("FAILED", None, None)
    assert forced_pieces(parts[2:], {"y": False}, {n: values[n] for n in "dy"}, alone) == {}
    differing = forced_pieces(parts[1:2], {"a": False, "d": True}, values, lambda name, given: values["d"])
    assert differing["d"].why == ""  # it was computed


def test_the_first_that_differs() -> None:
    parts = pieces(view(), {"a": True, "d": True, "y": False})
    assert first_of(parts, []) is None
    found = first_of(parts, ["d", "y"])
    assert found is not None and (found.tensor, found.node, found.op, found.also) == ("d", "d", "Add", ["y"])


# Neighbourhoods


def test_what_is_around_a_tensor() -> None:
    def unit(name: str, op: str, *inputs: str) -> Unit:
        return Unit(name, op, (), inputs, (name,), True)

    around = [unit("a", "conv", "x"), unit("b", "add", "a", "k"), unit("c", "mul", "b"), unit("d", "mul", "b")]
    forced = {
        "b": Forced("FAILED", 3, 7, elements=9),
        "c": Forced("PASSED", 0, 0),
        "d": Forced("FAILED", None, None, why="?"),
    }
    states = {"a": True, "c": False}
    found = neighbourhoods(around, ("x",), states.get, forced, ["b", "a", "x"])
    marks = [[(n.tensor, n.op, n.mark, n.why) for n in [one.at, *one.above, *one.below]] for one in found]
    fails = ("b", "add", "fails forced", "7 of 9 elements, up to 3 LSB")
    assert marks == [
        [
            fails,
            ("a", "conv", "agree", ""),
            ("k", "input", "not known", ""),
            ("c", "mul", "differ", ""),
            ("d", "mul", "fails forced", "?"),
        ],
        [("a", "conv", "agree", ""), ("x", "input", "given", ""), fails],
        [("x", "input", "given", ""), ("a", "conv", "agree", "")],
    ]
    assert [(len(n.above), len(n.below)) for n in found] == [(2, 2), (1, 1), (0, 1)]
    assert len(neighbourhoods(around, (), states.get, {}, list("abcdab"))) == 4


def test_how_far_a_forced_tensor_is_off() -> None:
    assert numbers(Forced("FAILED", None, 2, 0.012345, 8)) == "2 of 8 elements, up to 0.0123"
    assert numbers(Forced("FAILED", None, 2, None, 8)) == "2 of 8 elements, up to 0"
    assert numbers(Forced("FAILED", 0, 2, 5.0, 8)) == "2 of 8 elements, up to 0 LSB"


# What is left in float


class Measured:
    """An experiment whose harm is given by the tensors left in float."""

    def __init__(self, harms: dict[str, float]):
        self.harms, self.runs, self.frames, self.all = harms, 10, [{}, {}], [f"t{i}" for i in range(12)]
        self.asked: list[str] = []

    def measure(self, on: Any) -> ExperimentResult:
        left = "".join(sorted(set(self.all) - set(on)))
        self.runs += 2
        self.asked.append(left)
        harm = self.harms.get(left, 0.0)
        return ExperimentResult("y", harm, 9.0, harm, 0.5)


@pytest.mark.parametrize(
    ("harms", "limit", "steps", "holds"),
    [
        ({"": 0.8}, 0.8, [], True),
        ({"": 0.1, "t3": 0.9}, 0.9, [["t3"]], True),
        ({"": 0.1, "t3": 0.5, "t1t3": 0.6, "t1t2t3": 0.7, "t1t2t3t5": 0.8, "t1t2t3t5t6": 1.0}, 0.9,
         [["t3"], ["t3", "t1"], ["t3", "t1", "t2"], ["t3", "t1", "t2", "t5"]], False),
        ({"": 0.5, "t3": 0.5}, 0.9, [], False),
        ({"": 0.1, "t8": 1.0}, 0.9, [], False),  # not among the eight
        ({"": 0.1, "t7": 1.0}, 0.9, [["t7"]], True),
    ],
)  # fmt: skip
def test_what_few_tensors_restore(harms: dict[str, float], limit: float, steps: list[list[str]], holds: bool) -> None:
    experiment, told = Measured(harms), list[tuple[int, int]]()
    found = what_if(experiment, experiment.all, RungGate("cosine", limit), lambda at, of: told.append((at, of)))  # type: ignore[arg-type]
    assert [s.tensors for s in found.steps] == steps and found.holds is holds
    assert (found.candidates, found.most, found.frames) == (experiment.all[:8], 4, 2)
    assert found.runs == 2 * len(experiment.asked) and experiment.asked[0] == ""
    assert all(of == 32 for _, of in told) and [at for at, _ in told][:8] == list(range(1, 9))[: len(told)]
    if len(told) > 8:
        assert [at for at, _ in told][8:15] == list(range(9, 16))


def test_a_gate_that_is_no_cosine_wants_nearly_all_of_it() -> None:
    for harm, holds in ((0.9999, True), (0.9998, False)):
        experiment = Measured({"": harm})
        assert what_if(experiment, experiment.all, RungGate("decimals", 5)).holds is holds  # type: ignore[arg-type]


# Next steps


def test_every_step_can_be_said() -> None:
    for rung, kinds in ADVICE.items():
        for kind in kinds:
            assert advice(rung, kind, ["t", "u"], "because") == kinds[kind].format(tensors="t, u", why="because")
        assert advice(rung, "another kind", ["t"], "w") == kinds[""].format(tensors="t", why="w")
    assert advice("quantized", "few") == "raise these layers to 16 bit: the tensors above"
    assert advice("board", "does_not_run").endswith("see above")


def restored(holds: bool, *steps: list[str]) -> WhatIf:
    base = what_if(Measured({"": 0.0}), [], RungGate("cosine", 1.0))  # type: ignore[arg-type]
    return replace(base, holds=holds, steps=[WhatIfStep(t, "y", 0.5) for t in steps])


CLIPPED = [loss(f"c{i}", clipped=0.11) for i in range(5)]


@pytest.mark.parametrize(
    ("losses", "what", "inputs", "kind"),
    [
        ([], None, [], "outputs"),
        ([replace(loss(), single=None)], None, [], "outputs"),
        ([loss("x", clipped=0.011)], None, ["x"], "input_range"),
        ([loss("x", used=0.09)], None, ["x"], "input_range"),
        ([loss("x", clipped=0.01, used=0.1)], None, ["x"], "spread"),
        ([loss("t", clipped=0.011)], None, ["x"], "spread"),
        ([loss("t"), loss("x", clipped=0.5)], None, ["x"], "spread"),
        (CLIPPED, None, [], "clipped"),
        (CLIPPED[:4], None, [], "spread"),
        ([*CLIPPED, *[loss(f"t{i}") for i in range(45)]], None, [], "spread"),
        ([*CLIPPED, *[loss(f"t{i}") for i in range(44)]], None, [], "clipped"),
        ([loss(f"c{i}", clipped=0.1) for i in range(5)], None, [], "spread"),
        ([loss(weights_one_scale=True, channels_lost=0.11)], None, [], "weights"),
        ([loss(weights_one_scale=True, channels_lost=0.1)], None, [], "spread"),
        ([loss(weights_one_scale=False, channels_lost=0.9)], None, [], "spread"),
        ([loss("t")], restored(True, ["t"]), [], "few"),
        ([loss("t", clipped=0.0011)], restored(True, ["t"]), [], "few_clipped"),
        ([loss("t", clipped=0.001)], restored(True, ["t"]), [], "few"),
        ([loss("t", clipped=0.005), loss("u")], restored(True, ["t"], ["t", "u"]), [], "few"),
        ([loss("t")], restored(False, ["t"]), [], "spread"),
        ([loss("t")], restored(True), [], "spread"),
    ],
)
def test_what_the_losses_say(losses: list[TensorLoss], what: WhatIf | None, inputs: list[str], kind: str) -> None:
    assert loss_kind(losses, what, inputs) == kind


def test_the_facts_of_the_most_sensitive_tensor() -> None:
    assert loss_evidence([replace(loss(), single=None)]) == []
    first = "t (Conv) quantized alone: y has cosine 0.5000"
    covers = "its quantized range is -1 .. 1, its float values -1 .. 1"
    assert loss_evidence([loss()]) == [first]
    assert loss_evidence([loss("x", op="")])[0].startswith("x (input) quantized alone")
    assert loss_evidence([loss(clipped=0.25, used=0.05)]) == [first, f"{covers}: 25.00% of its elements are clipped"]
    assert loss_evidence([loss(used=0.05)]) == [first, f"{covers}: 5.0% of its range is used"]
    assert loss_evidence([loss(used=0.1)]) == [first]
    lost = "its weights have one scale for all channels: 40% of the channels are below 20 dB"
    assert loss_evidence([loss(weights_one_scale=True, channels_lost=0.4)]) == [first, lost]
    assert loss_evidence([loss(weights_one_scale=False, channels_lost=0.4)]) == [first]
    assert loss_evidence([loss(weights_one_scale=True, channels_lost=0.0)]) == [first]
    rows = [loss("t", drop_db=6.0), loss("u", drop_db=7.5, clipped=0.02), loss("v", drop_db=6.5, clipped=0.02),
            loss("w", clipped=0.01)]  # fmt: skip
    assert loss_evidence(rows) == [
        first,
        "2 of 4 tensors have more than 1% of their elements clipped",
        "largest step of the accumulated loss: 7.5 dB at u (Conv)",
    ]
    assert len(loss_evidence([loss("t"), loss("u", clipped=0.02)])) == 1


# Descriptions


def test_how_two_tensors_differ() -> None:
    made = np.zeros((1, 2, 6, 4), np.int8)
    recorded = made.copy()
    recorded[0, 1, 1::2] = 3
    recorded[0, 1, 3, 2] = -5
    found = describe_difference(made, recorded, TensorSpec("y", "int8", made.shape, layout="NHWC"))
    assert (found.dtype, found.shape, found.elements, found.differing) == ("int8", (1, 2, 6, 4), 48, 12)
    assert (found.max_abs, found.up, found.steps, found.not_finite) == (5.0, 11 / 12, {3: 11, -5: 1}, 0)
    axes = [(a.name, a.size, a.first, a.last, a.touched, a.whole, a.period) for a in found.axes]
    assert axes == [
        ("N", 1, 0, 0, 1, (), 0),
        ("H", 2, 1, 1, 1, (), 0),
        ("W", 6, 1, 5, 3, (), 2),
        ("C", 4, 0, 3, 4, (), 0),
    ]
    assert found.drawing == tuple((0.5 * (row % 2),) * 4 for row in range(6))
    whole = describe_difference(made, np.ones_like(made), TensorSpec("y", "int8", made.shape))
    assert [(a.name, a.whole, a.period) for a in whole.axes] == [
        ("N", (0,), 0), ("C", (0, 1), 0), ("H", (0, 1, 2, 3, 4, 5), 0), ("W", (0, 1, 2, 3), 0)
    ]  # fmt: skip
    same = describe_difference(made, made, TensorSpec("y", "int8", made.shape))
    assert (same.differing, same.axes, same.drawing, same.up, same.max_abs) == (0, (), (), 0.0, 0.0)


def test_how_floats_differ() -> None:
    made, recorded = np.float32([0, 1, 2, 3, 4]), np.float32([-0.0, np.nan, np.inf, 2.5, 4])
    found = describe_difference(made, recorded, TensorSpec("y", "float32", (5,)))
    assert (found.differing, found.max_abs, found.steps, found.not_finite, found.up) == (4, 0.5, {}, 2, 0.25)
    assert [a.name for a in found.axes] == ["W"]
    for shape, names in (((2, 2), "NC"), ((1, 2, 2), "NCW"), ((1, 1, 1, 2, 2), "abcde")):
        a = np.zeros(shape, np.float32)
        assert "".join(x.name for x in describe_difference(a, a + 1, TensorSpec("y", "float32", shape)).axes) == names


def test_many_steps_are_counted_by_the_commonest() -> None:
    made, recorded = np.zeros(400, np.int16), np.repeat(np.arange(1, 21), 20).astype(np.int16)
    recorded[:5] = 9
    found = describe_difference(made, recorded, TensorSpec("y", "int16", (400,)))
    assert len(found.steps) == 16 and next(iter(found.steps.items())) == (9, 25)
    assert found.axes[0].whole == tuple(range(16))


@pytest.mark.parametrize(
    ("shape", "cells"),
    [((7,), (1, 7)), ((3, 5), (3, 5)), ((2, 30, 100), (12, 48)), ((1, 9, 1, 1), (1, 9)), ((), (1, 1))],
)
def test_the_size_of_a_drawing(shape: tuple[int, ...], cells: tuple[int, int]) -> None:
    found = drawing(np.ones(shape, bool))
    assert (len(found), len(found[0])) == cells and {v for row in found for v in row} == {1.0}


def test_a_drawing_folds_what_is_before_the_last_two_axes() -> None:
    apart = np.zeros((2, 2, 2, 3), bool)
    apart[0, 1, 0, 2] = True
    assert drawing(apart) == ((0.0, 0.0, 0.25), (0.0, 0.0, 0.0))


# Evidence


def test_bits_that_the_differing_elements_tell() -> None:
    assert evidence.log2_choices(10, 3) == pytest.approx(log2(120)) and evidence.log2_choices(5, 0) == pytest.approx(0)
    unit = Table(4, 10)
    recorded = unit.y.copy()
    recorded[0, :3] += 1
    assert evidence.difference_bits(unit.case(recorded)) == pytest.approx(log2(comb(40, 3)) + 24)


def test_a_copy_tells_by_how_rare_its_values_are() -> None:
    """Each of 8 elements holds a value that one of 80 computed ones has: 8 * log2(81) bits."""
    unit = Table(8, 10)
    recorded = unit.y.copy()
    recorded[0, :8] = unit.y[1, :8]
    told = 8 * log2(81) - 16
    case = unit.case(recorded)
    assert evidence.copy_is_evidence(case, told - 0.1) and not evidence.copy_is_evidence(case, told + 0.1)
    free = np.zeros(80, bool)
    free[4:] = True  # these are not counted
    told = 4 * log2(81) - 16
    assert evidence.copy_is_evidence(case, told - 0.1, free) and not evidence.copy_is_evidence(case, told + 0.1, free)
    other = recorded.copy()
    other[0, :8] = np.setdiff1d(np.arange(-128, 128), unit.y)[:8]  # nowhere among the computed: 8 bits, no more
    assert evidence.copy_is_evidence(unit.case(other), 48 - 0.1) and not evidence.copy_is_evidence(
        unit.case(other), 48.1
    )


def test_garbage_is_unrelated_to_the_computed() -> None:
    unit, rng = Table(40, 50), generator(2)
    free = np.zeros(2000, bool)
    free[:200] = True
    noise_ = np.where(free.reshape(40, 50), rng.integers(-128, 128, (40, 50)), unit.y).astype(np.int8)
    case = unit.case(noise_)
    assert evidence.unrelated(case, free) and evidence.garbage_is_evidence(case, 0.0, free)
    told = evidence.difference_bits(case) - 1600 - 16
    assert evidence.garbage_is_evidence(case, told - 0.1, free) and not evidence.garbage_is_evidence(
        case, told + 0.1, free
    )
    near = np.where(free.reshape(40, 50), unit.y.astype(int) // 2 + rng.integers(-9, 9, (40, 50)), unit.y)
    assert not evidence.unrelated(unit.case(near.astype(np.int8)), free)
    equal = noise_.copy()
    equal.reshape(-1)[:12] = unit.y.reshape(-1)[:12]
    assert not evidence.unrelated(unit.case(equal), free)


# Cases and places


def test_noise_keeps_what_it_must() -> None:
    index = np.arange(5, dtype=np.int32)
    assert noise(index, "x", 1) is index
    a, b = noise(np.zeros(1000, np.int8), "x", 1), noise(np.zeros(1000, np.int8), "y", 1)
    assert a.dtype == np.int8 and (a.min(), a.max()) == (-128, 127) and (a != b).any()
    assert (
        np.array_equal(a, noise(np.zeros(1000, np.int8), "x", 1))
        and (a != noise(np.zeros(1000, np.int8), "x", 2)).any()
    )
    floats = noise(np.float32([2, 5, np.nan, np.inf] * 100), "x", 1)
    assert floats.dtype == np.float32 and 2 <= floats.min() < 2.5 and 4.5 < floats.max() <= 5
    none = noise(np.full(400, np.nan, np.float32), "x", 1)
    assert -1 <= none.min() < -0.5 and 0.5 < none.max() <= 1


def test_places_of_a_unit() -> None:
    unit = Table(4, 10)
    case = unit.case(unit.y)
    assert [(p.name, p.kind, p.label) for p in memory_sources(case)] == [
        ("y", "output", "the output"), ("x", "input", "the input"), ("c_table", "constant", "the table")
    ]  # fmt: skip
    assert [p.name for p in memory_sources(case, "constant", "output")] == ["y", "c_table"]
    a, b = np.array([8, 20], np.int8), np.array([-6, 10], np.int8)
    rq = np.array([0.25, 0.5])
    small = Small("add", (0, -128, 127), ("int8", 1.0, 3), (2,), a=(a, 0.25, 4), b=(b, 0.5, -6), c_rq=(rq,))
    two = Case(small.graph, units(small.graph)[0], small.inputs, "y", a)
    assert [p.label for p in memory_sources(two)] == ["the output", "the input a", "the input b", "the scales"]
    assert two.made.tolist() == [4, 15] and output_from_all(two, lambda v: v[::-1])(two).tolist() == [15, 4]
