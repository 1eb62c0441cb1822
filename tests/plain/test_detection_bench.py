"""The detection bench on the packaged example: what is planted is found where it was planted, and a number repeats a run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from benchmarks import detection

pytestmark = pytest.mark.filterwarnings("default")


def bench(folder: Path, *words: str) -> tuple[int, dict]:
    out = folder / "f.json"
    status = detection.main([*words, "--models", "digits", "--json", str(out)])
    return status, json.loads(out.read_text())


def test_the_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = bench(tmp_path, "--count", "18", "--healthy", "12")
    assert not found["missed"] + found["alarms"]
    assert found["changed_bytes"] == found["detected"] == found["located"] > 10
    assert found["withheld"]["planted"] and found["two_faults"]["planted"] and found["over_a_bad_link"]["planted"]
    reasons = found["not_confirmed"].values()
    assert sum(r["plants"] for r in reasons) == len(found["unexplained"]) == found["explainable"] - found["explained"]
    assert found["healthy_runs"] == 12 and found["false_alarms"] == found["detected_without_a_changed_byte"] == 0


def test_a_number_repeats_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = bench(tmp_path, "--run", "7", "--verbose")
    first = capsys.readouterr().err
    assert (found["planted"], found["healthy_runs"]) == (1, 0)
    assert bench(tmp_path, "--run", "7", "--verbose")[0] == status
    assert "--run 7: digits" in first and capsys.readouterr().err == first
