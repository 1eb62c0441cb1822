"""The original ONNX on default onnxruntime is shown beside the result and never judged."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compare.options import Options
from qverify.onnx_model.engine import LEVELS
from qverify.onnx_model.find_optimizer import SessionSettings, find_optimizer
from qverify.renderers.terminal import render
from qverify.session.job import verify
from qverify.session.request import Request
from qverify.sides.engine_child import EngineChild, EngineEnded
from qverify.sides.plain_onnxruntime import PlainOnnxruntime

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


def test_the_optimizer_that_changes_the_outputs_is_named(tmp_path: Path) -> None:
    """A bias of float32 is quantized to int32 by onnxruntime's WeightBiasQuantization, which a plain session has."""
    m, path = Qdq(seed=3), tmp_path / "q.onnx"
    x, bias = m.input((1, 3, 7, 5)), m.constant("b", m.rng.normal(0, 1, 4).astype(np.float32))
    integers = m.rng.integers(-1, 2, (4, 3, 3, 3)).astype(np.int8)
    w = m.op(
        "DequantizeLinear", [m.constant("w", integers), m.constant("ws", np.float32(7)), m.constant("wz", np.int8(0))]
    )
    ends = [m.constant("ys", np.float32(0.05)), m.constant("yz", np.uint8(0))]
    q = m.op("QuantizeLinear", [m.op("Conv", [x, w, bias]), *ends])
    m.output(m.op("DequantizeLinear", [q, *ends]))
    path.write_bytes(m.model().SerializeToString())
    verified = verify(Request([str(path)], options=Options(dump_all=True)))
    assert verified.evidence is not None
    feed = {i.spec.name: i.array() for i in verified.evidence.prepared.inputs}
    (row,) = verified.report.plain_onnxruntime["outputs"]
    plain = PlainOnnxruntime(path.read_bytes())
    by_default, written = (plain.run(feed, [row["name"]], s) for s in (None, SessionSettings("disable_all")))
    assert not isinstance(by_default, str) and not isinstance(written, str)
    assert (by_default[row["name"]] != written[row["name"]]).any()
    assert (
        str(plain.find_optimizer(feed, by_default)) == "the optimizer WeightBiasQuantization (level basic) changes it"
    )


def test_the_file_is_compared_as_a_session_without_options_runs_it(tmp_path: Path) -> None:
    """onnxruntime with other settings is put in the place of its default: the line says how many values differ, and why."""
    m, path = Qdq(act="int8", seed=3), tmp_path / "q.onnx"
    x = m.input((1, 3, 5, 4))
    m.output(m.pair(m.op("Transpose", [x], perm=[0, 2, 3, 1]), np.float32(0.02), np.int8(3)))
    path.write_bytes(m.model().SerializeToString())

    def changed(
        self: PlainOnnxruntime, feed: object, names: list[str], settings: SessionSettings | None = None
    ) -> object:
        values = run(self, feed, names, settings)
        is_off = settings is not None and (settings.level in LEVELS[:2] or "GeluFusionL2" in settings.disabled)
        return (
            values
            if is_off
            else {n: np.where(np.arange(v.size).reshape(v.shape) < 7, v + 1, v) for n, v in values.items()}
        )

    run = PlainOnnxruntime.run
    with mock.patch.object(PlainOnnxruntime, "run", changed):
        report = verify(Request([str(path)])).report
    (row,) = report.plain_onnxruntime["outputs"]
    assert not row["equal"] and row["differing"] == 7 and row["elements"] == 60
    said = f"default onnxruntime, {row['name']}: differs by up to 1, 7 of 60 values"
    lines = [line for line in render(report, []).split("\n") if "default onnxruntime" in line]
    assert lines == [f"original ONNX on {said}; the optimizer GeluFusionL2 (level extended) changes it"]


@pytest.mark.parametrize("names", [("QDQPropagationTransformer",), ("LayerNormFusion", "NoopElimination")])
def test_one_or_several_optimizers_are_found(names: tuple[str, ...]) -> None:
    right, wrong = {"y": np.zeros(3, np.int8)}, {"y": np.ones(3, np.int8)}

    def run(settings: SessionSettings) -> dict[str, np.ndarray]:
        is_off = settings.level in ("disable_all", "basic") or set(names) <= set(settings.disabled)
        return right if is_off else wrong

    found = find_optimizer(run, wrong)
    assert (found.level, set(found.names)) == ("extended", set(names))
    assert find_optimizer(lambda settings: wrong, wrong).level == "disable_all"
    assert find_optimizer(lambda settings: None, wrong).level == ""


def test_an_engine_that_ends_its_process_ends_no_other(tmp_path: Path) -> None:
    program = tmp_path / "ends.py"
    program.write_text(
        "import json, os, signal, sys\n"
        "for line in sys.stdin:\n"
        "    if 'die' in json.loads(line): os.kill(os.getpid(), signal.SIGABRT)\n"
        "    print('{}', flush=True)\n"
    )
    child = EngineChild(program)
    assert child.request({}) == {}
    with pytest.raises(EngineEnded, match="SIGABRT"):
        child.request({"die": 1})
    assert child.request({}) == {}  # a new one
    child.close()
    assert not child.folder.exists()
    program.write_text("import time\ntime.sleep(60)\n")
    with pytest.raises(EngineEnded, match=r"no answer within 0\.2 s"):
        EngineChild(program).request({}, 0.2)
