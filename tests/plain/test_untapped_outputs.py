"""The final outputs of the unchanged model on a board that runs onnxruntime: judged beside the run whose inner tensors are read."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.onnx_model.find_optimizer import find_optimizer, is_nearer
from qverify.report.document import Pair, UntappedOutputs
from qverify.report.untapped import untapped_lines

from tests.ops.test_non_max_suppression import detector
from tests.plain.captured_run import changed, judged_again, report
from tests.unsigned_weights import write_unsigned_example

EXAMPLE = Path(__file__).resolve().parents[2] / "verifier" / "qverify" / "example"
SPOILS = """
import runpy, sys
import numpy as np
import onnx, onnxruntime
from onnx import numpy_helper

OFF = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
BASIC = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC

class Spoiled(onnxruntime.InferenceSession):
    def __init__(self, data, options=None, *words, disabled_optimizers=(), **named):
        model = onnx.load_from_string(data)
        level = options.graph_optimization_level
        is_spoiled = len(model.graph.output) == 1 and level not in (OFF, {more}) and "{name}" not in disabled_optimizers
        for tensor in model.graph.initializer if is_spoiled else []:
            value = numpy_helper.to_array(tensor)
            if value.ndim > 1:
                value = value.copy()
                value.flat[:: 2] ^= 0x40
                tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
        {refuses}
        super().__init__(model.SerializeToString(), options, *words, **named)

