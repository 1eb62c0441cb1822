"""triage where the board is at fault: explained, reduced, and out of a capture."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.model_bin.graph import Graph
from qverify.report.document import ReportDocument
from qverify.report.schema import triage_schema
from qverify.report.triage_document import Rung
from qverify.session.triage.device_rungs import DeviceRungs
from qverify.sides.dumps import array_dump
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec
from qverify.triage.ladder import parse_gate

NODE = "relu2_QuantizeLinear_Output"


@pytest.mark.parametrize(
    ("kind", "said"), [("plus_one", "zero point"), ("bias_missing", "bias"), ("stale_tensor", "stale buffer")]
)
def test_a_known_fault_is_named(
    kind: str, said: str, digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["triage", "-m", str(digits / "digits_quant.onnx"), "-b", f"faulty:local?fault={kind}@{NODE}"]
    assert main([*words, "--json", str(tmp_path / "t.json")]) == 1
    told = capsys.readouterr().out
    assert f"board at {NODE} (conv): EXPLAINED" in told and said in told
    held = json.loads((tmp_path / "t.json").read_text())
    jsonschema.validate(held, triage_schema())
    assert held["explained"][0]["node"] == NODE and held["explained"][0]["explanation"]["exact"]


def test_an_unknown_fault_is_not_explained(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["triage", "-m", str(digits / "digits_quant.onnx"), "-b", f"faulty:local?fault=dither@{NODE}"]
    assert main(words) == 1
    assert "UNEXPLAINED" in capsys.readouterr().out
    assert main([*words, "--explain", "0"]) == 1
    assert "EXPLAINED" not in capsys.readouterr().out
    assert main([*words, "--explain", "0.000001"]) == 1
    told = capsys.readouterr().out
    assert "NOT TRIED: time ran out" in told and "UNEXPLAINED" not in told


def test_reduced_by_the_command(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["triage", "-m", str(digits / "digits_quant.onnx"), "-b", f"faulty:local?fault=plus_one@{NODE}"]
    assert main([*words, "--reduce", str(tmp_path / "out"), "--json", str(tmp_path / "t.json")]) == 1
    assert f"reduced to 1 node of 8, ending in {NODE} (conv), in 2 board runs" in capsys.readouterr().out
    assert (tmp_path / "out" / "README.md").is_file()
    assert json.loads((tmp_path / "t.json").read_text())["reduced"]["state"] == "reduced"
    assert main([*words, "--reduce", str(tmp_path / "x"), "--build-cmd", "tool only"]) == 2
    assert "it must contain {onnx}, and {model} or {bin}" in capsys.readouterr().err


def test_out_of_a_capture(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board, cap = f"faulty:local?fault=plus_one@{NODE}", str(tmp_path / "cap")
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", board, "-r", "--capture", cap]) == 1
    capsys.readouterr()
    assert main(["triage", cap]) == 1
    told = capsys.readouterr().out
    assert f"blame: board at {NODE}" in told and "EXPLAINED" in told and "TRIAGE: fails at simulator ~ board" in told
    assert main(["triage", cap, "--seed", "3"]) == 2
    assert "--seed applies only to a new run" in capsys.readouterr().err
    assert main(["triage", cap, "-b", "local"]) == 2
    assert "has its own inputs and board" in capsys.readouterr().err
    assert main(["triage", cap, "--reduce", str(tmp_path / "o")]) == 2
    assert "needs the board itself" in capsys.readouterr().err


def test_the_previous_frame_in_a_buffer_is_named(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the first frame the buffer is empty, in the second it holds what was computed in the first. In experiments it
    is told from the output that the board gave in the frame before, which was late itself."""
    made = tmp_path / "frames"
    made.mkdir()
    with np.load(digits / "digits.npz") as images:
        for at, name in enumerate(sorted(images.files)[:2]):
            np.save(made / f"{at}.npy", images[name])
    words = ["triage", "-m", str(digits / "digits_quant.onnx"), "-b", f"faulty:local?fault=stale_frame@{NODE}"]
    assert main([*words, "-i", str(made)]) == 1
    told = capsys.readouterr().out
    assert "EXPLAINED: stale buffer: pool1_QuantizeLinear_Output is read as the previous frame left it" in told
    assert "the next best cause (stale buffer: the output is the previous frame's tensor) failed experiment 1" in told


