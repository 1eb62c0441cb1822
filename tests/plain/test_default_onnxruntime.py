"""The original ONNX on default onnxruntime is shown beside the result and never judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify.compare.options import Options
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
