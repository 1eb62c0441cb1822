"""Inputs that qverify draws for a check and onnxruntime rejects: integers that are indices of an operator on the host."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import OwnInputsError
from qverify.model_bin.records import encode
from qverify.onnx_model.own_inputs import run_on_own_inputs

from tests.ops.qdq import Qdq


def two_stages(first: int) -> Qdq:
    """A Conv, RoiAlign of the boxes of picture `which` - first, which is valid for which = first only, and a product."""
    m = Qdq(seed=4)
    x = m.input((1, 3, 8, 8))
    features = m.quantize(m.op("Conv", [x, m.weight((4, 3, 3, 3), axis=0)], pads=[1, 1, 1, 1]))
    boxes = m.constant("boxes", np.float32([[0, 0, 5, 5], [1, 2, 7, 6]] * 5))
    given = m.integers((10,))
    m.feed[given] = np.full(10, first, np.int64)
    which = m.op("Sub", [given, m.constant("first", np.int64(first))])
    rows = m.op("RoiAlign", [features, boxes, which], output_height=2, output_width=2)
    m.output(m.quantize(m.op("MatMul", [m.quantize(m.op("Flatten", [rows])), m.weight((16, 5))])))
    return m


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Paths of an ONNX, a model.bin and inputs, which are not written yet."""
    return tmp_path / "q.onnx", tmp_path / "m.bin", tmp_path / "inputs.npz"


def write(m: Qdq, files: tuple[Path, Path, Path]) -> None:
    files[0].write_bytes(m.model().SerializeToString())
    np.savez(files[2], **m.feed)  # type: ignore[arg-type]


def test_the_check_is_made_with_integers_0(files: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    write(two_stages(0), files)
    assert main(["compile", str(files[0]), "-o", str(files[1])]) == 0
    assert "not checked 0, on integers 0, since onnxruntime rejects random ones" in capsys.readouterr().out
    assert main(["-m", f"{files[0]},{files[1]}", "-b", "local", "-i", str(files[2])]) == 0
    assert main(["-m", f"{files[0]},{files[1]}", "-b", "local"]) == 3
    assert "out of range [0, 1). The inputs are random; give valid ones with -i" in capsys.readouterr().out


def test_a_division_is_checked_with_integers_1(files: tuple[Path, Path, Path]) -> None:
    m = Qdq(seed=4)
    x = m.quantize(m.op("Relu", [m.input((3, 4))]))
    count, divisor = m.integers((4,)), m.integers((4,))
    m.output(m.op("Mul", [x, m.op("Cast", [m.op("Div", [count, divisor])], to=1)]))
    m.feed[divisor] = np.int64([1, 2, 3, 4])
    write(m, files)
    shape = [
        word for name in (count, divisor) for word in ("--shape", f"{name}=4")
    ]  # runs the model for its shapes, too
    assert main(["compile", str(files[0]), "-o", str(files[1]), *shape]) == 0
    assert main(["-m", f"{files[0]},{files[1]}", "-b", "local", "-i", str(files[2])]) == 0


@pytest.mark.parametrize("compiled", [True, False])
def test_without_valid_inputs_of_its_own_it_runs_those_of_the_user(
    compiled: bool, files: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    write(two_stages(5), files)
    assert main(["compile", str(files[0]), "-o", str(files[1])]) == 2
    said = capsys.readouterr().err
    assert "draws for its check were rejected, also with 0 and 1 for integers" in said and said.count("\n") == 1
    assert "Compile with --no-check, and verify with inputs of your own (-i)" in said and not files[1].exists()
    assert main(["compile", str(files[0]), "--no-check", "-o", str(files[1])]) == 0
    models = f"{files[0]},{files[1]}" if compiled else str(files[0])
    assert main(["-m", models, "-b", "local", "-i", str(files[2])]) == 0
    out = capsys.readouterr().out
    assert "q.onnx was not checked when it was compiled: onnxruntime rejects random inputs" in out


def test_accepted_inputs_stay_as_they_are() -> None:
    class Picky:
        def run(self, feed: object, names: object = None) -> dict[str, np.ndarray]:
            return {"y": np.float32([1])}

    drawn = {"x": np.int64([1, 2])}
    assert run_on_own_inputs(Picky(), drawn, None) == (drawn, {"y": np.float32([1])})


def test_the_error_is_of_its_own_kind() -> None:
    with pytest.raises(OwnInputsError):
        compile_model(two_stages(5).model().SerializeToString(), "q.onnx", CompilerOptions(host=True))


def test_a_failed_check_in_model_bin_counts_also_if_no_other_check_can_be_made(
    files: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    write(two_stages(5), files)
    data = files[0].read_bytes()
    graph = compile_model(data, "q.onnx", CompilerOptions(check=False, host=True)).graph
    graph.meta["check"] = {"seed": 0, "units": 3, "worst_lsb": 9.0, "over": ["gemm"], "not_checked": []}
    files[1].write_bytes(encode(graph))
    assert main(["-m", f"{files[0]},{files[1]}", "-b", "local", "-i", str(files[2])]) == 2
    assert "the compiler's check against the original failed (beyond 1 LSB: gemm)" in capsys.readouterr().err