def test_two_faults_are_both_named(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    faults = f"plus_one@relu1_QuantizeLinear_Output|bias_missing@{NODE}"
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", f"faulty:local?fault={faults}", "--json"]
    assert main([*words, str(tmp_path / "r.json")]) == 1
    assert f"blame: board at relu1_QuantizeLinear_Output, also {NODE}" in capsys.readouterr().out
    held = json.loads((tmp_path / "r.json").read_text())
    assert held["blame"]["also"] == [NODE] and held["blamed"][0]["also"] == [NODE]
    assert main(["triage", *words, str(tmp_path / "t.json")]) == 1
    told = capsys.readouterr().out
    lines = [line for line in told.splitlines() if "board at " in line and "(conv): " in line]
    assert len(lines) == 2, told
    assert "board at relu1_QuantizeLinear_Output (conv): CANDIDATE: zero point" in lines[0]
    assert f"board at {NODE} (conv): CANDIDATE: bias left out" in lines[1]
    why = "not confirmed: 2 nodes of this op have different causes, and one kernel has one"
    assert all(why in line for line in lines)
    held = json.loads((tmp_path / "t.json").read_text())["explained"]
    assert [one["node"] for one in held] == ["relu1_QuantizeLinear_Output", NODE]
    assert all(len(one["explanation"]["experiments"]) >= 3 for one in held)  # each stood every one of its own


D = "prob_QuantizeLinear_Output"


RELAX = "--relax-board"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["exact"], 1),
        (["exact", RELAX], 1),
        (["decimals:0"], 2),
        (["decimals:17", RELAX], 1),
        (["decimals:0", RELAX], 0),
    ],
    ids=str,
)
def test_a_gate_of_simulator_and_board_speaks_to_every_tensor(
    words: list[str], status: int, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fault is in an intermediate tensor that no final output shows."""
    faulty = ["-m", str(digits / "digits_quant.onnx"), "-b", f"faulty:local?fault=bitflip@{NODE}", "--explain", "0"]
    assert main(["triage", *faulty, "--gate", f"simulator~board={words[0]}", *words[1:]]) == status
    told = capsys.readouterr()
    wanted = ["but 1 tensor fails when forced (X above) (", "TRIAGE: fails", "their bytes must be equal"]
    assert wanted[status] in told.out + told.err
    if status == 0:
        assert "simulator ~ board judged by 0 decimals" in told.out.splitlines()[-1]


@pytest.mark.parametrize("kind", ["die", "hang", "garbage"])
def test_a_board_that_breaks_is_to_be_run_first(kind: str, digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "triage",
        "-m",
        str(digits / "digits_quant.onnx"),
        "-b",
        f"faulty:local?fault={kind}@{NODE}",
        "--timeout",
        "3",
    ]
    assert main(words) == 3
    assert "next step: get the board to finish its run and send what is missing" in capsys.readouterr().out


def test_a_board_that_is_not_the_same_twice(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "triage",
        "-m",
        str(digits / "digits_quant.onnx"),
        "-b",
        f"faulty:local?fault=jitter@{NODE}",
        "--repeat",
        "4",
    ]
    assert main(words) == 1
    told = capsys.readouterr().out
    assert "next step: the board differs from run to run" in told and "EXPLAINED" not in told


@pytest.mark.parametrize("command", ["triage", "soak"])
def test_a_second_board_is_not_left_out_in_silence(
    command: str, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [command, "-m", str(digits / "digits_quant.onnx"), "-b", f"faulty:local?fault=gamma@{NODE}", "-b", "local"]
    assert main([*words, *(["--for", "1"] if command == "soak" else [])]) == 2
    assert "takes one board" in capsys.readouterr().err


def test_the_ladder_is_shown_whatever_becomes_of_the_reduction(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["triage", "-m", str(digits / "digits_quant.onnx"), "-b"]
    assert main([*words, "local", "--reduce", str(tmp_path / "a")]) == 0
    assert "reduce: nothing differs on the board" in capsys.readouterr().out
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.full((1, 1, 8, 8), number, np.float32))
    board = f"faulty:local?fault=plus_one@{NODE}"
    assert main([*words, board, "-i", str(tmp_path), "--reduce", str(tmp_path / "b")]) == 1
    assert "reduced to 1 node of 8" in capsys.readouterr().out
    stages = ["triage", "--stages", f"{digits / 'digits_quant.onnx'},simulator,board", "-b", board]
    assert main([*stages, "--reduce", str(tmp_path / "c")]) == 1
    assert "reduced to 1 node of 8" in capsys.readouterr().out
    for folder in (tmp_path / "c", tmp_path / "no" / "such"):
        assert main([*words, board, "--reduce", str(folder)]) == 2
        assert capsys.readouterr().out == ""  # before anything ran


def with_outputs(digits: Path, folder: Path, change) -> Path:
    """The example's own tensors as another runtime's dump, after change(them)."""
    assert main(["infer", "-m", str(digits / "digits_quant.onnx"), "--side", "reference", "-o", str(folder)]) == 0
    names = json.loads((folder / "manifest.json").read_text())["tensors"]
    held = {name: np.load(folder / file) for file, name in names.items()}
    change(held)
    np.savez(folder.parent / "dump.npz", **held)
    return folder.parent / "dump.npz"


def without_output(held):
    del held["prob"], held[D]


def noise_of_one_step(held):
    held["relu1_QuantizeLinear_Output"] = held["relu1_QuantizeLinear_Output"] ^ np.uint8(1)


def cut_output(held):
    held["prob"] = held["prob"][:, :5]
    del held[D]


def other_input(held):
    held["image_QuantizeLinear_Output"] = held["image_QuantizeLinear_Output"] ^ np.uint8(0x55)


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        (without_output, 3, "prob is missing in the dump"),
        (noise_of_one_step, 1, "blame: dump at relu1_QuantizeLinear_Output"),
        (cut_output, 1, "prob: "),
        (other_input, 3, "the dump was computed from other inputs"),
    ],
)
def test_a_dump_that_lacks_what_must_be_there(change, status, said, digits, tmp_path, capsys) -> None:
    dump = with_outputs(digits, tmp_path / "d", change)
    capsys.readouterr()
    got, told = main(["triage", "--stages", f"{digits / 'digits_quant.onnx'},{dump}"]), capsys.readouterr().out
    assert (got, said in told) == (status, True), told


def test_a_dump_of_another_model(digits, tmp_path, capsys) -> None:
    def wider(held):
        for name in list(held):
            held[name] = np.concatenate([held[name], held[name]], axis=-1)

    dump = with_outputs(digits, tmp_path / "d", wider)
    assert main(["triage", "--stages", f"{digits / 'digits_quant.onnx'},{dump}"]) == 2
    assert "a dump of another model" in capsys.readouterr().err


@pytest.mark.parametrize("gate", ["cosine:0.5", "decimals:1"])
def test_no_gate_passes_what_the_main_job_holds_in_doubt(gate, digits, tmp_path, capsys) -> None:
    """Outputs that are NaN on both sides, beside one that is a little off; a board that ran only partly."""
    report = pair_of(verdict="FAILED", partial=False, both_nan=True)
    rung = rung_of(report, gate)
    assert (rung.verdict, rung.kind) == ("INCONCLUSIVE", "not_finite") and "NaN" in rung.why
    rung = rung_of(pair_of(verdict="FAILED", partial=True, both_nan=False), gate)
    assert rung.verdict == "INCONCLUSIVE" and "ran only partly: its memory" in rung.why
    assert rung_of(pair_of(verdict="FAILED", partial=False, both_nan=False), gate).verdict == "PASSED"


def graph_of_two() -> Graph:
    return Graph([], {n: TensorSpec(n, "float32", (4,)) for n in "xab"}, {}, ("x",), ("a", "b"))


def pair_of(*, verdict: str, partial: bool, both_nan: bool) -> ReportDocument:
    """reference against board: output a is off by 1e-3, b is NaN on both sides or equal."""
    x = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    b = np.where([True, False, False, False], np.nan, x).astype(np.float32) if both_nan else x
    specs = graph_of_two().tensors
    sides = {}
    for side, a in (("reference", x), ("board", x + np.float32(1e-3))):
        sides[side] = Recording(
            side, "e", tensors={"a": a, "b": b}, specs={n: specs[n] for n in "ab"}, finals=("a", "b")
        )
    if partial:
        sides["board"].state, sides["board"].why = "partial", "its memory is not stable"
    report = judge_all(sides, graph_of_two(), [], Options(dump_all=True), {})
    assert report.pairs[0].verdict == verdict
    return report


def rung_of(report: ReportDocument, gate: str) -> Rung:
    rungs = DeviceRungs({"reference~board": parse_gate(f"reference~board={gate}")[1]})
    rungs.add(report, [], graph_of_two())
    return rungs.rungs()[("reference", "board")]


def test_an_array_of_another_shape_is_refused_before_it_is_unpacked(digits, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(array_dump, "MAX_UNPACKED_BYTES", 0)
    dump = tmp_path / "d.npz"
    np.savez(dump, prob=np.zeros((10_000, 10), np.float32))
    data = bytearray(dump.read_bytes())
    data[data.index(b"\x93NUMPY") + 300_000] ^= 1  # reading the elements would fail at the member's CRC
    dump.write_bytes(data)
    assert main(["triage", "-m", f"{digits / 'digits_quant.onnx'},{dump}"]) == 2
    assert "prob has the shape [10000, 10] there" in capsys.readouterr().err
