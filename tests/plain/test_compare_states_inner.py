"""Tensors inside a node of the integer form that only one of two dumps has: the verdict line says that they are not compared."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main


def test_a_tensor_inside_a_node_that_one_dump_alone_has_is_named_in_the_verdict_line(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, a, b, out = digits / "digits_quant.onnx", tmp_path / "a.npz", tmp_path / "b.npz", tmp_path / "R.json"
    folder = tmp_path / "dump"
    assert main(["infer", "-m", str(model), "--side", "simulator", "-o", str(folder)]) == 0
    names = json.loads((folder / "manifest.json").read_text())["tensors"]
    tensors = {name: np.load(folder / file) for file, name in names.items()}
    np.savez(a, **tensors)
    np.savez(b, **tensors, relu1=np.ones(3, np.float32))
    for first, second in ((a, b), (b, a)):
        capsys.readouterr()
        assert main(["compare", str(first), str(second), "-m", str(model), "--json", str(out)]) == 0
        text = "1 tensor is in one dump only and not compared, because the integer form computes them inside a node"
        assert text in capsys.readouterr().out.splitlines()[-1]
        (pair,) = json.loads(out.read_text())["pairs"]
        assert [t for t in pair["relaxed"] if t.endswith(": relu1")]
    assert main(["compare", str(a), str(a), "-m", str(model)]) == 0
    assert "in one dump only" not in capsys.readouterr().out
