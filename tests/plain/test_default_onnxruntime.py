"""The original ONNX on default onnxruntime is shown beside the result and never judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify.compare.options import Options
from qverify.renderers.terminal import render
from qverify.session.job import verify
from qverify.session.request import Request

from tests.ops.qdq import Qdq


def test_a_model_that_its_optimizations_break_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They make a QLinearAveragePool with dilations, which their own kernel refuses."""
    m, path = Qdq(seed=3, opset=19), tmp_path / "q.onnx"
    m.output(m.quantize(m.op("AveragePool", [m.input((1, 2, 9, 7))], kernel_shape=[2, 3], dilations=[2, 2])))
    path.write_bytes(m.model().SerializeToString())
    report = verify(Request([str(path)], "local", options=Options(dump_all=True))).report
    (row,) = report.plain_onnxruntime["outputs"]
    if row["max_abs"] is not None:
        pytest.skip("this onnxruntime runs what it optimizes")
    assert report.verdict == "PASSED" and not row["equal"] and row["why"].startswith("onnxruntime ")
    assert main(["-m", str(path), "-b", "local"]) == 0
    assert f"default onnxruntime, {row['name']}: not computed: onnxruntime " in capsys.readouterr().out


def test_the_outputs_that_differ_are_one_line(digits: Path) -> None:
    report = verify(Request([str(digits / "digits_quant.onnx")])).report
    apart = {"a": 0.25, "b": 0.5, "c": None, "d": 0.0}
    report.plain_onnxruntime = {
        "outputs": [{"name": n, "equal": n == "d", "max_abs": m, "why": ""} for n, m in apart.items()]
    }
    report.canary = {}
    said = [line for line in render(report, []).split("\n") if "default onnxruntime" in line]
    assert said == [
        "original ONNX on default onnxruntime, a, b, c: differ by up to 0.5 (b)",
        "original ONNX on default onnxruntime, d: equal",
    ]
    del report.plain_onnxruntime["outputs"][1:]
    assert "original ONNX on default onnxruntime, a: differs by up to 0.25\n" in render(report, [])
    report.canary = {"exact_products": True}
    assert "0.25; its products of uint8 by int8 saturate on this processor" in render(report, [])
