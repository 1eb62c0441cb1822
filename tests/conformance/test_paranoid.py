"""--paranoid: a board that repeats former answers, which no digest of one run can tell, is found; the spot check moves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from lying_agent import lying_board
from qverify.capture.reader import open_capture
from qverify.cli.main import main
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.records import encode
from qverify.report.schema import report_schema
from qverify.session.other_inputs import other_inputs
from tiny_model import graph, prepared

NODE = "relu2_QuantizeLinear_Output"
REPLAYS = """
if request is not None and request.type in (frames.RUN, frames.GET):
    key = (f.type, at) if request.type == frames.RUN else (f.type, request.payload)
    return [(f.type, kept.setdefault(key, f.payload))]"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "model.bin").write_bytes(encode(graph()))
    return str(tmp_path / "model.bin")


def run(model: str, out: Path, *more: str) -> tuple[int, dict[str, object]]:
    status = main(["-m", model, "-b", "local", "--json", str(out), *more])
    held = json.loads(out.read_text())
    Draft202012Validator(report_schema()).validate(held)
    return status, held


def test_a_healthy_board(model: str, tmp_path: Path, capsys) -> None:
    status, held = run(model, tmp_path / "r.json", "--paranoid", "--spot-seed", "5")
    assert status == 0 and held["pairs"][0]["coverage"]["by_digest"] == 0
    assert "paranoid: on other inputs (random, PCG64 seed 5), too, 4 tensors equal the simulator's" in held["notes"]
    assert "by digest" not in capsys.readouterr().out


def test_a_board_that_replays_its_former_run(model: str, tmp_path: Path, monkeypatch) -> None:
    lying_board(REPLAYS, tmp_path, monkeypatch)
    assert run(model, tmp_path / "r.json", "--repeat", "3")[0] == 0  # as README's limits say
    status, held = run(model, tmp_path / "r.json", "--paranoid")
    (pair,) = held["pairs"]
    assert status == 1 and (pair["verdict"], pair["cause"]) == ("FAILED", "former_answers")
    assert "the board repeats former answers" in pair["why"] and "(4 tensors in all)" in pair["why"]


def test_a_board_that_is_wrong_on_other_inputs_only(model: str, tmp_path: Path, monkeypatch) -> None:
    lying_board("if len(runs) > 1 and at == 2: return [(f.type, node(2, 0, mark ^ 1, 'u'))]", tmp_path, monkeypatch)
    assert run(model, tmp_path / "r.json")[0] == 0
    status, held = run(model, tmp_path / "r.json", "--paranoid")
    assert status == 3 and "on other inputs" in held["pairs"][0]["why"]  # its bytes do not hold the digest


def test_a_board_that_breaks_then(model: str, tmp_path: Path, monkeypatch) -> None:
    lying_board("if len(runs) > 1 and f.type == frames.DONE: os._exit(1)", tmp_path, monkeypatch)
    status, held = run(model, tmp_path / "r.json", "--paranoid")
    assert status == 3 and held["verdict"] == "INCONCLUSIVE"


def test_a_replayed_capture_says_it_again(model: str, tmp_path: Path, monkeypatch) -> None:
    lying_board(REPLAYS, tmp_path, monkeypatch)
    assert run(model, tmp_path / "r.json", "--paranoid", "--capture", str(tmp_path / "cap"))[0] == 1
    assert main(["replay", str(tmp_path / "cap")]) == 1
    manifest = tmp_path / "cap" / "capture.json"
    held = json.loads(manifest.read_text())
    held["frames"][0]["other_inputs"]["verdict"] = "GOOD"
    manifest.write_text(json.dumps(held))
    assert main(["replay", str(tmp_path / "cap")]) == 2


@pytest.mark.parametrize("words", [("--paranoid",), ("--paranoid", "-b", "local", "-s", "False")])
def test_without_a_board_or_a_simulator_it_is_refused(words: tuple[str, ...], digits: Path, capsys) -> None:
    assert main(["-m", str(digits / "digits_quant.onnx"), *words]) == 2
    assert "give -b BOARD and -s True" in capsys.readouterr().err


def test_the_other_inputs_are_other_ones() -> None:
    given = random_inputs(graph(), 3)
    found = other_inputs(graph(), given, 3)
    assert found is not None and found[1] == 4 and found[0].inputs[0].data != given.inputs[0].data
    one, two = (other_inputs(graph(), prepared()) for _ in range(2))
    assert one is not None and two is not None and one[1] != two[1]


def test_the_spot_check_takes_another_tensor_each_run(digits: Path, tmp_path: Path) -> None:
    """And the one that a seed names."""
    binary = tmp_path / "digits.bin"
    source = (digits / "digits_quant.onnx").read_bytes()
    binary.write_bytes(encode(compile_model(source, "digits", CompilerOptions()).graph))

    def spot(*more: str) -> str:
        held = run(str(binary), tmp_path / "r.json", *more)[1]
        (note,) = [n for n in held["notes"] if n.startswith("spot check: ")]
        seed = held["sides"][-1]["settings"]["spot_seed"]
        assert note.endswith(f" matches its digest (seed {seed})")
        return note.removesuffix(f" (seed {seed})") if not more else note

    assert len({spot() for _ in range(12)}) > 1
    assert spot("--spot-seed", "9") == spot("--spot-seed", "9")
    assert spot("--spot-seed", "9") != spot("--spot-seed", "10")


def test_what_is_known_by_digest_only_is_counted(model: str, tmp_path: Path, capsys) -> None:
    """q, t and u have 231 elements each; one of them is pulled, and y."""
    status, held = run(model, tmp_path / "r.json", "--capture", str(tmp_path / "cap"))
    ledger = held["pairs"][0]["coverage"]
    assert status == 0 and (ledger["elements"], ledger["by_digest"]) == (924, 462)
    assert "924 elements compared (462 of them by digest), 0 missing" in capsys.readouterr().out
    assert len(open_capture(str(tmp_path / "cap")).recordings(0)["board"].borrowed) == 2
    assert main(["replay", str(tmp_path / "cap")]) == 0
    assert "924 elements compared (462 of them by digest)" in capsys.readouterr().out
