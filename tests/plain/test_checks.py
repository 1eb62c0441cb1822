"""--check and several shapes of --shape: what the board gives again is compared with what it gave, and each shape has a row."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import qverify
from qverify import example
from qverify.cli.main import main
from qverify.errors import UsageError
from qverify.renderers import formats
from qverify.report.checks import CheckDifference, CheckResult
from qverify.report.read_report import read_report
from qverify.session.checks.mark_check import mark_check
from qverify.session.job import Job
from qverify.session.run_evidence import RunEvidence
from qverify.session.swept_shapes import MAX_SHAPES, sweep_shapes
from qverify_agents.errors import LinkError

from tests.plain.three_sides import three

TOOL = Path(__file__).parent / "runner_of_batches.py"
RUN = f"{sys.executable} {TOOL} --model {{model}} --npy {{npy}} --out {{out}}"
SPOILT = "relu2_QuantizeLinear_Output"
STALE = f"faulty:local?fault=stale_frame@{SPOILT}"


@pytest.fixture(scope="module")
def dynamic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packaged example with an open batch."""
    model = onnx.load(Path(example.__file__).parent / "digits_quant.onnx")
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    del model.graph.value_info[:]
    path = tmp_path_factory.mktemp("dynamic") / "dynamic.onnx"
    onnx.save(model, path)
    return path


def run(path: Path, tmp_path: Path, *words: str) -> tuple[int, dict[str, Any]]:
    out = tmp_path / "report.json"
    status = main(["-m", str(path), "--json", str(out), *words])
    return status, json.loads(out.read_text()) if out.exists() else {}


@pytest.fixture
def frames(tmp_path: Path) -> str:
    """Three pictures; a file of each."""
    folder = tmp_path / "frames"
    folder.mkdir()
    for at in range(3):
        np.save(folder / f"f{at}.npy", np.random.default_rng(at).random((1, 1, 8, 8), np.float32))
    return str(folder)


def test_every_combination_is_a_shape_each_once():
    found = sweep_shapes(["x=1x3x{224,256}x{224,256}", "y={1,2}", "z=4"])
    assert len(found) == 8 and found[0] == {"x": (1, 3, 224, 224), "y": (1,), "z": (4,)}
    assert found[-1] == {"x": (1, 3, 256, 256), "y": (2,), "z": (4,)}
    assert sweep_shapes(["x=1,{3,3}"]) == [{"x": (1, 3)}] and sweep_shapes([]) == [{}]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("x=1x{a,b}", "wanted NAME=1,3,224,224"),
        ("x=1x{}", "wanted NAME=1,3,224,224"),
        ("x=1x{2", "takes several shapes"),
        (f"x={{{','.join(map(str, range(1, MAX_SHAPES + 2)))}}}", f"wanted at most {MAX_SHAPES}"),
        ("x=" + "x".join(["{1,2,3,4,5,6,7,8,9}"] * 40), f"wanted at most {MAX_SHAPES}"),
    ],
)
def test_a_wrong_sweep_is_refused(value, said):
    with pytest.raises(UsageError, match=said.replace("{", r"\{")):
        sweep_shapes([value])


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """A sum of two inputs whose height and width are each one dim."""
    ends = [onnx.helper.make_tensor_value_info(n, 1, ["n", "h", "w"]) for n in ("a", "b", "sum")]
    constants = [onnx.numpy_helper.from_array(v, n) for n, v in (("s", np.float32(0.1)), ("z", np.uint8(9)))]
    nodes = []
    for name in ("a", "b"):
        nodes += [onnx.helper.make_node("QuantizeLinear", [name, "s", "z"], [f"{name}q"])]
        nodes += [onnx.helper.make_node("DequantizeLinear", [f"{name}q", "s", "z"], [f"{name}d"])]
    nodes += [
        onnx.helper.make_node("Add", ["ad", "bd"], ["c"]),
        onnx.helper.make_node("QuantizeLinear", ["c", "s", "z"], ["cq"]),
    ]
    nodes += [onnx.helper.make_node("DequantizeLinear", ["cq", "s", "z"], ["sum"])]
    graph = onnx.helper.make_graph(nodes, "pair", ends[:2], ends[2:], constants)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "pair.onnx",
    )
    return tmp_path / "pair.onnx"


