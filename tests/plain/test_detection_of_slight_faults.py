"""The bench of slight faults in float nodes, on a small vision transformer: found with a simulator, and without one by the ties."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from benchmarks import detection_floats

pytestmark = pytest.mark.filterwarnings("default")


def test_every_kind_on_a_small_transformer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "f.json"
    words = ["--models", "small_vit_8", "small_vit_16", "--count", "6", "--healthy", "1", "--json", str(out)]
    assert detection_floats.main(words) == 0
    found = json.loads(out.read_text())
    assert not found["missed"] + found["missed_alone"] and found["failing_though_healthy"] == {}
    assert found["changed_bytes"] == found["detected"] == found["located"] == found["alone"] >= 5
    assert len(found["per_kind"]) == 6 and found["healthy_runs"] == 2
