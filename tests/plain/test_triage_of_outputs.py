"""How triage judges final outputs: gates fail closed, and a quiet output is never taken for a good one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from qverify.errors import UsageError
from qverify.report.schema import triage_schema
from qverify.tensors.spec import TensorSpec
from qverify.triage.ladder import OutputComparison, RungGate, parse_gate, real_spec
from qverify.triage.loss import loudest_frames
from qverify.triage.loudness import OutputStep

from tests.plain.triaged_models import run


@pytest.mark.parametrize(
    "text", ["a~b", "a~b=", "ab=exact", "a~b=exact:1", "a~b=decimals", "a~b=decimals:1.5", "a~b=cosine:2"]
)
def test_gates_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="--gate"):
        parse_gate(text)


def test_outputs_fail_closed() -> None:
    one = {"y": (np.ones((2, 3), np.float32), real_spec("y", np.ones((2, 3), np.float32)))}
    nan = {"y": (np.full((2, 3), np.nan, np.float32), one["y"][1])}
    for other, verdict in ((one, "PASSED"), (nan, "FAILED"), ({}, "INCONCLUSIVE")):
        found = OutputComparison("a", "b", RungGate("cosine", 0.5), {"y": "y"})
        found.add(one, other)
        assert found.rung().verdict == verdict
    both = OutputComparison("a", "b", RungGate("cosine", 0.5), {"y": "y"})
    both.add(nan, nan)
    assert both.rung().verdict != "PASSED"
    assert OutputComparison("a", "b", RungGate("exact"), {}).rung().verdict == "INCONCLUSIVE"


STEP = OutputStep.of(TensorSpec("y", "uint8", (1,), scale=(0.01,), zero_point=(0,)))


def rung_of(gate: RungGate, **outputs: tuple[np.ndarray, np.ndarray]) -> Any:
    """The rung of outputs given as (float, quantized), each of a step of 0.01, in two frames of half of the elements."""
    found = OutputComparison("float", "reference", gate, {n: n for n in outputs}, steps={n: STEP for n in outputs})
    for half in (0, 1):
        parts = [{n: np.float32(np.array_split(v[side], 2)[half]) for n, v in outputs.items()} for side in (0, 1)]
        found.add(*({n: (v, real_spec(n, v)) for n, v in part.items()} for part in parts))
    return found.rung()


COSINE = RungGate("cosine", 0.7)
LOUD = (np.linspace(0, 2.5, 40), np.linspace(0, 2.5, 40) + 0.004)
QUIET = (np.linspace(0, 0.003, 40), np.zeros(40))
SPARSE = (np.append(np.full(9999, 0.0049), 0.3), np.append(np.zeros(9999), 0.3))  # a cosine of 0.5


@pytest.mark.parametrize(
    ("floats", "quantized", "judged", "verdict", "kind"),
    [
        (*LOUD, "gate", "PASSED", ""),
        (*QUIET, "quiet", "INCONCLUSIVE", "quiet"),
        (np.zeros(40), np.zeros(40), "quiet", "INCONCLUSIVE", "quiet"),
        (np.full(40, 0.004), np.full(40, 0.01), "quiet", "INCONCLUSIVE", "quiet"),  # a cosine of 1 tells nothing of it
        (QUIET[0], np.full(40, 0.2), "too_small", "INCONCLUSIVE", "too_small"),
        (QUIET[0], np.full(40, 0.4), "gate", "FAILED", "outputs"),
        (np.full(40, 0.004), np.full(40, 0.4), "gate", "FAILED", "outputs"),
        (*SPARSE, "near", "PASSED", ""),
        (np.full(40, 0.012), np.zeros(40), "gate", "FAILED", "outputs"),
        (np.append(np.full(39, 0.004), 0.012), np.append(np.zeros(39), 0.01), "too_small", "INCONCLUSIVE", "too_small"),
        (LOUD[0], np.zeros(40), "gate", "FAILED", "outputs"),
        (QUIET[0], np.full(40, np.nan), "gate", "FAILED", "outputs"),
    ],
)
def test_an_output_is_judged_in_steps_of_its_own_scale(
    floats: np.ndarray, quantized: np.ndarray, judged: str, verdict: str, kind: str
) -> None:
    rung = rung_of(COSINE, y=(floats, quantized))
    assert (rung.outputs[0].judged, rung.verdict, rung.kind) == (judged, verdict, kind)
    assert rung.outputs[0].holds == (verdict == "PASSED")


def test_a_quiet_output_gates_nothing_and_is_said() -> None:
    rung = rung_of(COSINE, y=LOUD, z=QUIET)
    assert rung.verdict == "PASSED"
    assert rung.evidence == [
        "quiet on this input, not judged: z: its largest value is 0.6 of half a step (0.003 of 0.01)"
    ]
    assert rung_of(COSINE, y=(LOUD[0], -LOUD[1]), z=QUIET).verdict == "FAILED"
    assert rung_of(RungGate("decimals", 5), y=(LOUD[0], LOUD[0]), z=QUIET).verdict == "FAILED"  # an absolute gate
    assert rung_of(COSINE, y=(np.full(4, np.nan), np.full(4, np.nan)), z=QUIET).verdict != "PASSED"


@pytest.mark.parametrize("given", ["x.npy", "frames"])
def test_a_scale_that_is_far_too_large_never_holds(
    models: Path, tmp_path: Path, given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx.load(models / "quant.onnx")
    for held in model.graph.initializer:
        if held.name == "y_scale":
            held.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(held) * np.float32(1000), held.name))
    onnx.save(model, tmp_path / "large.onnx")
    status, found = run(tmp_path, "-m", f"{models}/float.onnx,{tmp_path}/large.onnx", "-i", models / given)
    jsonschema.validate(found, triage_schema())
    assert (status, found["verdict"], found["rungs"][0]["kind"]) == (3, "INCONCLUSIVE", "quiet")
    assert [(q["tensor"], q["output"]) for q in found["quiet"]] == [("y", True)]
    printed = capsys.readouterr().out
    assert "every final output is quiet on this input: y: its largest value is" in printed
    assert "y (final output): never above half a step" in printed and "its scale is too large" in found["next_step"]


def test_frames_are_taken_where_outputs_are_loud() -> None:
    quiet, loud = {"a": 5.0, "b": 0.2, "c": 0.1}, {"a": 0.0, "b": 3.0, "c": 0.1}
    assert loudest_frames([quiet, quiet, quiet, loud, loud], 2) == [0, 3]
    assert loudest_frames([quiet, quiet, quiet, loud, loud], 1) == [0]
    assert loudest_frames([quiet] * 5, 3) == [0, 1, 2] and loudest_frames([{}] * 3, 2) == [0, 1]