def test_inputs_with_dims_of_one_name_change_together(pair, tmp_path, capsys):
    """9 times 9 combinations, of which 9 are possible."""
    sizes = "1x{2,3,4}x{5,6,7}"
    status, report = run(pair, tmp_path, "-b", "local", "--shape", f"a={sizes}", "--shape", f"b={sizes}")
    assert status == 0 and report["verdict"] == "PASSED" and len(report["shapes"]) == 9
    assert all(row["shape"]["a"] == row["shape"]["b"] for row in report["shapes"])
    assert any("72 combinations of --shape left out" in note for note in report["notes"])
    assert run(pair, tmp_path, "--shape", "a=1x2x{5,6}", "--shape", "b=1x3x5")[0] == 2
    assert "dim h is one size in the network" in capsys.readouterr().err


def test_each_shape_has_a_row_in_every_report(dynamic, tmp_path, capsys):
    words = ("-b", STALE, "--shape", "image={1,2}x1x8x8", "--html", str(tmp_path / "r.html"), "--check", "order")
    status, report = run(dynamic, tmp_path, *words)
    said = capsys.readouterr().out
    assert status == 1 and report["verdict"] == "FAILED"
    assert [row["shape"] for row in report["shapes"]] == [{"image": [1, 1, 8, 8]}, {"image": [2, 1, 8, 8]}]
    assert [row["node"] for row in report["shapes"]] == [SPOILT] * 2 and len(
        {r["sha256"] for r in report["shapes"]}
    ) == 2
    assert {pair["frame"] for pair in report["pairs"]} == {0, 1}
    assert f"shape image=2x1x8x8: FAILED, worst node {SPOILT}" in said and "2 of 2 shapes" in said
    page = (tmp_path / "r.html").read_text()
    assert "2 shapes, each compiled and run by itself" in page and "image=2x1x8x8" in page
    again = read_report(str(tmp_path / "report.json"))
    assert again.shapes[1].text == "image=2x1x8x8" and again.checks[0].verdict == "FAILED"
    formats.page("markdown").write(again, str(tmp_path / "r.md"))
    assert "image=2x1x8x8" in (tmp_path / "r.md").read_text()


def test_a_shape_that_does_not_run_is_never_passed(dynamic, tmp_path, capsys):
    status, report = run(dynamic, tmp_path, "-b", "local", "--shape", "image={1,0}x1x8x8")
    assert status == 2 and report["verdict"] == "INCONCLUSIVE"  # 2: a shape of the user's could not be used
    assert [row["verdict"] for row in report["shapes"]] == ["PASSED", "NOT RUN"] and report["shapes"][1]["why"]
    assert "1 shape could not be prepared" in capsys.readouterr().out


