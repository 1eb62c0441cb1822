"""--paranoid of boards that run the ONNX or the .tflite with a runtime of their own: they run again on other inputs."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from qverify.cli.main import main

from tests.plain.test_untapped_outputs import EXAMPLE
from tests.plain.test_untapped_outputs_of_litert import two_sums
from tests.unsigned_weights import write_unsigned_example


def paranoid(words: list[str], tmp_path: Path) -> list[str]:
    """Returns the notes of --paranoid in the report of a job that must be PASSED."""
    out = tmp_path / "report.json"
    assert main([*words, "--paranoid", "--spot-seed", "5", "--json", str(out)]) == 0
    return [n for n in json.loads(out.read_text())["notes"] if n.startswith("paranoid: on other inputs (random")]


@pytest.mark.parametrize("address", ["local", "local?form=original"])
@pytest.mark.parametrize("every_node", ["True", "False"])
def test_onnxruntime_runs_again(address: str, every_node: str, tmp_path: Path) -> None:
    folder = write_unsigned_example(EXAMPLE, tmp_path / "example")
    words = ["-m", str(folder / "digits_quant.onnx"), "--runtime", "onnxruntime", "-b", address, "-r", every_node]
    (note,) = paranoid(words, tmp_path)
    assert note.endswith("the simulator's")


@pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
def test_litert_runs_again(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(two_sums())
    words = ["-m", str(path), "--runtime", "litert", "-b", "local?kernels=reference", "-r", "True"]
    (note,) = paranoid(words, tmp_path)
    assert note.endswith("2 tensors equal the simulator's")
