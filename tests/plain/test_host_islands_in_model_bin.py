"""Host islands in model.bin: read as they were written, refused where they do not fit, run in order."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from qverify.compare.node_by_node import find_after_float, find_agreeing
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import BadFileError
from qverify.model_bin.check import check_graph
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.islands import READS_RESULT, HostIsland, HostNode, from_meta, in_order, list_reasons, sort_nodes
from qverify.model_bin.records import decode, encode
from qverify.model_bin.units import units
from qverify.report.document import Forced
from qverify.sides.board_islands import BoardIslands
from qverify.sides.host_islands import HostIslands
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

from tests.plain.island_models import SHAPE, between, compiled, model, rounds


def test_islands_are_read_as_they_were_written():
    graph = compiled(rounds)
    again = decode(encode(graph))
    assert (again.islands, again.inputs, again.fed()) == (graph.islands, graph.inputs, graph.fed())
    assert encode(again) == encode(graph)


def test_reasons_are_listed_causes_first_and_the_rest_counted():
    whys = ["a (Loop): not supported", *(f"b{k} (Add): {READS_RESULT}: x" for k in range(4)), "c (If): not supported"]
    islands = [HostIsland((), (), (), (), (HostNode("a", "Loop", whys[0]),))]
    islands += [HostIsland((), (), (), (), tuple(HostNode("b", "Add", why) for why in whys[1:]))]
    prefix = "computed on the host, not verified: "
    lines = list_reasons(islands, 3)
    assert lines[:3] == [prefix + whys[0], prefix + whys[5], prefix + whys[1]]
    assert lines[3:] == [
        f"{prefix}3 more nodes, 3 of which {READS_RESULT.replace('reads a result', 'read results')} (qverify inspect MODEL.bin lists all)"
    ]
    assert list_reasons(islands, 6) == [prefix + why for why in (whys[0], whys[5], *whys[1:5])]
    assert list_reasons(islands[:1], 0) == [f"{prefix}1 more node (qverify inspect MODEL.bin lists all)"]


@pytest.mark.parametrize(
    "rows", [{}, 3, [3], [{}], [{"inputs": "x", "pulled": [], "outputs": [], "finals": [], "nodes": []}]]
)
def test_islands_that_cannot_be_read_are_refused(rows):
    if rows == {}:
        assert from_meta(rows) == ()
        return
    with pytest.raises(BadFileError, match="host islands cannot be read"):
        from_meta(rows)


def chain(*islands: HostIsland) -> Graph:
    """x -> a, then an island from a to h, then h -> y."""
    names = ("x", "a", "h", "y")
    nodes = [
        Node("a", "elementwise_float", ("x",), ("a",), (20, 0, 0), (), False),
        Node("y", "reshape", ("h",), ("y",)),
    ]
    specs = {n: TensorSpec(n, "float32", (2,)) for n in names}
    return Graph(nodes, specs, {}, ("x",), ("a", "y"), islands=islands)


ISLAND = HostIsland(("a",), ("a",), ("h",), (), (HostNode("n", "Det", "why"),))


@pytest.mark.parametrize(
    "islands", [(), (replace(ISLAND, inputs=("nowhere",)),), (ISLAND, ISLAND), (replace(ISLAND, inputs=("y",)),)]
)
def test_islands_that_do_not_fit_are_refused(islands):
    check_graph(chain(ISLAND))
    with pytest.raises(BadFileError):
        check_graph(chain(*islands))


def test_islands_pass_on_what_is_known_of_their_inputs():
    graph = chain(ISLAND)
    assert find_after_float(graph, units(graph)) == {"a", "h", "y"}
    passed, failed = Forced("PASSED", 0, 0), Forced("FAILED", 0, 1)
    assert find_agreeing(graph, units(graph), {"a": passed, "y": passed}, {}) == {"x", "a", "h", "y"}
    assert find_agreeing(graph, units(graph), {"a": failed, "y": passed}, {}) == {"x"}


def test_what_the_host_makes_must_be_what_the_model_says():
    result = compile_model(model(between).SerializeToString(), "q.onnx", CompilerOptions(host=True))
    island, graph = result.graph.islands[0], result.graph
    values = {"conv4_dq": np.zeros(SHAPE, np.float32)}
    assert HostIslands(result.integer_onnx, graph).run(island, values)["gridsample7"].shape == SHAPE
    other = replace(graph, tensors=graph.tensors | {"gridsample7": TensorSpec("gridsample7", "float32", (1, 108))})
    with pytest.raises(BadFileError, match="the model says float32"):
        HostIslands(result.integer_onnx, other).run(island, values)


def test_a_board_that_changes_its_mind_before_an_island_is_not_complete():
    graph = chain(ISLAND)
    host = SimpleNamespace(run=lambda island, values: {"h": values["a"] + 1})
    islands = BoardIslands(graph, host)  # type: ignore[arg-type]
    prepared = SimpleNamespace(arrays=lambda: {"x": np.zeros(2, np.float32)})
    one, two = np.ones(2, np.float32), np.full(2, 2, np.float32)
    fed = islands.compute(prepared, lambda unit, values: {"a": one}, {"inject"})  # type: ignore[arg-type]
    assert fed[0][1] == two.tobytes()
    for value, why, given in ((one, "", {"a", "h"}), (two, "not deterministic", set()), (None, "gave nothing", set())):
        recording, tensors = Recording("board", "test"), {} if value is None else {"a": value}
        islands.check(recording, tensors)
        assert recording.missing.keys() == ({"a"} if why else set()) and why in recording.missing.get("a", "")
        assert tensors.keys() == given  # what the island made of doubtful bytes is not the board's


def test_islands_run_as_soon_as_they_can():
    def island(reads: str, makes: str) -> HostIsland:
        return HostIsland(tuple(reads), (), tuple(makes), (), (HostNode(makes, "Det", ""),))

    islands = [island("d", "e"), island("b", "d"), island("z", "y"), island("", "c")]
    steps = [SimpleNamespace(outputs=("b",)), SimpleNamespace(outputs=("f",))]
    made = ["".join(step.outputs) for step in in_order(islands, steps, "a")]
    assert made == ["c", "b", "d", "e", "f"]  # without the one that waits for ever


def test_nodes_come_after_the_islands_that_they_read():
    def node(name: str, *inputs: str | None) -> Node:
        return Node(name, "add", inputs, (name,), ())

    islands = [HostIsland(("b", "x"), (), ("i",), (), ()), HostIsland(("c",), (), ("j",), (), ())]
    nodes = [node("a", "x"), node("c", "i", None), node("b", "a"), node("d", "j", "k"), node("e", "never")]
    assert [n.name for n in sort_nodes(nodes, islands, ["x", "k"])] == ["a", "b", "c", "d", "e"]
    assert sort_nodes(nodes[:1], [], ["x"]) == nodes[:1]
