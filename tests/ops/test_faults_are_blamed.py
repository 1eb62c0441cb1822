"""Law L4: a board whose kernel of any op is wrong by one bit, one LSB or one element fails, and that very node is blamed."""

from __future__ import annotations

from pathlib import Path

import pytest
from qverify.compare.options import Options
from qverify.compiler.compile import CompileOptions, compile_model
from qverify.model_bin.records import encode
from qverify.model_bin.units import units
from qverify.session.verify import Request, verify

from tests.ops.qdq import Qdq
from tests.ops.test_units_equal_onnxruntime import CASES

FLOAT_KINDS = ("zero_tail", "nan")  # inside a float region one bit may rightly vanish in the rounding after it
KINDS = ("bitflip", "plus_one", "off_by_one")


@pytest.mark.parametrize("name", CASES)
def test_blamed(name: str, tmp_path: Path) -> None:
    build, op, _ = CASES[name]
    m = Qdq("uint8", seed=sum(map(ord, name)))
    build(m)
    onnx_path, binary = tmp_path / "m.onnx", tmp_path / "m.bin"
    onnx_path.write_bytes(m.model().SerializeToString())
    graph = compile_model(onnx_path.read_bytes(), "m", CompileOptions(check=False)).graph
    binary.write_bytes(encode(graph))
    spoiled = [n.name for n in graph.nodes if n.op == op][-1]
    unit = next(u for u in units(graph) if any(n.name == spoiled for n in u.nodes))
    for kind in FLOAT_KINDS if graph.spec(spoiled).dtype == "float32" else KINDS:
        board = f"faulty:local?fault={kind}@{spoiled}"
        report = verify(Request([str(onnx_path), str(binary)], board, options=Options(dump_all=True))).report
        assert report.verdict == "FAILED", kind
        assert report.blame is not None and (report.blame.side, report.blame.node) == ("board", unit.name), kind
