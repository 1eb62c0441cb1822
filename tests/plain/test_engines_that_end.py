"""LiteRT ends its process on a file: as the reference and on a board, the verdict is INCONCLUSIVE, and qverify goes on."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.errors import BadFileError
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.units import units
from qverify.session.host_sides import HostSides
from qverify.session.models import open_models
from qverify.sides import litert_engine
from qverify.sides.engine_child import EngineChild
from qverify.sides.litert_reference import LiteRtReference

from tests.plain.captured_run import report
from tests.tflite_files import dense

pytestmark = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
ABORTS = "import os, sys\nfor line in sys.stdin: os.abort()\n"
ABORTS_ON_THE_BOARD = """
import os, runpy, sys
from ai_edge_litert import interpreter

class Ends(interpreter.Interpreter):
    def invoke(self):
        os.abort()

interpreter.Interpreter = Ends
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def tflite(tmp_path: Path) -> Path:
    path = tmp_path / "m.tflite"
    path.write_bytes(dense(40, 16, 32, True, "int8"))
    return path


def use(monkeypatch: pytest.MonkeyPatch, program: Path, text: str) -> None:
    program.write_text(text)
    monkeypatch.setattr(litert_engine, "PROGRAM", program)


def test_a_reference_that_ends_its_process_is_inconclusive(tflite, tmp_path, monkeypatch, capsys):
    use(monkeypatch, tmp_path / "ends.py", ABORTS)
    out = tmp_path / "report.json"
    assert main(["-m", str(tflite), "-b", "local", "-r", "True", "--json", str(out)]) == 3
    found = report(out)
    verdicts = {(p["a"], p["b"]): p["verdict"] for p in found["pairs"]}
    assert verdicts == {
        ("reference", "simulator"): "INCONCLUSIVE",
        ("reference", "board"): "INCONCLUSIVE",
        ("simulator", "board"): "PASSED",
    }
    said = "the reference did not run: LiteRT cannot run m.tflite: it ended its process with signal 6 (SIGABRT)"
    lines = [line for line in capsys.readouterr().out.splitlines() if said in line and "result Strict check" in line]
    assert len(lines) == 1


def test_a_node_that_ends_it_is_an_error_of_that_node_and_the_next_one_runs(tflite, tmp_path, monkeypatch):
    models = open_models([str(tflite)])
    reference = HostSides(models).reference()
    assert isinstance(reference, LiteRtReference)
    prepared = random_inputs(models.graph)
    recording = reference.run(prepared)
    assert recording.state == "complete"
    (unit,) = units(models.graph)
    values = {**prepared.arrays(), **recording.tensors}
    given = {n: values[n] for n in unit.inputs}
    ending = tmp_path / "ends.py"
    ending.write_text(ABORTS)
    with monkeypatch.context() as patched:
        patched.setattr(reference._engine, "_child", EngineChild(ending))
        with pytest.raises(BadFileError, match="LiteRT cannot run it: it ended its process with signal 6"):
            reference.run_unit(unit, given)
    again = reference.run_unit(unit, given)
    assert all(np.array_equal(again[n], values[n]) for n in unit.outputs)


def test_a_file_that_litert_refuses_is_one_line(tflite, tmp_path, monkeypatch, capsys):
    use(
        monkeypatch,
        tmp_path / "refuses.py",
        'import sys\nfor line in sys.stdin: print(\'{"why": "no\\\\nkernel", "refused": true}\', flush=True)\n',
    )
    assert main(["-m", str(tflite), "-b", "local"]) == 2
    assert "m.tflite: LiteRT refuses it: no" in capsys.readouterr().err


def test_a_board_whose_litert_ends_is_inconclusive(tflite, tmp_path, capsys):
    wrapper, out = tmp_path / "wrapper.py", tmp_path / "report.json"
    wrapper.write_text(ABORTS_ON_THE_BOARD)
    words = ["-m", str(tflite), "-b", "local", "--runtime", "litert", "--python", f"{sys.executable} {wrapper}"]
    assert main([*words, "--json", str(out)]) == 3
    verdicts = {(p["a"], p["b"]): p["verdict"] for p in report(out)["pairs"]}
    assert verdicts[("reference", "simulator")] == "PASSED"
    assert verdicts[("reference", "board")] == verdicts[("simulator", "board")] == "INCONCLUSIVE"
    assert "the board did not run" in capsys.readouterr().out
