"""A dump that contains the network's inputs: they are compared with those of -i, and another input is said before all else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from qverify.cli.main import main

from tests.ops.qdq import Qdq

SHAPE = (1, 3, 9, 8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """q.onnx, x.npy, and what a board of the reference's arithmetic gives of them in out.npy."""
    root = tmp_path_factory.mktemp("inputs")
    m = Qdq(seed=8)
    x = m.quantize(m.input(SHAPE))
    weight = m.weight((4, 3, 3, 3))
    m.output(m.quantize(m.op("Conv", [x, weight, m.bias(x, weight, 4)])))
    onnx.save(m.model(), root / "q.onnx")
    np.save(root / "x.npy", np.random.default_rng(9).uniform(-2, 3, SHAPE).astype(np.float32))
    host = [
        "infer",
        "-m",
        str(root / "q.onnx"),
        "--side",
        "simulator",
        "-i",
        str(root / "x.npy"),
        "-o",
        str(root / "all"),
    ]
    assert main(host) == 0
    return root


def judge(folder: Path, root: Path, value: np.ndarray, given: np.ndarray | None = None, **facts: object) -> str:
    """Judges a dump with this input, beside -i with `given`. Returns the verdict lines of the report and what was found."""
    names = [
        graph_io[0].name
        for graph_io in (onnx.load(folder / "q.onnx").graph.input, onnx.load(folder / "q.onnx").graph.output)
    ]
    dump = root / "board"
    dump.mkdir()
    rows = []
    for name, array in zip(names, (value, np.load(folder / "all" / f"{names[1]}.npy")), strict=True):
        array.tofile(dump / f"{name}.bin")
        row = {"name": name, "file": f"{name}.bin", "dtype": array.dtype.name, "shape": list(array.shape)}
        row |= facts if name == names[0] else {}
        rows.append("\n".join(["[[tensor]]", *(f"{k} = {json.dumps(v)}" for k, v in row.items())]))
    (dump / "dump.toml").write_text("\n".join(rows))
    np.save(root / "given.npy", np.load(folder / "x.npy") if given is None else given)
    main(["-m", f"{folder / 'q.onnx'},{dump}", "-i", str(root / "given.npy")])
    return names[0]


def test_an_input_that_is_that_of_i(folder, tmp_path, capsys):
    name = judge(folder, tmp_path, np.load(folder / "x.npy"))
    shown = capsys.readouterr().out
    assert f"inputs of the dump, the same as those of -i: {name}" in shown and "is not that of -i" not in shown


def test_an_input_in_nhwc_is_the_same(folder, tmp_path, capsys):
    value = np.ascontiguousarray(np.moveaxis(np.load(folder / "x.npy"), 1, -1))
    judge(folder, tmp_path, value, layout="NHWC")
    assert "the same as those of -i" in capsys.readouterr().out


def test_another_input_is_found_first_and_said_in_the_verdict_line(folder, tmp_path, capsys):
    x = np.load(folder / "x.npy")
    name = judge(folder, tmp_path, x, x[:, :, :, ::-1])
    shown = capsys.readouterr().out.splitlines()
    assert not any("not compared: 1:" in line for line in shown)
    found = [line for line in shown if line.startswith("found: ")]
    assert found[0].startswith(f"found: the dump's own input {name} is not that of -i: 216 of 216 elements differ")
    verdicts = [line for line in shown if "result Strict check FAILED" in line]
    assert len(verdicts) == 2 and all(f"the dump's own input {name} is not that of -i" in line for line in verdicts)
