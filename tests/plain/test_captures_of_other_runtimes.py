"""Captures of boards that run LiteRT or onnxruntime: judged again as the run was, and by no model that is not in the capture."""

from __future__ import annotations

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify.tflite_model.convert import convert
from qverify.tflite_model.read_tflite import read_tflite

from tests.plain.captured_run import changed, judged_again, report
from tests.tflite_files import dense
from tests.unsigned_weights import write_unsigned_example

NEEDS_LITERT = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
PAIRS = ("a", "b", "verdict", "why", "bit_equal", "node_by_node", "scope", "gate", "relaxed", "exceptions")


def captured(tmp_path: Path, *words: str) -> tuple[Path, int, dict]:
    """Returns the capture of a run, and the run's exit status and report."""
    folder, out = tmp_path / "capture", tmp_path / "run.json"
    status = main([*words, "-b", "local", "--spot-seed", "1", "--capture", str(folder), "--json", str(out)])
    return folder, status, report(out)


def tflite(tmp_path: Path) -> Path:
    path = tmp_path / "m.tflite"
    path.write_bytes(dense(40, 16, 32, True, "int8"))
    return path


def with_onnx(tmp_path: Path) -> str:
    """Returns -m of a .tflite, the QDQ ONNX of the same network, and the map of their tensors."""
    path, quantized = tflite(tmp_path), tmp_path / "m.onnx"
    converted = convert(read_tflite(path.read_bytes(), "m.tflite"))
    quantized.write_bytes(converted.onnx)
    entries = {n: {"tfl": e["tfl"], "shape": list(e["dims"])} for n, e in converted.tensors.items()}
    Path(f"{quantized}.map.json").write_text(json.dumps(entries))
    return f"{quantized},{path}"


def sections(found: dict) -> list[dict]:
    return [{k: pair.get(k) for k in PAIRS} for pair in found["pairs"]]


def board_pair(found: dict) -> dict:
    return next(p for p in found["pairs"] if (p["a"], p["b"]) == ("reference", "board"))


def equally_judged(folder: Path, status: int, run: dict) -> None:
    again, found = judged_again(folder)
    assert (again, found["verdict"]) == (status, run["verdict"]) == (0, "PASSED")
    assert sections(found) == sections(run)


@NEEDS_LITERT
def test_a_tflite_alone(tmp_path):
    equally_judged(*captured(tmp_path, "-m", str(tflite(tmp_path)), "--runtime", "litert"))


@NEEDS_LITERT
def test_a_tflite_beside_its_onnx(tmp_path):
    folder, status, run = captured(tmp_path, "-m", with_onnx(tmp_path), "--runtime", "litert")
    equally_judged(folder, status, run)
    kept = folder / "models" / "0.onnx.map.json"
    kept.write_text(kept.read_text() + " ")
    assert main(["replay", str(folder)]) == 2  # the map is of the capture as the models are


@NEEDS_LITERT
def test_a_tflite_whose_map_is_not_recorded_is_not_what_the_board_ran(tmp_path):
    folder, _, _ = captured(tmp_path, "-m", with_onnx(tmp_path), "--runtime", "litert")
    changed(folder, lambda frame, held: held.update(models=[m for m in held["models"] if m["kind"] != "map"]))
    status, found = judged_again(folder)
    assert status == 3 and board_pair(found)["verdict"] == "INCONCLUSIVE"


@pytest.mark.parametrize("uri", ["local", "local?form=original"])
def test_onnxruntime(uri, digits, tmp_path):
    example = write_unsigned_example(digits, tmp_path / "example")
    words = ["-m", str(example / "digits_quant.onnx"), "--runtime", "onnxruntime"]
    folder, out = tmp_path / "capture", tmp_path / "run.json"
    status = main([*words, "-b", uri, "--spot-seed", "1", "--capture", str(folder), "--json", str(out)])
    equally_judged(folder, status, report(out))


@NEEDS_LITERT
def test_another_tflite_in_the_capture(tmp_path):
    folder, _, _ = captured(tmp_path, "-m", str(tflite(tmp_path)), "--runtime", "litert")
    path = folder / "models" / "0.tflite"
    data = path.read_bytes() + bytes(16)  # the same network in another file
    path.write_bytes(data)

    def exchange(frame, held):
        held["models"][0]["sha256"] = hashlib.sha256(data).hexdigest()

    status, found = judged_again(changed(folder, exchange))
    assert status == 3
    assert board_pair(found)["verdict"] == "INCONCLUSIVE" and "ran another model" in board_pair(found)["why"]


@pytest.mark.parametrize("stated", [{"model_sha256": "0" * 64}, {"engine": "qvrt"}])
def test_a_board_that_states_another_model_or_engine(stated, digits, tmp_path):
    folder, _, _ = captured(tmp_path, "-m", str(digits / "digits_quant.onnx"), "--runtime", "onnxruntime")
    changed(folder, lambda frame, held: next(s for s in frame["sides"] if s["label"] == "board").update(stated))
    status, found = judged_again(folder)
    assert status == 3 and board_pair(found)["verdict"] == "INCONCLUSIVE"


def test_kernels_are_believed_of_their_own_runtime_alone(digits, tmp_path):
    folder, _, _ = captured(tmp_path, "-m", str(digits / "digits_quant.onnx"))
    before = sections(judged_again(folder)[1])

    def claim(frame, held):
        next(s for s in frame["sides"] if s["label"] == "board")["kernels"] = "litert-optimized"

    status, found = judged_again(changed(folder, claim))
    assert status == 0 and sections(found) == before and found["pairs"][-1]["gate"] == "bit equality"


def test_a_stated_runtime_that_the_board_did_not_run(digits, tmp_path, capsys):
    folder, _, _ = captured(tmp_path, "-m", str(digits / "digits_quant.onnx"), "--runtime", "onnxruntime")
    assert main(["replay", str(folder), "--runtime", "litert"]) == 2
    assert "the captured board ran onnxruntime; leave --runtime out" in capsys.readouterr().err


def test_the_board_again(digits, tmp_path):
    folder, status, run = captured(tmp_path, "-m", str(digits / "digits_quant.onnx"), "--runtime", "onnxruntime")
    again, found = judged_again(folder, "-b", "local", "--runtime", "onnxruntime")
    assert (again, found["verdict"]) == (status, run["verdict"])
    assert next(s for s in found["sides"] if s["name"] == "board")["engine"] == "onnxruntime"
