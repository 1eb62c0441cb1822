"""--repeat: a board that is not the same from run to run is never PASSED, and its tensors and bits are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from qverify.cli.main import main
from qverify.report.schema import report_schema

NODE = "relu2_QuantizeLinear_Output"


def run(digits: Path, board: str, out: Path, *more: str) -> tuple[int, dict[str, object]]:
    status = main(["-m", str(digits / "digits_quant.onnx"), "-b", board, "--json", str(out), *more])
    held = json.loads(out.read_text())
    Draft202012Validator(report_schema()).validate(held)
    return status, held


def test_a_board_that_is_always_the_same(digits: Path, tmp_path: Path) -> None:
    status, held = run(digits, "local", tmp_path / "r.json", "--repeat", "5")
    assert status == 0 and held["repeat"] == {"runs": 5, "unstable": []}


@pytest.mark.parametrize("prefix", ["", "finals:"])
def test_a_bit_that_is_wrong_every_second_run(prefix: str, digits: Path, tmp_path: Path) -> None:
    board = f"{prefix}faulty:local?fault=jitter@{NODE}"
    assert run(digits, board, tmp_path / "once.json", "-r")[0] == 0  # the first run is right
    status, held = run(digits, board, tmp_path / "r.json", "-r", "--repeat", "9")
    rows = held["repeat"]["unstable"]
    if prefix and not rows:
        assert status == 0  # the bit did not reach an output
        return
    assert status == 1 and held["verdict"] == "FAILED"
    assert all(p["cause"] == "not_deterministic" for p in held["pairs"] if "board" in (p["a"], p["b"]))
    if not prefix:
        first = {"tensor": NODE, "node": NODE, "runs": 4, "contents": 2, "elements": 1, "bits": [2]}
        assert rows[0] == first