def test_right_boards_pass_in_every_shape(dynamic, tmp_path):
    status, report = run(dynamic, tmp_path, "-b", "local", "--shape", "image={1,3}x1x8x8", "--check", "order", "-r")
    assert status == 0 and [row["verdict"] for row in report["shapes"]] == ["PASSED"] * 2
    assert [(one["verdict"], one["runs"]) for one in report["checks"]] == [("PASSED", 1)] * 2
    found = qverify.verify(str(dynamic), shape={"image": "{1,2}x1x8x8"})
    assert found.exit_status == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--shape", "image={1,2}x1x9x8"], "--shape image=1x1x9x8: the network has image=?x1x8x8"),
        (["--shape", "image={1,2}x8"], "the network has image=?x1x8x8"),
        (["--shape", "x={1,2}"], "--shape x: no such input; the network has image"),
        (["--shape", "image={1,2}x1x8x8", "--capture", "c"], "--capture: --shape with several shapes"),
        (["--shape", "image=2x1x8x8", "--check", "batch"], "--check batch runs a board again; give -b BOARD"),
        (["--shape", "image=1x1x8x8", "-b", "local", "--check", "batch"], "wanted a batch of 2 to 64"),
        (
            ["--shape", "image=2x1x8x8", "-b", "local", "--check", "order", "--capture", "c"],
            "--capture: it keeps no further",
        ),
    ],
)
def test_mistakes_have_one_line(dynamic, tmp_path, capsys, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    assert main(["-m", str(dynamic), *words]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_a_fixed_batch_and_files_of_fixed_shapes_are_refused(dynamic, digits, tmp_path, capsys):
    assert main(["-m", f"{digits}/digits_quant.onnx", "-b", "local", "--check", "batch"]) == 2
    assert "no input has an open first dim (image=1x1x8x8)" in capsys.readouterr().err
    binary = tmp_path / "m.bin"
    assert main(["compile", str(dynamic), "-o", str(binary), "--shape", "image=2x1x8x8"]) == 0
    assert main(["-m", f"{dynamic},{binary}", "--shape", "image={1,2}x1x8x8"]) == 2
    assert f"{binary}: its shapes are fixed" in capsys.readouterr().err
    assert main(["compile", str(dynamic), "-o", str(binary), "--shape", "image={1,2}x1x8x8"]) == 2
    assert "only qverify verify takes several shapes" in capsys.readouterr().err
    words = ["-m", f"{dynamic},{binary}", "-b", "local", "--shape", "image=2x1x8x8", "--check", "batch"]
    assert main(words) == 0  # the item alone is compiled from the ONNX


def test_the_items_of_a_batch_are_those_alone(dynamic, tmp_path):
    words = ("--shape", "image=4x1x8x8", "--check", "batch")
    for board in (("-b", "local"), ("-b", "local", "--runner", RUN)):
        status, report = run(dynamic, tmp_path, *board, *words)
        check = report["checks"][0]
        assert (status, check["verdict"], check["runs"]) == (0, "PASSED", 4) and check["tensors"] >= 8


def test_an_item_that_is_wrong_in_a_batch_is_named(dynamic, tmp_path, capsys):
    words = ("-b", "local", "--runner", f"{RUN} --spoil {SPOILT} --item 1", "--shape", "image=4x1x8x8")
    status, report = run(dynamic, tmp_path, *words, "--check", "batch")
    check = report["checks"][0]
    assert status == 1 and check["verdict"] == "FAILED" and len(check["differing"]) == 1
    assert (check["differing"][0]["item"], check["differing"][0]["tensor"]) == (1, SPOILT)
    line = f"item 1 of the batch of 4 gives other bytes than alone: first {SPOILT}"
    board_pairs = [pair for pair in report["pairs"] if "board" in (pair["a"], pair["b"])]
    assert line in capsys.readouterr().out and all(line in pair["why"] for pair in board_pairs)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("--alone 0.5", "item 0 alone is wrong"),
        ("--within 0.5 --item 2", "item 2 alone is right, in the batch it is wrong"),
        ("--alone 1e-7", ""),
    ],
)
def test_the_run_that_the_host_shows_to_be_wrong_is_named(dynamic, tmp_path, words, wrong):
    """Floats of another runtime may differ by the batch: only a value that the gate refuses is a fault."""
    given = ("-b", "local", "--runner", f"{RUN} {words}", "--shape", "image=4x1x8x8", "--check", "batch")
    status, report = run(dynamic, tmp_path, *given)
    check = report["checks"][0]
    assert (status, check["verdict"]) == ((1, "FAILED") if wrong else (3, "INCONCLUSIVE"))
    assert wrong in check["why"] and ("is wrong" in check["why"]) == bool(wrong)
    board = [pair for pair in report["pairs"] if pair["b"] == "board"]
    assert {pair["verdict"] for pair in board} == {check["verdict"]}


@pytest.mark.parametrize(("accepted", "verdict"), [((), "INCONCLUSIVE"), (("--nan-equal",), "PASSED")])
def test_nan_in_both_runs_of_an_item_shows_nothing(dynamic, tmp_path, accepted, verdict):
    """The bytes are equal; the pairs with the board, which alone has NaN, are FAILED in any case."""
    words = ("-b", "local", "--runner", f"{RUN} --alone nan --within nan", "--shape", "image=2x1x8x8")
    status, report = run(dynamic, tmp_path, *words, "--check", "batch", *accepted)
    assert status == 1 and report["checks"][0]["verdict"] == verdict
    assert ("has NaN in the batch and alone" in report["checks"][0]["why"]) == (not accepted)


def test_a_state_that_is_left_behind_is_named(dynamic, tmp_path, frames):
    """Only the final outputs are judged, which the state does not change: the board is FAILED by its bytes."""
    state = f"{RUN} --spoil {SPOILT} --state {tmp_path / 'state'}"
    words = ("-b", "local", "--runner", state, "--shape", "image=1x1x8x8", "--check", "order")
    status, report = run(dynamic, tmp_path, *words)
    assert status == 1 and report["blame"]["node"] == SPOILT
    assert {p["cause"] for p in report["pairs"] if "board" in (p["a"], p["b"])} == {"order"}
    (tmp_path / "state").unlink()
    status, report = run(dynamic, tmp_path, *words, "-i", frames)
    differing = report["checks"][0]["differing"]
    assert status == 1 and (differing[0]["frame"], differing[0]["tensor"]) == (0, SPOILT)
    assert differing[0]["after"].startswith("frame 1") and report["frames"][0]["verdict"] == "FAILED"


