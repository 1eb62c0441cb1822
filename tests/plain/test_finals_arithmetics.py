"""Known roundings, tried on final outputs alone: one that gives every value is said beside a FAILED verdict, and changes
none; a value that no rounding gives, or too few that tell, is nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from qverify.cli.main import main
from qverify.session.models import open_models
from qverify.tensors.codes import restore_codes

from tests.ops.qdq import Qdq


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """q.onnx with three outputs, x.npy, and board/: what a board of another rounding gives of them."""
    root = tmp_path_factory.mktemp("finals")
    m = Qdq(seed=8)
    x = m.quantize(m.input((1, 3, 9, 9)))
    for channels in (4, 5, 6):
        weight = m.weight((channels, 3, 3, 3))
        inner = m.quantize(m.op("Conv", [x, weight, m.bias(x, weight, channels)]))
        weight = m.weight((3, channels, 3, 3))
        m.output(m.quantize(m.op("Conv", [inner, weight, m.bias(inner, weight, 3)])))
    onnx.save(m.model(), root / "q.onnx")
    np.save(root / "x.npy", np.random.default_rng(9).uniform(-2, 3, (1, 3, 9, 9)).astype(np.float32))
    compiled = str(root / "m.bin")
    assert main(["compile", str(root / "q.onnx"), "--rounding", "mul8", "-o", compiled, "--no-check"]) == 0
    side = ["--side", "simulator", "-i", str(root / "x.npy"), "-o", str(root / "all"), "--dequantize"]
    assert main(["infer", "-m", compiled, *side]) == 0
    (root / "names").write_text("\n".join(o.name for o in onnx.load(root / "q.onnx").graph.output))
    return root


def board(folder: Path, root: Path) -> dict[str, np.ndarray]:
    """The final outputs of the board, by name."""
    names = (folder / "names").read_text().split()
    return {name: np.load(next((folder / "all").glob(f"{name}.npy"))) for name in names}


def judge(folder: Path, root: Path, outputs: dict[str, np.ndarray], *more: str) -> int:
    dump = root / "board"
    dump.mkdir()
    for name, value in outputs.items():
        np.save(dump / f"{name}.npy", value)
    return main(["-m", f"{folder / 'q.onnx'},{dump}", "-i", str(folder / "x.npy"), *more])


def test_a_rounding_that_gives_every_value_is_said_and_acquits_nothing(folder, tmp_path, capsys):
    outputs = board(folder, tmp_path)
    assert judge(folder, tmp_path, outputs) == 1
    shown = capsys.readouterr().out
    values = sum(v.size for v in outputs.values())
    said = f"rounding mul8 (qverify compile --rounding mul8) gives all {values} values of the dump (of "
    lines = [line for line in shown.splitlines() if "result Strict check FAILED" in line]
    assert len(lines) == 2 and all(said in line for line in lines)
    assert all("final outputs only: the dump gives no others" in line for line in lines) and "-r True" not in shown
    assert f"{said}" in shown.replace(lines[0], "").replace(lines[1], "") and "changes no verdict" in shown


def test_an_output_that_it_does_not_give_is_named(folder, tmp_path, capsys):
    outputs = board(folder, tmp_path)
    wrong = list(outputs)[1]
    outputs[wrong][0, 1, 2, 3] += 1
    assert judge(folder, tmp_path, outputs) == 1
    assert f"gives every value of 2 of 3 outputs of the dump and not {wrong} (of" in capsys.readouterr().out


def test_a_fault_in_most_outputs_is_no_rounding(folder, tmp_path, capsys):
    outputs = board(folder, tmp_path)
    for name in list(outputs)[:2]:
        outputs[name][0, 1, 2, 3] += 1
    assert judge(folder, tmp_path, outputs) == 1
    shown = capsys.readouterr().out
    assert "none of" in shown and "gives the final outputs of the dump" in shown
    assert "gives every value" not in shown and "gives all" not in shown


def test_integers_with_a_printed_scale_count_by_their_codes(folder, tmp_path, capsys):
    """A dump.toml with the integers of the outputs and scales of six decimals, which make other real values."""
    graph = open_models([str(folder / "q.onnx")]).graph
    dump, rows = tmp_path / "board", list[str]()
    dump.mkdir()
    for name, real in board(folder, tmp_path).items():
        spec = graph.spec(graph.producers()[name].inputs[0])
        codes = restore_codes(real, spec)
        codes.tofile(dump / f"{name}.bin")
        facts = {"name": name, "file": f"{name}.bin", "dtype": spec.dtype, "shape": list(spec.shape)}
        facts |= {"scale": round(spec.scale[0], 6), "zero_point": spec.zero_point[0]}
        rows.append("\n".join(["[[tensor]]", *(f"{k} = {json.dumps(v)}" for k, v in facts.items())]))
    (dump / "dump.toml").write_text("\n".join(rows))
    assert main(["-m", f"{folder / 'q.onnx'},{dump}", "-i", str(folder / "x.npy")]) == 1
    assert "rounding mul8 (qverify compile --rounding mul8) gives all" in capsys.readouterr().out


def write_horizon(folder: Path, dump: Path, zero: bool) -> str:
    """Writes what hrt_model_exec does of the outputs' integers, with or without their zero points. Returns the first output that
    has one."""
    graph = open_models([str(folder / "q.onnx")]).graph
    dump.mkdir()
    lines, first = ["[model name]: net"], ""
    for index, (name, real) in enumerate(board(folder, dump).items()):
        spec = graph.spec(graph.producers()[name].inputs[0])
        restore_codes(real, spec).tofile(dump / f"model_infer_output_{index}_{name}.bin")
        shape = ",".join(map(str, spec.shape))
        lines += [f"output[{index}]:", f"name: {name}", f"valid shape: ({shape})", "tensor layout: HB_DNN_LAYOUT_NCHW"]
        lines += [f"tensor type: HB_DNN_TENSOR_TYPE_{'U8' if spec.dtype == 'uint8' else 'S8'}", "quanti type: SCALE"]
        lines += [f"scale data: {spec.scale[0]:.6g},", *([f"zero point data: {spec.zero_point[0]},"] if zero else [])]
        first = first or (name if spec.zero_point[0] else "")
    (dump / "model_info.txt").write_text("\n".join(lines))
    return first


def test_horizons_integers_under_the_name_of_the_output(folder, tmp_path, capsys):
    write_horizon(folder, tmp_path / "board", True)
    assert main(["-m", f"{folder / 'q.onnx'},{tmp_path / 'board'}", "-i", str(folder / "x.npy")]) == 1
    shown = capsys.readouterr().out
    assert "rounding mul8 (qverify compile --rounding mul8) gives all" in shown and "not in the dump" not in shown


def test_horizons_integers_without_their_zero_point(folder, tmp_path, capsys):
    first = write_horizon(folder, tmp_path / "board", False)
    assert first
    assert main(["-m", f"{folder / 'q.onnx'},{tmp_path / 'board'}", "-i", str(folder / "x.npy"), "-c", "2"]) == 1
    shown = capsys.readouterr().out
    assert f"{first}: uint8, scale " in shown and "zero point 0 in the dump, by which it is read; -m has uint8" in shown
    assert f"found: {first}: every value in B lies " in shown and "was not subtracted" in shown
    assert f"horizon: dequantized: 3: {first} (scale " in shown


def test_few_values_that_tell_are_no_evidence(folder, tmp_path, capsys):
    """All but a few elements are the reference's: a rounding that gives the rest may do so by chance."""
    from qverify.session import finals_arithmetics as finals

    moved = {"y": np.array([True] * 3 + [False] * 97)}
    many = {"y": np.array([True] * 30 + [False] * 70)}
    one, other = finals._Tried("rounding a", moved, frozenset("y")), finals._Tried("rounding b", many, frozenset())
    assert finals._choose([one], frozenset("y")) == []  # three directions are three bits
    one.moved = {"y": np.arange(100) % 10 == 0}
    assert finals._choose([one, other], frozenset("y")) == [one]
    one.given = frozenset()
    assert finals._choose([one, other], frozenset("y")) == []


def test_what_there_was_no_time_for_is_said(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("qverify.session.finals_arithmetics.SECONDS", 0.0)
    assert judge(folder, tmp_path, board(folder, tmp_path)) == 1
    assert "not tried within 0 s of computing: rounding tflite-single" in capsys.readouterr().out
