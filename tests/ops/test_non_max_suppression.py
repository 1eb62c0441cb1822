"""NonMaxSuppression has as many rows as it may keep; the original ONNX, which has fewer, is compared in those."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from qverify.compare.options import Options
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import UnsupportedError
from qverify.inputs.random_inputs import random_inputs
from qverify.session.job import verify
from qverify.session.request import Request
from qverify.sides.simulator import Simulator

from tests.ops.qdq import Qdq


def detector(most: str = "constant", value: int = 4) -> Qdq:
    """20 large boxes that overlap; with their rows gathered."""
    m = Qdq("uint8", seed=4)
    boxes, scores = m.input((1, 20, 4), 0, 9), m.input((1, 2, 20), 0, 1)
    largest = m.constant("most", np.array([value])) if most == "constant" else m.integers((1,))
    kept = m.op("NonMaxSuppression", [boxes, scores, largest, m.constant("iou", np.float32([0.1]))])
    rows = m.op("Gather", [kept, m.constant("two", np.array(2))], axis=1)
    flat = m.op("Reshape", [boxes, m.constant("flat", np.array([20, 4]))])
    for name in (kept, m.op("Gather", [flat, rows], axis=0)):
        m.output(name)
    return m


def test_the_original_is_compared_in_the_rows_that_it_has(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(detector(value=2**63 - 1).model().SerializeToString())
    report = verify(Request([str(path)], "local", options=Options(dump_all=True))).report
    assert report.verdict == "PASSED"
    assert [item["equal"] for item in report.plain_onnxruntime["outputs"]] == [True, True]
    assert any("the 40 rows that it may keep; those it does not keep are -1" in note for note in report.notes)


def test_rows_that_are_not_kept_are_minus_one() -> None:
    graph = compile_model(
        detector(value=2**63 - 1).model().SerializeToString(), "m", CompilerOptions(check=False)
    ).graph
    kept = next(n.name for n in graph.nodes if n.op == "non_max_suppression")
    rows = Simulator(graph).run(random_inputs(graph, 1)).tensors[kept]
    count = int((rows[:, 0] >= 0).sum())
    assert rows.shape == (40, 3) and 2 <= count < 40
    assert (rows[count:] == -1).all() and (rows[:count] >= 0).all()


@pytest.mark.parametrize(("most", "value"), [("constant", 0), ("computed", 0)])
def test_without_a_maximum_it_is_refused(most: str, value: int) -> None:
    with pytest.raises(UnsupportedError, match=r"\(NonMaxSuppression\): its max_output_boxes_per_class is no constant"):
        compile_model(detector(most, value).model().SerializeToString(), "m")