onnxruntime.InferenceSession = Spoiled
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
LINE = "taps changed the outputs: "


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The main job of the example on an onnxruntime that computes right, on every processor."""
    folder = write_unsigned_example(EXAMPLE, tmp_path_factory.mktemp("unsigned") / "example")
    return ["-m", str(folder / "digits_quant.onnx"), "--runtime", "onnxruntime", "-r", "True", "-b", "local"]


def spoils(tmp_path: Path, more: str = "BASIC", name: str = "GeluFusionL2", refuses: str = "pass") -> list[str]:
    """Returns the option of a Python whose onnxruntime computes models of one output wrongly with optimizations."""
    path = tmp_path / "spoils.py"
    path.write_text(SPOILS.replace("{more}", more).replace("{name}", name).replace("{refuses}", refuses))
    return ["--python", f"{sys.executable} {path}"]


def verify(tmp_path: Path, words: list[str], *more: str) -> tuple[int, dict]:
    out = tmp_path / "report.json"
    status = main([*words, *more, "--json", str(out)])
    return status, report(out)


def board_pairs(found: dict) -> list[dict]:
    return [p for p in found["pairs"] if p["b"] == "board"]


def test_equal_outputs_are_said(words, tmp_path, capsys):
    status, found = verify(tmp_path, words)
    assert status == 0 and f"\n{LINE}no\n" in capsys.readouterr().out
    for pair in board_pairs(found):
        assert pair["untapped"]["changed"] == 0 and pair["untapped"]["elements"] == 10
        assert pair["untapped"]["verdict"] == "PASSED"
    assert found["pairs"][0]["untapped"] is None


def test_what_only_the_unchanged_model_shows_is_failed_and_its_optimizer_is_named(words, tmp_path, capsys):
    status, found = verify(tmp_path, words, *spoils(tmp_path))
    out = capsys.readouterr().out
    assert status == 1 and found["blame"] is None
    for pair in board_pairs(found):
        outcome = pair["untapped"]
        assert (pair["verdict"], pair["cause"]) == ("FAILED", "untapped")
        number = outcome["changed"]
        assert number > 0 and outcome["elements"] == 10 and outcome["verdict"] == "FAILED"
        assert (outcome["level"], outcome["optimizers"]) == ("extended", ["GeluFusionL2"])
        assert all(row["verdict"] == "PASSED" for row in pair["tensors"])  # the run with taps is right
    assert f"\n{LINE}yes ({number} of 10), with level=disable_all they agree" in out
    assert "from level extended on they do not, by GeluFusionL2" in out


def test_a_gate_that_the_unchanged_outputs_pass_passes_with_the_line(words, tmp_path, capsys):
    status, found = verify(tmp_path, words, *spoils(tmp_path), "--gate", "close:atol=1e9,rtol=0")
    assert status == 0 and board_pairs(found)[0]["untapped"]["verdict"] == "PASSED"
    (line,) = [t for t in capsys.readouterr().out.splitlines() if t.startswith("Sim and Arm result")]
    number = board_pairs(found)[0]["untapped"]["changed"]
    assert number > 0 and "PASSED (" in line and f"{LINE}yes ({number} of 10)" in line


def test_an_unchanged_model_that_does_not_run_leaves_it_inconclusive(words, tmp_path, capsys):
    refuses = "if len(model.graph.output) == 1: raise RuntimeError('no such kernel')"
    status, found = verify(tmp_path, words, *spoils(tmp_path, refuses=refuses))
    assert status == 3 and found["verdict"] == "INCONCLUSIVE"
    for pair in board_pairs(found):
        assert pair["verdict"] == "INCONCLUSIVE" and pair["cause"] == "untapped"
        assert pair["untapped"]["changed"] is None and "no such kernel" in pair["why"]
    assert f"{LINE}not known: the unchanged model did not run there" in capsys.readouterr().out


def test_real_outputs_that_are_no_whole_steps_are_not_said_not_to_have_run(words, tmp_path, capsys):
    """model.bin has integers as its outputs; this onnxruntime gives real values between them for the ONNX."""
    onnx, binary = words[words.index("-m") + 1], tmp_path / "m.bin"
    assert main(["compile", onnx, "--strip-io-quant", "-o", str(binary)]) == 0
    stripped = ["-m", f"{onnx},{binary}", *words[2:]]
    assert verify(tmp_path, stripped)[0] == 0
    moved = (
        "if model.graph.output[0].name == 'prob': "
        "next(n for n in model.graph.node if 'prob' in n.output).output[0] = 'before'; "
        "model.graph.node.append(onnx.helper.make_node('Add', ['before', 'more'], ['prob'])); "
        "model.graph.initializer.append(numpy_helper.from_array(np.float32(1e-4), 'more'))"
    )
    capsys.readouterr()
    status, found = verify(tmp_path, stripped, *spoils(tmp_path, refuses=moved))
    assert status == 3
    for pair in board_pairs(found):
        assert (pair["verdict"], pair["cause"], pair["untapped"]["changed"]) == ("INCONCLUSIVE", "untapped", None)
        assert "the unchanged model ran there, but its real values of prob" in pair["why"]
    assert "did not run there" not in capsys.readouterr().out
    original = [*words[:-1], "local?form=original"]  # the way that the line names
    assert verify(tmp_path, original, *spoils(tmp_path, refuses=moved))[0] == 1


def test_a_link_that_fails_in_the_search_leaves_the_run_complete(words, tmp_path):
    """The search begins with a session without optimizations, on which this onnxruntime ends its process."""
    ends = "if len(model.graph.output) == 1 and level == OFF: __import__('os')._exit(9)"
    status, found = verify(tmp_path, words, *spoils(tmp_path, refuses=ends))
    assert status == 1
    for pair in board_pairs(found):
        assert (pair["verdict"], pair["cause"]) == ("FAILED", "untapped") and pair["untapped"]["changed"] > 0
        assert (pair["untapped"]["level"], pair["untapped"]["optimizers"]) == ("", [])
        assert pair["coverage"]["missing"] == []
    assert any(n.startswith("the optimization that changes the outputs was not searched for") for n in found["notes"])


def test_a_capture_keeps_them(words, tmp_path):
    folder = tmp_path / "capture"
    status, run = verify(tmp_path, words, *spoils(tmp_path), "--capture", str(folder))
    again, found = judged_again(folder)
    assert again == status == 1
    assert [p["untapped"] for p in found["pairs"]] == [p["untapped"] for p in run["pairs"]]
    assert [p["why"] for p in found["pairs"]] == [p["why"] for p in run["pairs"]]


@pytest.mark.parametrize("how", ["left out", "damaged", "one missing"])
def test_a_capture_without_them_is_not_passed(words, tmp_path, how):
    folder = tmp_path / "capture"
    assert verify(tmp_path, words, "--capture", str(folder))[0] == 0
    assert judged_again(folder)[0] == 0

    def spoil(frame, held):
        board = next(s for s in frame["sides"] if s["label"] == "board")
        if how == "left out":
            del board["untapped"]
        elif how == "damaged":
            next(iter(board["untapped"]["tensors"].values()))[1] = "0" * 16
        else:
            board["untapped"]["tensors"] = {}

    status, found = judged_again(changed(folder, spoil))
    assert status == 3
    assert all(p["verdict"] == "INCONCLUSIVE" and p["untapped"]["changed"] is None for p in board_pairs(found))


def test_the_file_as_it_is_has_no_taps(words, tmp_path):
    found = verify(tmp_path, [*words[:-1], "local?form=original"])[1]
    assert all(p["untapped"] is None for p in found["pairs"])


def test_one_line_over_all_runs():
    def pair(frame: int, changed: int | None, why: str = "") -> Pair:
        return Pair("simulator", "board", "PASSED", frame=frame, untapped=UntappedOutputs(changed, 10, "PASSED", why))

    assert untapped_lines([Pair("a", "b", "PASSED")]) == []
    assert untapped_lines([pair(0, 0), pair(1, 0)]) == [f"{LINE}no"]
    assert untapped_lines([pair(0, 0), pair(1, 3), pair(2, 4)]) == [f"{LINE}yes (7 of 20) in 2 of 3 runs"]
    assert untapped_lines([pair(0, None, "it broke")]) == [f"{LINE}not known: it broke"]
    assert untapped_lines([pair(0, 0), pair(1, None, "it broke")]) == [f"{LINE}no, not known in 1 run: it broke"]


def test_the_search_classes_runs_by_what_they_are_nearer_to():
    """Without optimizations the outputs may differ from the wanted ones in single elements, by rounding."""
    wanted, changed = {"y": np.zeros(9)}, {"y": np.full(9, 5.0)}
    rounded = {"y": np.eye(9)[0]}
    assert is_nearer(rounded, wanted, changed) and not is_nearer(changed, wanted, changed)
    assert not is_nearer({"y": np.zeros(3)}, wanted, changed)
    found = find_optimizer(lambda s: changed if s.level == "all" else rounded, changed, wanted=wanted)
    assert found.level == "all"
    assert find_optimizer(lambda s: changed, changed, wanted=wanted).level == "disable_all"
    assert find_optimizer(lambda s: {"y": np.full(9, 4.0)}, changed, wanted=wanted).level == "disable_all"


def test_the_file_as_it_is_has_its_optimizer_named(words, tmp_path, capsys):
    original = [*words[:-1], "local?form=original"]
    folder = tmp_path / "capture"
    status, found = verify(tmp_path, original, *spoils(tmp_path), "--capture", str(folder))
    said = ": an optimization (level extended) of its onnxruntime "  # the board agrees, or comes close
    assert status == 1
    for pair in board_pairs(found):
        assert pair["cause"] == "optimization" and pair["untapped"] is None
        assert any(
            n.startswith("with level=disable_all the board ")
            and said in n
            and n.endswith("changes the result: GeluFusionL2")
            for n in pair["notes"]
        )
    again = board_pairs(judged_again(folder)[1])
    assert [(p["cause"], p["notes"]) for p in again] == [(p["cause"], p["notes"]) for p in board_pairs(found)]
    capsys.readouterr()
    assert main(["triage", *without_r(original), *spoils(tmp_path)]) == 1
    (step,) = [t for t in capsys.readouterr().out.splitlines() if t.startswith("next step: with level=disable_all")]
    assert said in step
    status, found = verify(tmp_path, original, *spoils_always(tmp_path))
    assert status == 1 and board_pairs(found)[0]["cause"] == "unlocated"
    assert any("no optimization of its onnxruntime" in n for n in found["notes"])


def without_r(words: list[str]) -> list[str]:
    """Returns the words for triage, which always judges every tensor."""
    return [w for w in words if w not in ("-r", "True")]


def spoils_always(tmp_path: Path) -> list[str]:
    path = Path(spoils(tmp_path, more="None")[1].split()[-1])
    path.write_text(path.read_text().replace("level not in (OFF, None)", "True"))
    return ["--python", f"{sys.executable} {path}"]


def test_triage_says_that_taps_change_the_outputs(words, tmp_path, capsys):
    assert main(["triage", *without_r(words), *spoils(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert f"next step: {LINE}yes (" in out and "the outputs of the unchanged model differ" in out
    assert (
        main(["triage", *without_r(words), *spoils(tmp_path), "--gate", "simulator~board=cosine:0.1", "--relax-board"])
        == 1
    )


def test_outputs_with_a_row_for_each_box_are_compared_in_their_rows(tmp_path, capsys):
    """The integer form has as many rows as a NonMaxSuppression may keep, the unchanged model those that it keeps."""
    path = tmp_path / "m.onnx"
    path.write_bytes(detector(value=2**63 - 1).model().SerializeToString())
    words = ["-m", str(path), "-b", "local", "--runtime", "onnxruntime", "-r", "True"]
    status, found = verify(tmp_path, words)
    assert status == 0 and f"\n{LINE}no\n" in capsys.readouterr().out
    drops = "model.graph.node[[n.op_type for n in model.graph.node].index('NonMaxSuppression')]"
    unchanged = "not any(t.name.endswith('/fill') for t in model.graph.initializer)"
    refuses = f"if {unchanged}: {drops}.input[3] = 'more'"
    lines = f"{refuses}; model.graph.initializer.append(numpy_helper.from_array(np.float32([0.3]), 'more'))"
    status, found = verify(tmp_path, words, *spoils(tmp_path, refuses=lines))
    assert status == 3  # another number of boxes, of which nothing is known
    assert all("rows, the run with taps kept" in p["untapped"]["why"] for p in board_pairs(found))