def test_frames_in_another_order_are_the_same_on_a_right_board(dynamic, tmp_path, frames):
    status, report = run(dynamic, tmp_path, "-b", "local", "--shape", "image=1x1x8x8", "--check", "order", "-i", frames)
    check = report["checks"][0]
    assert status == 0 and (check["verdict"], check["runs"]) == ("PASSED", 3) and check["tensors"] == 8
    assert main(["-m", str(dynamic), "-b", "local", "--shape", "image=2x1x8x8", "--check", "batch", "-i", frames]) == 2


def test_a_further_run_that_does_not_end_is_never_passed(dynamic, tmp_path, capsys, monkeypatch):
    words = ("-b", "local", "--runner", f"{RUN} --refuse 1", "--shape", "image=2x1x8x8", "--check", "batch")
    status, report = run(dynamic, tmp_path, *words)
    assert status == 3 and report["checks"][0]["verdict"] == "INCONCLUSIVE"
    assert "check batch: INCONCLUSIVE: --check batch: item 0 alone: " in capsys.readouterr().out

    def breaks(self: Job, *_: object) -> None:
        raise LinkError("the link closed")

    monkeypatch.setattr(Job, "run_board", breaks)
    status, report = run(dynamic, tmp_path, "-b", "local", "--shape", "image=2x1x8x8", "--check", "order")
    assert status == 3 and report["checks"][0]["why"] == "--check order: the link closed"
    assert {p["verdict"] for p in report["pairs"] if "board" in (p["a"], p["b"])} == {"INCONCLUSIVE"}


def test_several_boards_have_their_own_rows(dynamic, tmp_path, capsys):
    words = ("-b", "local", "-b", STALE, "--shape", "image={1,2}x1x8x8", "--check", "order")
    status, report = run(dynamic, tmp_path, *words)
    assert status == 1 and [(r["board"], r["verdict"]) for r in report["shapes"]] == [
        *(("local", "PASSED"), ("local", "PASSED")),
        *((STALE, "FAILED"), (STALE, "FAILED")),
    ]
    assert [one["verdict"] for one in report["checks"]] == ["PASSED"] * 2 + ["FAILED"] * 2
    assert "shape image=2x1x8x8" in capsys.readouterr().out


def test_nothing_compared_is_never_passed():
    report = three()
    assert report.verdict == "PASSED"
    mark_check(report, CheckResult("order", "INCONCLUSIVE", "no frame ran"))
    board = [pair for pair in report.pairs if "board" in (pair.a, pair.b)]
    assert report.verdict == "INCONCLUSIVE" and {pair.verdict for pair in board} == {"INCONCLUSIVE"}
    failed = three()
    differing = [CheckDifference(0, 1, "", "n2", "n2", 1)]
    mark_check(failed, CheckResult("batch", "FAILED", "item 1 differs", 2, 3, differing))
    assert failed.verdict == "FAILED" and failed.blame is not None and failed.blame.node == "n2"
    untouched = next(pair for pair in failed.pairs if "board" not in (pair.a, pair.b))
    assert untouched.verdict == "PASSED"


def test_a_tensor_that_only_the_first_run_gave_leaves_the_order_unknown(dynamic, tmp_path, monkeypatch):
    """The board keeps most of its tensors to itself when a frame runs again."""
    real = Job.run_board

    def fewer(job: Job, *given: Any) -> Any:
        side = real(job, *given)
        assert side is not None and len(side.digests) > 1
        side.digests = dict([*side.digests.items()][:1])
        return side

    monkeypatch.setattr(Job, "run_board", fewer)
    status, report = run(dynamic, tmp_path, "-b", "local", "--shape", "image=1x1x8x8", "--check", "order", "-r", "True")
    assert status == 3 and report["checks"][0]["verdict"] == "INCONCLUSIVE"
    assert "in the first run only" in report["checks"][0]["why"]


def test_an_output_that_an_item_alone_lacks_leaves_the_batch_unknown(dynamic, tmp_path, monkeypatch):
    real = RunEvidence.board_value

    def without_output(evidence: RunEvidence, name: str) -> Any:
        value, why = real(evidence, name)
        alone = evidence.prepared.arrays()["image"].shape[0] == 1
        return (None, "lost") if alone and value is not None and value.dtype.kind == "f" else (value, why)

    monkeypatch.setattr(RunEvidence, "board_value", without_output)
    status, report = run(dynamic, tmp_path, "-b", "local", "--shape", "image=2x1x8x8", "--check", "batch")
    assert status == 3 and "is not known of the board in every run" in report["checks"][0]["why"]
