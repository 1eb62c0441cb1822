"""A dim of -1 in a file is a dynamic one: Paddle's exporter writes it, and onnxruntime runs it."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from qverify.cli.main import main

from tests.ops.qdq import Qdq


def with_negative_dims() -> bytes:
    m = Qdq(seed=1)
    m.output(m.quantize(m.op("Relu", [m.input((1, 3, 4, 4))])))
    model = m.model()
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.shape.dim[0].dim_value = -1
    return model.SerializeToString()


def test_the_shape_is_asked_for_and_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "q.onnx", tmp_path / "m.bin"
    path.write_bytes(with_negative_dims())
    (name,) = (i.name for i in onnx.load(str(path)).graph.input)
    assert main(["compile", str(path), "-o", str(out)]) == 2
    assert f"dynamic shape ['?', 3, 4, 4]; give --shape {name}=1,3,4,4" in capsys.readouterr().err
    shape = ["--shape", f"{name}=2,3,4,4"]
    assert main(["compile", str(path), "-o", str(out), *shape]) == 0
    assert main(["-m", f"{path},{out}", "-b", "local", *shape]) == 0
    assert "original ONNX on default onnxruntime" in capsys.readouterr().out
