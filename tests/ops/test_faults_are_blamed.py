"""Law L4: a board whose kernel of any op is wrong fails, and that very node is blamed; so does one with any kind of fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from qverify.compare.options import Options
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.model_bin.graph import Node
from qverify.model_bin.records import encode
from qverify.model_bin.units import units
from qverify.report.document import ReportDocument
from qverify.session.job import verify
from qverify.session.request import Request
from qverify_agents.boards.faulty_runtime import KNOWN, WITHHELD

from tests.ops import fault_cases
from tests.ops.case_files import CASES
from tests.ops.qdq import Qdq

FLOAT_KINDS = ("zero_tail", "nan")  # inside a float region one bit may rightly vanish in the rounding after it
KINDS = ("bitflip", "plus_one", "off_by_one")


class Spoilt:
    """One model on boards that are wrong at its last node that `chosen` takes."""

    def __init__(self, name: str, build: Callable[[Qdq], None], chosen: Callable[[Node], bool], folder: Path):
        m = Qdq("uint8", seed=sum(map(ord, name)))
        build(m)
        onnx_path, binary = folder / "m.onnx", folder / "m.bin"
        onnx_path.write_bytes(m.model().SerializeToString())
        graph = compile_model(onnx_path.read_bytes(), "m", CompilerOptions(check=False)).graph
        binary.write_bytes(encode(graph))
        self.node = [n.name for n in graph.nodes if chosen(n)][-1]
        self.unit = next(u for u in units(graph) if any(n.name == self.node for n in u.nodes))
        self.dtype = graph.spec(self.node).dtype
        self.paths = [str(onnx_path), str(binary)]

    def report(self, kind: str) -> ReportDocument:
        options = Options(dump_all=True, nan_equal=True)
        return verify(Request(self.paths, f"faulty:local?fault={kind}@{self.node}", options=options)).report

    def is_blamed(self, kind: str) -> None:
        report = self.report(kind)
        assert report.verdict == "FAILED", kind
        assert report.blame is not None and (report.blame.side, report.blame.node) == ("board", self.unit.name), kind


@pytest.mark.parametrize("name", CASES)
def test_blamed(name: str, tmp_path: Path) -> None:
    build, op, _ = CASES[name]
    spoilt = Spoilt(name, build, lambda n: n.op == op, tmp_path)
    for kind in FLOAT_KINDS if spoilt.dtype == "float32" else KINDS:
        spoilt.is_blamed(kind)


@pytest.mark.parametrize("name", sorted({fault_cases.ORDINARY, *fault_cases.SHOWN_BY.values()}))
def test_every_kind_is_blamed(name: str, tmp_path: Path) -> None:
    build, op, _ = CASES.get(name) or (getattr(fault_cases, name), "", False)
    spoilt = Spoilt(name, build, lambda n: n.op == op or (not op and n.op not in ("quantize", "dequantize")), tmp_path)
    shown = [k for k in (*KNOWN, *WITHHELD) if fault_cases.SHOWN_BY.get(k, fault_cases.ORDINARY) == name]
    spoilt.paths = spoilt.paths[1:]  # simulator and board
    assert shown
    for kind in shown:
        spoilt.is_blamed(kind)


def test_of_two_faults_the_first_is_blamed_and_both_fail_forced(digits: Path) -> None:
    path = digits / "digits_quant.onnx"
    graph = compile_model(path.read_bytes(), "m", CompilerOptions(check=False)).graph
    first, second = (n.name for n in [n for n in graph.nodes if n.op in ("conv", "fully_connected")][:2])
    board = f"faulty:local?fault=bit_flips:7@{first}|channel_swap:1@{second}"
    report = verify(Request([str(path)], board, options=Options(dump_all=True))).report
    rows = {t.name: t for p in report.pairs if (p.a, p.b) == ("simulator", "board") for t in p.tensors}
    assert report.blame is not None and report.blame.node == first
    assert [n for n, t in rows.items() if t.forced is not None and t.forced.verdict == "FAILED"] == [first, second]
