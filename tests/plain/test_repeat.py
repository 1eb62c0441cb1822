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
    assert status == 0 and held["repeat"] == {"runs": 5, "wanted": 5, "why": "", "unstable": []}


def test_a_bit_that_is_wrong_every_second_run(digits: Path, tmp_path: Path) -> None:
    board = f"faulty:local?fault=jitter@{NODE}"
    assert run(digits, board, tmp_path / "once.json", "-r")[0] == 0  # the first run is right
    status, held = run(digits, board, tmp_path / "r.json", "-r", "--repeat", "9")
    assert status == 1 and held["verdict"] == "FAILED"
    assert all(p["cause"] == "not_deterministic" for p in held["pairs"] if "board" in (p["a"], p["b"]))
    first = {"tensor": NODE, "node": NODE, "runs": 4, "contents": 2, "elements": 1, "bits": [2]}
    assert held["repeat"]["unstable"][0] == first


def test_a_board_without_digests_is_compared_by_its_outputs(digits: Path, tmp_path: Path) -> None:
    status, held = run(digits, "finals:local", tmp_path / "r.json", "--repeat", "3")
    assert status == 0 and held["repeat"] == {"runs": 3, "wanted": 3, "why": "", "unstable": []}
    board = "finals:faulty:local?fault=jitter@prob"
    status, held = run(digits, board, tmp_path / "r.json", "--repeat", "3")
    assert status == 1 and [r["tensor"] for r in held["repeat"]["unstable"]] == ["prob"]


@pytest.mark.parametrize("how", ["breaks", "lacks"])
def test_a_board_that_breaks_on_the_way_is_not_passed(how: str, digits: Path, tmp_path: Path, monkeypatch) -> None:
    from qverify_agents.errors import LinkError
    from qverify_agents.protocol.client import Agent

    real, runs = Agent.run, []

    def spoilt(self: Agent, *args: object, **more: object) -> object:
        runs.append(1)
        if len(runs) == 3 and how == "breaks":
            raise LinkError("the cable was pulled")
        events = real(self, *args, **more)  # type: ignore[arg-type]
        return [e for e in events if e.tensor != NODE] if len(runs) == 3 else events

    monkeypatch.setattr(Agent, "run", spoilt)
    status, held = run(digits, "local", tmp_path / "r.json", "--repeat", "5")
    assert status == 3 and held["verdict"] == "INCONCLUSIVE" and held["repeat"]["runs"] == 2
    assert ("cable" if how == "breaks" else "was not received") in held["repeat"]["why"]


def test_nothing_to_repeat(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-m", str(digits / "digits_quant.onnx"), "--repeat", "3"]) == 2
    assert "give -b BOARD" in capsys.readouterr().err
