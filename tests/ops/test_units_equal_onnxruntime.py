"""Law L2: every kind of unit, compiled, equals onnxruntime bit for bit, or within 1 LSB where it has no integer kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from qverify.compare.options import Options
from qverify.compiler.compile_model import compile_model
from qverify.onnx_model.open_exposed import open_exposed
from qverify.session.job import verify
from qverify.session.request import Request

from tests.lowered import lowered_by_onnxruntime
from tests.ops.case_files import ACTIVATIONS, CASES, CASES_OF_ACTIVATIONS
from tests.ops.qdq import Qdq


@pytest.mark.parametrize(("name", "act"), CASES_OF_ACTIVATIONS)
def test_unit(name: str, act: str, tmp_path: Path):
    build, op, integer = CASES[name]
    wide = "16" in act
    maker = Qdq(*ACTIVATIONS[act], seed=sum(name.encode()))
    build(maker)
    path = tmp_path / "unit.onnx"
    path.write_bytes(maker.model().SerializeToString())
    compiled = compile_model(path.read_bytes(), "unit.onnx")
    check = compiled.graph.meta["check"]
    assert check["units"] and not check["over"] and not check["not_checked"], check
    stems = {n.op: n.integer_reference for n in compiled.graph.nodes}
    assert op in stems or (wide and f"{op}_float" in stems)
    report = verify(Request([str(path)], "local", options=Options(dump_all=True))).report
    pairs = {(p.a, p.b): p for p in report.pairs}
    assert report.blame is None
    assert all(t.forced is not None and t.forced.verdict == "PASSED" for p in report.pairs for t in p.tensors)
    assert pairs["simulator", "board"].bit_equal
    if integer and not wide:
        assert report.verdict == "PASSED"
        assert all(stems.values())
        assert pairs["reference", "simulator"].bit_equal
        assert _onnxruntime_fused_equal(compiled, maker, tmp_path)


def _onnxruntime_fused_equal(compiled: Any, maker: Qdq, folder: Path) -> bool:
    """The integer ONNX against the untouched file as onnxruntime itself lowers it, on the maker's own input."""
    lowered = lowered_by_onnxruntime(maker.model().SerializeToString(), folder)
    untouched = open_exposed(lowered, []).run(maker.feed)
    ours = open_exposed(onnx.load_from_string(compiled.integer_onnx), []).run(maker.feed)
    return all(np.array_equal(untouched[n], ours[n]) for n in maker.outputs)
