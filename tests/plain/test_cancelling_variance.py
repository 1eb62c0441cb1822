"""A normalization of values that hardly vary, of which onnxruntime's own result is not known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compiler.compile_model import compile_model

from tests.ops.qdq import Qdq


def normalized(centre: float, spread: float, offset: float = 0.0) -> Qdq:
    """An InstanceNormalization of spread * x + centre."""
    m = Qdq("uint8")
    scaled = m.op("Mul", [m.input((1, 4, 8, 8)), m.constant("spread", np.float32(spread))])
    x = m.op("Add", [scaled, m.constant("centre", np.float32(centre))])
    parts = [m.constant(n, np.full(4, v, np.float32)) for n, v in (("factor", 1.0), ("offset", offset))]
    m.output(m.op("InstanceNormalization", [x, *parts], epsilon=1e-12))
    return m


def test_where_the_bound_still_has_a_limit_it_is_refused_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(normalized(1000.0, 1e-4).model().SerializeToString())
    assert main(["compile", str(path), "-o", str(tmp_path / "m.bin")]) == 1
    assert "its variance cancels" in (printed := capsys.readouterr().err) and len(printed.strip().splitlines()) == 1
    assert main(["-m", str(path)]) == 2
    assert "variance cancels" in (printed := capsys.readouterr().err) and len(printed.strip().splitlines()) == 1


def test_it_is_compiled_and_the_reference_is_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, report = tmp_path / "m.onnx", tmp_path / "report.json"
    path.write_bytes(normalized(1000.0, 1e-3).model().SerializeToString())
    assert main(["compile", str(path), "-o", str(tmp_path / "m.bin")]) == 0
    assert "not checked 1" in capsys.readouterr().out
    assert main(["-m", str(path), "-b", "local", "-r", "True", "--json", str(report)]) == 3
    pairs = json.loads(report.read_text())["pairs"]
    assert [pair["verdict"] for pair in pairs] == ["INCONCLUSIVE", "INCONCLUSIVE", "PASSED"]
    assert all("or its variance cancels" in pair["why"] for pair in pairs[:2])


def test_values_that_vary_pass() -> None:
    check = compile_model(normalized(1.0, 1.0).model().SerializeToString(), "m").graph.meta["check"]
    assert not check["over"] and "cancelling" not in check
