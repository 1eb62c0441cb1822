"""Losses of TRIAGE.md, what is left in float, and the next steps, one rule at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qverify.report.triage_document import OutputRow, SingleTensorLoss, TensorLoss, WhatIf, WhatIfStep
from qverify.tensors.spec import TensorSpec
from qverify.triage.advice import ADVICE, advice, loss_evidence, loss_kind
from qverify.triage.ladder import RungGate
from qverify.triage.loss import (
    LossExperiment,
    OutputLoss,
    channels_lost,
    loudest_frames,
    quantize_one_at_a_time,
    quantized_range,
    sqnr_db,
)
from qverify.triage.loudness import OutputStep, quiet_outputs
from qverify.triage.what_if import what_if

Array = Any


class Damaged:
    """A switched model of two outputs: each tensor that is on adds its own error to one of them."""

    def __init__(self, errors: dict[str, tuple[str, float]]):
        self.errors, self.asked = errors, list[frozenset[str]]()

    def run(self, feed: dict[str, Array], on: frozenset[str]) -> dict[str, Array]:
        self.asked.append(on)
        made = {"y": feed["x"].copy(), "z": feed["x"] * 2}
        for name in on:
            output, by = self.errors[name]
            made[output] = made[output] + np.float32([by, -by, by, -by])
        return made


FRAMES = [{"x": np.float32([1, 2, 3, 4])}, {"x": np.float32([-4, 0, 2, 8])}]


def cosine(a: Array, b: Array) -> float:
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def test_the_outputs_of_some_tensors_quantized() -> None:
    model = Damaged({"t": ("y", 1.0), "u": ("z", 0.5), "n": ("z", np.nan)})
    experiment = LossExperiment(model, FRAMES)  # type: ignore[arg-type]
    x = np.concatenate([f["x"] for f in FRAMES]).astype(np.float64)
    error = np.tile([1.0, -1.0], 4)
    found_ = experiment.measure(["t"])
    at_y = cosine(x, x + error)
    assert (found_.worst, found_.cosine, found_.harm) == ("y", pytest.approx(at_y), pytest.approx(at_y))
    assert found_.mean == pytest.approx((at_y + 1) / 2) and found_.sqnr_db == pytest.approx(10 * np.log10(x @ x / 8))
    none = experiment.measure([])
    assert (none.worst, none.harm, none.mean) == ("y", pytest.approx(1.0), pytest.approx(1.0))
    broken = experiment.measure(["n"])
    assert (broken.worst, broken.cosine, broken.harm) == ("z", -1.0, -1.0)
    assert experiment.runs == len(model.asked) == 2 + 3 * 2


def test_an_output_that_cannot_be_judged_is_no_harm() -> None:
    """Its float never reaches a step; it counts only if there is no other output."""
    model = Damaged({"t": ("y", 9.0), "u": ("z", 0.5)})
    experiment = LossExperiment(model, FRAMES, {"y": OutputStep(100.0, 25500.0)})  # type: ignore[arg-type]
    x = np.concatenate([f["x"] for f in FRAMES]).astype(np.float64)
    found_ = experiment.measure(["t", "u"])
    at_z = cosine(2 * x, 2 * x + np.tile([0.5, -0.5], 4))
    assert (found_.worst, found_.harm, found_.mean) == ("z", pytest.approx(at_z), pytest.approx((at_z + 1) / 2))
    silent = LossExperiment(model, FRAMES, {n: OutputStep(100.0, 25500.0) for n in "yz"})  # type: ignore[arg-type]
    found_ = silent.measure(["t"])
    assert (found_.worst, found_.harm, found_.mean) == ("y", 1.0, 1.0) and found_.cosine < 0.5


def test_each_tensor_alone_is_ranked() -> None:
    model, told = Damaged({"t": ("y", 0.5), "u": ("y", 2.0), "v": ("z", 0.5), "w": ("y", 0.5)}), list[tuple[int, int]]()
    rows = [loss(n) for n in "wtuv"]
    quantize_one_at_a_time(LossExperiment(model, FRAMES), rows, lambda at, of: told.append((at, of)))  # type: ignore[arg-type]
    assert [r.tensor for r in rows] == ["u", "t", "w", "v"] and told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [r.single.worst_output for r in rows if r.single] == ["y", "y", "y", "z"]
    assert rows[0].single is not None and rows[0].single.cosine < rows[1].single.cosine


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
    tenths = np.full((2, 1), 10, np.float32)  # off by a tenth: 20 dB
    assert channels_lost(tenths, tenths - np.float32([[1], [1.01]]), 0) == 0.5


@pytest.mark.parametrize(
    ("most", "frames"), [(0, []), (1, [1]), (2, [1, 2]), (3, [0, 1, 2]), (4, [0, 1, 2, 3]), (9, [0, 1, 2, 3])]
)
def test_the_first_frames_in_which_outputs_are_loud(most: int, frames: list[int]) -> None:
    """Loud from one step on. y is loud in frame 1 and 3, z in frame 2, v never."""
    y, z = (0.9, 1.0, 0.9, 5.0), (0.0, 0.9, 1.0, 0.0)
    outputs = [{"y": a, "z": b, "v": 0.9} for a, b in zip(y, z, strict=True)]
    assert loudest_frames(outputs, most) == frames
    assert loudest_frames([], most) == []


def test_a_frame_in_which_more_outputs_are_loud_comes_first() -> None:
    assert loudest_frames([{"y": 2, "z": 0}, {"y": 0, "z": 2}, {"y": 1, "z": 1}], 1) == [2]


def test_the_quantized_range() -> None:
    assert quantized_range(TensorSpec("t", "int8", (1,), (), (0.5,), (-28,))) == (-50.0, 77.5)
    assert quantized_range(TensorSpec("t", "uint8", (2,), (), (0.5, 1.0), (0, 5), 0)) == (-5.0, 250.0)


class Measured:
    """An experiment whose harm is given by the tensors left in float."""

    def __init__(self, harms: dict[str, float]):
        self.harms, self.runs, self.frames, self.all = harms, 10, [{}, {}], [f"t{i}" for i in range(12)]
        self.asked: list[str] = []

    def measure(self, on: Any) -> OutputLoss:
        left = "".join(sorted(set(self.all) - set(on)))
        self.runs += 2
        self.asked.append(left)
        harm = self.harms.get(left, 0.0)
        return OutputLoss("y", harm, 9.0, harm, 0.5)


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
    assert len(told) == len(experiment.asked) - 1
    assert all(of == 32 for _, of in told) and [at for at, _ in told][:8] == list(range(1, 9))[: len(told)]
    if len(told) > 8:
        assert [at for at, _ in told][8:15] == list(range(9, 16))


def test_a_gate_that_is_no_cosine_wants_nearly_all_of_it() -> None:
    for harm, holds in ((0.9999, True), (0.9998, False)):
        experiment = Measured({"": harm})
        assert what_if(experiment, experiment.all, RungGate("decimals", 5)).holds is holds  # type: ignore[arg-type]


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
    assert loss_evidence([loss("t", drop_db=6.0)]) == [first]
    assert loss_evidence([loss("t", drop_db=6.5)])[1:] == ["largest step of the accumulated loss: 6.5 dB at t (Conv)"]
