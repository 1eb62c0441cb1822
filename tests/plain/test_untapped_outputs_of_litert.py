"""The final outputs of a .tflite of which LiteRT keeps no inner tensor: judged beside the run that keeps every tensor."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from qverify.cli.main import main
from qverify.sides.litert_board import have_same_bytes
from qverify.tflite_model.convert import convert
from qverify.tflite_model.read_tflite import read_tflite

from tests.litert_delegate import built_delegate
from tests.plain.captured_run import changed, judged_again, report
from tests.plain.test_untapped_outputs import LINE, board_pairs
from tests.tflite_files import File, dense

pytestmark = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
SPOILS = """
import runpy, sys
import numpy as np
from ai_edge_litert import interpreter

class Spoiled(interpreter.Interpreter):
    def __init__(self, *words, experimental_preserve_all_tensors=False, **named):
        super().__init__(*words, experimental_preserve_all_tensors=experimental_preserve_all_tensors, **named)
        self.spoils = not experimental_preserve_all_tensors

    def get_tensor(self, index, *more):
        value = super().get_tensor(index, *more)
        is_output = index in [d["index"] for d in self.get_output_details()]
        return value ^ np.int8(0x10) if self.spoils and is_output else value

interpreter.Interpreter = Spoiled
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def two_sums() -> bytes:
    """Returns two ADD in a row, so that there is an inner tensor."""
    f, dims = File(), [6, 24]
    values = np.random.default_rng(0).integers(-128, 128, dims)
    x, m, y = (f.tensor(n, dims, scale=s, zero=z) for n, s, z in (("x", 0.05, -7), ("m", 0.07, 1), ("y", 0.09, 0)))
    c = f.tensor("c", dims, scale=0.03, zero=5, value=values)
    f.operator("ADD", [x, c], [m], "AddOptions")
    f.operator("ADD", [m, c], [y], "AddOptions")
    f.inputs, f.outputs = [x], [y]
    return f.written()


def with_onnx(tmp_path: Path) -> str:
    """Returns -m of the .tflite, the QDQ ONNX of the same network, and the map of their tensors."""
    path, quantized = tmp_path / "m.tflite", tmp_path / "m.onnx"
    path.write_bytes(two_sums())
    converted = convert(read_tflite(path.read_bytes(), "m.tflite"))
    quantized.write_bytes(converted.onnx)
    entries = {n: {"tfl": e["tfl"], "shape": list(e["dims"])} for n, e in converted.tensors.items()}
    Path(f"{quantized}.map.json").write_text(json.dumps(entries))
    return f"{quantized},{path}"


def with_float_onnx(tmp_path: Path) -> str:
    """Returns -m as with_onnx(), but with an ONNX whose input and output are real values."""
    models = with_onnx(tmp_path)
    path = models.partition(",")[0]
    model = onnx.load(path)
    graph, (x,), (y,) = model.graph, [*model.graph.input], [*model.graph.output]
    real = [helper.make_tensor_value_info(f"{t.name}_float", onnx.TensorProto.FLOAT, [6, 24]) for t in (x, y)]
    before = helper.make_node("QuantizeLinear", ["x_float", "x@scale", "x@zero"], ["x"])
    after = helper.make_node("DequantizeLinear", ["y", "y@scale", "y@zero"], ["y_float"])
    nodes = [before, *graph.node, after]
    for field, values in ((graph.node, nodes), (graph.input, real[:1]), (graph.output, real[1:])):
        del field[:]
        field.extend(values)
    onnx.save(model, path)
    return models


def verify(tmp_path: Path, *more: str, models: str = "", board: str = "local?kernels=reference") -> tuple[int, dict]:
    path, out = tmp_path / "m.tflite", tmp_path / "report.json"
    if not models:
        path.write_bytes(two_sums())
    words = ["-m", models or str(path), "-b", board, "--runtime", "litert", "-r", "True"]
    status = main([*words, "--json", str(out), *more])
    return status, report(out)


def spoils(tmp_path: Path, more: str = "") -> list[str]:
    """Returns the option of a Python whose LiteRT gives other final outputs alone. more: lines of its Interpreter."""
    path = tmp_path / "spoils.py"
    path.write_text(SPOILS.replace("        value = super().get_tensor", f"{more}        value = super().get_tensor"))
    return ["--python", f"{sys.executable} {path}"]


