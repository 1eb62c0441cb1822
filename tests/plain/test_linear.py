"""Four times the nodes cost four times the work: counted in bytecodes, which no machine's speed changes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import onnx
import pytest
import qverify
from onnx import TensorProto, helper, numpy_helper
from qverify.compare.options import Options
from qverify.compare.pairing import pair_names
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.records import encode
from qverify.model_bin.units import units
from qverify.onnx_model.graph_view import GraphView
from qverify.onnx_model.load import load
from qverify.renderers import terminal
from qverify.report.report_json import to_json
from qverify.session.job import verify
from qverify.session.request import Request
from qverify.sides.reference import Reference
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

from tests.ops.qdq import Qdq
from tests.plain.test_shapes_of_data import group_norms

OURS = os.path.dirname(qverify.__file__)
SMALL, LARGE = 100, 400
MOST = 4.6  # times the bytecodes for four times the nodes: linear, and what a dictionary's growth may add


def bytecodes(call: Callable[[], object]) -> int:
    """Executed in qverify's own frames while call() runs."""
    count = 0

    def watch(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if event == "call":
            if not frame.f_code.co_filename.startswith(OURS):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def chain(count: int) -> onnx.ModelProto:
    """DequantizeLinear, an operator, QuantizeLinear, `count` times: movement, a pair, a table."""
    scale, zero = numpy_helper.from_array(np.float32(0.05), "s"), numpy_helper.from_array(np.uint8(128), "z")
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q0"])]
    for i in range(count):
        kind = ("Transpose", "Add", "Sigmoid")[i % 3]
        nodes.append(helper.make_node("DequantizeLinear", [f"q{i}", "s", "z"], [f"d{i}"]))
        nodes.append(helper.make_node(kind, [f"d{i}"] * (2 if kind == "Add" else 1), [f"f{i}"]))
        nodes.append(helper.make_node("QuantizeLinear", [f"f{i}", "s", "z"], [f"q{i + 1}"]))
    nodes.append(helper.make_node("DequantizeLinear", [f"q{count}", "s", "z"], ["y"]))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 4]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], [scale, zero])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def at_most_linear(work: Callable[[int], Callable[[], object]]) -> None:
    small, large = (bytecodes(work(count)) for count in (SMALL, LARGE))
    assert large < MOST * small, f"{small} bytecodes for {SMALL} units, {large} for {LARGE}"


@pytest.fixture(scope="module")
def sources() -> dict[int, bytes]:
    found = {count: chain(count).SerializeToString() for count in (1, SMALL, LARGE)}
    compile_model(found[1], "first.onnx")  # what is imported and prepared once is not counted
    return found


@pytest.mark.parametrize("options", [CompilerOptions(), CompilerOptions(fuse=False, strip_io_quant=True)])
def test_compiling(options: CompilerOptions, sources: dict[int, bytes]):
    at_most_linear(lambda count: lambda: encode(compile_model(sources[count], "c.onnx", options).graph))


def test_shapes_that_follow_from_shapes():
    """However many Reshapes take their dims from the tensor before, one run of the model finds all shapes."""

    def work(count: int) -> Callable[[], object]:
        m = Qdq()
        group_norms(m, count // 4)
        source = m.model().SerializeToString()
        model = load(source, "g.onnx")
        assert not [n for n in model.graph.node if n.op_type == "Shape"]
        assert len(model.graph.value_info) + 1 == sum(len(n.output) for n in model.graph.node)
        return lambda: load(source, "g.onnx")

    at_most_linear(work)


def test_the_main_job(sources: dict[int, bytes], tmp_path: Path):
    for count, source in sources.items():
        (tmp_path / f"{count}.onnx").write_bytes(source)
        compiled = compile_model(source, "c.onnx", CompilerOptions(rounding="pow2-floor"))
        (tmp_path / f"{count}.bin").write_bytes(encode(compiled.graph))

    def job(count: int) -> None:
        paths = [str(tmp_path / f"{count}.onnx"), str(tmp_path / f"{count}.bin")]
        outcome = verify(Request(paths, options=Options(dump_all=True)))
        terminal.render(outcome.report, outcome.finals)
        to_json(outcome.report)

    job(1)
    at_most_linear(lambda count: lambda: job(count))


def test_forcing_a_unit_costs_the_same_in_any_model(sources: dict[int, bytes]):
    costs = []
    for count in (SMALL, LARGE):
        compiled = compile_model(sources[count], "c.onnx", CompilerOptions(check=False))
        reference, every = Reference(compiled.integer_onnx, compiled.graph), units(compiled.graph)
        given = {n: np.zeros((4, 4), np.uint8) for n in ("q1", "q2")}
        reference.run_unit(every[1], {"q0": given["q1"]})  # the index is made once
        costs.append(bytecodes(lambda r=reference, u=every, g=given: r.run_unit(u[2], g)))  # type: ignore[misc]
    assert costs[1] < 1.2 * costs[0]


def test_names_that_pair_through_covers():
    def work(count: int) -> Callable[[], object]:
        names = [f"t{i}" for i in range(count)]
        nodes = [Node(n, "reshape", ("x",), (n,), covers=(f"onnx_{n}",)) for n in names]
        specs = {n: TensorSpec(n, "uint8", (1,)) for n in names}
        graph = Graph(nodes, specs, {}, ("x",), (names[-1],))
        theirs = {f"onnx_{n}": s for n, s in reversed(specs.items())}
        per_node = frozenset({"finals", "per_node"})
        a, b = (Recording(s, "", specs=d, capabilities=per_node) for s, d in (("board", specs), ("dump", theirs)))
        assert all(p.through_covers for p in pair_names(a, b, graph)[0])
        return lambda: pair_names(a, b, graph)

    at_most_linear(work)


def test_nodes_of_one_name_get_names_of_their_own():
    model = chain(LARGE)
    for node in model.graph.node:
        node.name = "same"
    view = GraphView(model, "same.onnx")
    assert len({n.name for n in view.nodes}) == len(view.nodes)
    assert max(len(n.name) for n in view.nodes) < 20
