"""A gate of a cosine alone is joined by one of the ratio of the norms; a scale is named whatever the gate."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compare import scale
from qverify.compare.options import Options
from qverify.compare.vendor_criteria import find_gates
from qverify.compare.verdict import judge_all
from qverify.report.document import Pair, ReportDocument, TensorRow
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec
from qverify.triage.ladder import OutputComparison, RungGate, default_gate, real_spec

VALUES = np.random.default_rng(5).standard_normal(400).astype(np.float32)


def record(side: str, value: np.ndarray) -> Recording:
    return Recording(
        side, side, specs={"y": TensorSpec("y", "float32", value.shape)}, finals=("y",), tensors={"y": value}
    )


def judge(value: np.ndarray, options: Options) -> ReportDocument:
    return judge_all(
        {"reference": record("reference", VALUES), "dump": record("dump", value)}, None, [], options, {}, None
    )


@pytest.mark.parametrize("factor", [50, 0.02, 2.1, 0.4])
def test_a_scale_fails_the_gate_of_a_cosine_and_of_axera(factor: float) -> None:
    for options in (Options(min_cosine=0.98), Options(**find_gates("axera"), criteria="axera")):
        report = judge(VALUES * np.float32(factor), options)
        assert report.verdict == "FAILED" and "which a cosine does not see" in report.pairs[0].why
        assert [(f.kind, f.tensor) for f in report.findings] == [("scale", "y")]
    loose = judge(VALUES * np.float32(factor), Options(min_sqnr_db=-100))
    assert loose.verdict == "PASSED" and loose.findings[0].text.startswith("y is ")  # whatever the gate


@pytest.mark.parametrize("factor", [1.4, 0.7])
def test_a_multiple_within_the_norms_is_failed_or_said_in_the_verdict_line(factor: float) -> None:
    report = judge(VALUES * np.float32(factor), Options(min_cosine=0.98))
    assert report.verdict == "FAILED" and report.pairs[0].why.endswith("which a cosine does not see, all by one factor")
    for options in (Options(**find_gates("axera"), criteria="axera"), Options(min_cosine=0.8), Options(min_sqnr_db=-9)):
        report = judge(VALUES * np.float32(factor), options)  # the maker's rule and a mild gate let it pass
        assert report.verdict == "PASSED" and [(f.kind, f.tensor) for f in report.findings] == [("scale", "y")]
        assert (
            "times as large in the dump as in the reference, which the gate does not see" in report.pairs[0].relaxed[-1]
        )


def test_values_of_another_direction_are_no_multiple() -> None:
    noisy = VALUES * np.float32(1.4) + np.random.default_rng(1).standard_normal(400).astype(np.float32) * np.float32(
        0.25
    )
    report = judge(noisy, Options(**find_gates("axera"), criteria="axera"))
    assert report.verdict == "PASSED" and report.findings == [] and len(report.pairs[0].relaxed) == 1


@pytest.mark.parametrize("factor", [1, 1.05, 0.9])
def test_values_of_nearly_the_same_norm_pass(factor: float) -> None:
    report = judge(VALUES * np.float32(factor), Options(min_cosine=0.98))
    assert report.verdict == "PASSED" and report.findings == []


def test_the_factor_follows_from_the_angle() -> None:
    assert scale.largest_factor(0.7) == scale.largest_factor(-1) == scale.SHRUNK
    assert scale.largest_factor(0.9) == scale.FAR
    assert scale.largest_factor(1) == pytest.approx(1, abs=1e-5)
    assert 1.01 < scale.largest_factor(0.9999) < 1.1
    assert scale.holds(1, 1) and not scale.holds(math.nan, 2) and not scale.holds(0, 2) and not scale.holds(math.inf, 2)
    assert "all values are zero" in scale.describe(0)


@pytest.mark.parametrize("kinds", [("float", "reference"), ("float", "float"), ("reference", "dump")])
def test_the_gates_from_float_see_a_scale(kinds: tuple[str, str]) -> None:
    def verdict(value: np.ndarray) -> tuple[str, str]:
        compared = OutputComparison(*kinds, default_gate(*kinds), {"y": "y"})
        compared.add({"y": (VALUES, real_spec("y", VALUES))}, {"y": (value, real_spec("y", value))})
        rung = compared.rung()
        return rung.verdict, rung.why

    assert verdict(VALUES)[0] == "PASSED"
    assert verdict(VALUES * 50) == ("FAILED", verdict(VALUES * 50)[1])
    assert "50 times as large (norms), which a cosine does not see" in verdict(VALUES * 50)[1]
    assert verdict(VALUES / 50)[0] == "FAILED"
    assert RungGate("cosine", 0.7).holds(0.0, 1.0, 7.9) and not RungGate("cosine", 0.7).holds(0.0, 1.0, 8.1)


def test_a_shrunk_output_that_passes_is_named() -> None:
    compared = OutputComparison("float", "reference", RungGate("cosine", 0.7), {"y": "y"})
    compared.add({"y": (VALUES, real_spec("y", VALUES))}, {"y": (VALUES / 4, real_spec("y", VALUES))})
    rung = compared.rung()
    assert rung.verdict == "PASSED" and "y: the values are 4 times too small (norms)" in rung.caveats[0]
    assert "y passes, but the values are 4 times too small" in rung.evidence[0]


def test_compare_by_axera_fails_a_dump_of_another_scale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, factor in (("a", 1), ("b", 50)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "y.npy", VALUES * np.float32(factor))
    words = ["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--criteria", "axera", "--json", str(tmp_path / "r")]
    assert main(words) == 1
    out = capsys.readouterr().out
    assert "found: y is 50 times as large in B as in A: a scale" in out and "50 times as large (norms)" in out
    row = json.loads((tmp_path / "r").read_text())["pairs"][0]["tensors"][0]
    assert row["norm_ratio"] == pytest.approx(50)


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (0.0, "all values are zero, which those of the other side are not"),
        (math.inf, "the values of the other side are all zero"),
        (math.nan, "the norms have no ratio"),
        (1.0, "the values are 1 times as large (norms), which a cosine does not see"),
        (8.0, "the values are 8 times as large (norms), which a cosine does not see"),
        (0.125, "the values are 8 times too small (norms), which a cosine does not see"),
    ],
)
def test_the_words_for_a_ratio(ratio: float, words: str) -> None:
    assert scale.describe(ratio) == words


def test_the_ends_of_a_factor_hold() -> None:
    assert scale.holds(2, 2) and scale.holds(0.5, 2) and not scale.holds(2.001, 2) and not scale.holds(0.499, 2)


def pairs(ratio: Any, cosine: Any, final: bool = True) -> list[Pair]:
    row = TensorRow("y", "y", "conv", [], "float32", [4], "PASSED", None, False, 4, final, False)
    row.metrics = {"norm_ratio": ratio, "cosine": cosine}
    return [
        Pair("reference", b, "PASSED", frame=frame, tensors=[row]) for b in ("simulator", "board") for frame in (3, 4)
    ]


def test_a_scale_is_said_once_for_each_second_side() -> None:
    found = scale.find_scales(pairs(8.0, 0.95))
    assert [(f.kind, f.tensor, f.frame) for f in found] == [("scale", "y", 3)] * 2
    assert "y is 8 times as large on the board as in the reference: a scale (cosine 0.9500)" in found[1].text
    assert scale.find_scales(pairs(0.125, 0.9))[0].text.startswith("y is 1/8 times as large ")


@pytest.mark.parametrize(
    ("ratio", "cosine", "final"),
    [
        (8.0, 0.95, False),
        (8.0, 0.89, True),
        (2.0, 0.94, True),
        (0.5, 0.94, True),
        (0.0, 0.95, True),
        (math.inf, 0.95, True),
        (math.nan, 0.95, True),
        (None, 0.95, True),
        (8.0, None, True),
    ],
)
def test_what_is_no_scale(ratio: Any, cosine: Any, final: bool) -> None:
    assert scale.find_scales(pairs(ratio, cosine, final)) == []


def test_norms_are_named_beside_another_reason() -> None:
    """The cosine of `small` passes: without its norms, nothing says why it FAILED."""
    other = np.random.default_rng(6).standard_normal(400).astype(np.float32)

    def why(given: dict[str, np.ndarray]) -> str:
        sides = {}
        for side, values in (("reference", {n: VALUES for n in given}), ("dump", given)):
            specs = {n: TensorSpec(n, "float32", v.shape) for n, v in values.items()}
            sides[side] = Recording(side, side, specs=specs, finals=tuple(values), tensors=values)
        report = judge_all(sides, None, [], Options(min_cosine=0.998), {}, None)
        assert report.verdict == "FAILED"
        return report.pairs[0].why

    norms = "the values are 2 times too small (norms), which a cosine does not see; wanted a ratio of the norms of"
    both = why({"noise": other, "small": VALUES / 2, "also": VALUES / 2})
    assert both.startswith("noise: cosine ") and f" (and 2 more tensors; small: {norms} " in both
    assert why({"small": VALUES / 2, "noise": other}).startswith(f"small: {norms} ")
    assert "more tensor; small" not in why({"small": VALUES / 2, "noise": other})
    assert "norms" not in why({"noise": other, "also": other})