@pytest.mark.parametrize("beside_its_onnx", [False, True])
def test_equal_outputs_are_said_and_others_are_failed(beside_its_onnx, tmp_path, capsys):
    models = with_onnx(tmp_path) if beside_its_onnx else ""
    status, found = verify(tmp_path, models=models)
    assert status == 0 and f"\n{LINE}no\n" in capsys.readouterr().out
    assert all(p["untapped"]["changed"] == 0 and p["untapped"]["elements"] == 144 for p in board_pairs(found))
    status, found = verify(tmp_path, *spoils(tmp_path), models=models)
    assert status == 1 and found["blame"] is None
    for pair in board_pairs(found):
        assert (pair["verdict"], pair["cause"]) == ("FAILED", "untapped")
        assert (pair["untapped"]["changed"], pair["untapped"]["level"]) == (144, "")
        assert all(row["verdict"] == "PASSED" for row in pair["tensors"])
    assert f"\n{LINE}yes (144 of 144)\n" in capsys.readouterr().out


REFUSES = """        if self.spoils:
            raise RuntimeError('no such kernel')
"""


@pytest.mark.parametrize("with_floats", [False, True])
def test_a_file_that_does_not_run_without_taps_is_inconclusive(with_floats, tmp_path, capsys):
    """with_floats: the ONNX has real values as its inputs and outputs, which the host quantizes and dequantizes."""
    models = with_float_onnx(tmp_path) if with_floats else ""
    assert verify(tmp_path, models=models)[0] == 0
    capsys.readouterr()
    status, found = verify(tmp_path, *spoils(tmp_path, REFUSES), models=models)
    assert status == 3 and found["verdict"] == "INCONCLUSIVE"
    for pair in board_pairs(found):
        assert (pair["verdict"], pair["cause"], pair["untapped"]["changed"]) == ("INCONCLUSIVE", "untapped", None)
    assert f"\n{LINE}not known: the unchanged model did not run there" in capsys.readouterr().out


def test_a_delegate_that_does_not_run_joined_is_not_said_to_give_the_same(tmp_path):
    try:
        library = built_delegate(tmp_path)
    except RuntimeError as error:
        pytest.skip(str(error))
    board = f"local?delegate={library},kind=0"

    def alone(*more: str) -> str:
        found = verify(tmp_path, *more, board=board)[1]
        (line,) = [n for n in found["notes"] if n.startswith("the delegate was given each node by itself")]
        return line

    assert alone().endswith("; joined, as in use, it gives the same outputs")
    assert alone(*spoils(tmp_path)).endswith("; joined, as in use, it gives OTHER outputs")
    assert alone(*spoils(tmp_path, REFUSES)).endswith("that every tensor is seen")


def test_outputs_are_compared_by_their_bytes():
    nan, zeros = np.array([np.nan, 1], np.float32), np.float32([0, 0])
    assert have_same_bytes({"y": nan}, {"y": nan.copy(), "m": zeros}) is True
    assert have_same_bytes({"y": zeros}, {"y": -zeros}) is False
    assert have_same_bytes({}, {"y": nan}) is None and have_same_bytes({"y": nan}, {}) is None
    assert have_same_bytes({"y": nan, "z": zeros}, {"y": zeros}) is False


def test_a_capture_keeps_them_and_one_without_is_not_passed(tmp_path):
    folder = tmp_path / "capture"
    status, run = verify(tmp_path, "--capture", str(folder))
    again, found = judged_again(folder)
    assert again == status == 0
    assert [p["untapped"] for p in found["pairs"]] == [p["untapped"] for p in run["pairs"]]
    changed(folder, lambda frame, held: next(s for s in frame["sides"] if s["label"] == "board").pop("untapped"))
    status, found = judged_again(folder)
    assert status == 3 and all(p["verdict"] == "INCONCLUSIVE" for p in board_pairs(found))


def test_a_capture_keeps_outputs_that_differ(tmp_path):
    folder = tmp_path / "capture"
    status, run = verify(tmp_path, *spoils(tmp_path), "--capture", str(folder))
    again, found = judged_again(folder)
    assert again == status == 1
    assert [p["untapped"] for p in found["pairs"]] == [p["untapped"] for p in run["pairs"]]


def test_without_an_inner_tensor_there_are_no_taps(tmp_path):
    path, out = tmp_path / "one.tflite", tmp_path / "report.json"
    path.write_bytes(dense(40, 16, 32, True, "int8"))
    words = ["-m", str(path), "-b", "local", "--runtime", "litert", "--json", str(out)]
    assert main(words) == 0 and all(p["untapped"] is None for p in report(out)["pairs"])
