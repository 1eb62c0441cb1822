"""Where the reference's float32 intermediates overflow or underflow, its value means nothing: correct hardware does not fail, a fault
does, and the report counts the elements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from qverify.compare.error_bounds.chain import evaluate_unit
from qverify.compare.limits import Limit, limit_for
from qverify.compare.node_by_node import find_after_meaningless
from qverify.compare.options import Options
from qverify.compare.tie_aware import ExactUnit, TieAwareResult, check_both, choose_tie_aware_limit
from qverify.compare.verdict import judge_all
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.islands import HostIsland, HostNode
from qverify.model_bin.units import Unit, units
from qverify.ops import simulate_node
from qverify.renderers import terminal, verdict_lines
from qverify.report.document import Forced, ReportDocument
from qverify.report.report_json import to_json
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

from tests.plain.error_pages import page, real, whole, word

HUGE, SMALL = [3e19, 4e19], [3.0, 4.0]
SAID = "of 2 elements of n not judged: the reference's float32 intermediates overflow or underflow there"


def norms(rows: int = 2) -> Graph:
    """n = the norm of each row of x, y = n / 10: onnxruntime squares in float32."""
    tensors = {"x": TensorSpec("x", "float32", (rows, 2)), "k": TensorSpec("k", "float32", (1,))}
    tensors |= {n: TensorSpec(n, "float32", (rows,)) for n in ("n", "y")}
    nodes = [
        Node("n", "reduce_float", ("x",), ("n",), (5, 2), (), False),
        Node("y", "elementwise_float", ("n", "k"), ("y",), (3, 0, 0), (), False),
    ]
    return Graph(nodes, tensors, {"k": np.full(1, 10, np.float32)}, ("x",), ("y",))


def ours(node: Node, inputs: dict[str, Any], graph: Graph) -> Any:
    return simulate_node(graph, node, inputs)[node.outputs[0]]


def onnxruntimes(node: Node, inputs: dict[str, Any], graph: Graph) -> Any:
    """Computes as onnxruntime was measured to: ReduceL2 of 3e19 and 4e19 is inf, of 1e-30 is 0; the sine of any argument is computed."""
    if node.name != "n":
        return ours(node, inputs, graph)
    if node.op == "elementwise_float":
        return np.sin(inputs["x"], dtype=np.float32)
    with np.errstate(all="ignore"):
        return np.sqrt((inputs["x"] ** 2).sum(1, dtype=np.float32))


def sines(count: int) -> Graph:
    """n = the sine of x, y = n / 10."""
    graph = norms(count)
    x, n = TensorSpec("x", "float32", (count,)), Node("n", "elementwise_float", ("x",), ("n",), (53, 0, 0), (), False)
    return replace(graph, nodes=[n, graph.nodes[1]], tensors={**graph.tensors, "x": x})


def beside(count: int) -> Graph:
    """Like norms, with a second final output z = x / 10, which does not depend on n."""
    graph = norms(count)
    z = replace(graph.nodes[1], name="z", inputs=("x", "k"), outputs=("z",))
    tensors = {**graph.tensors, "z": TensorSpec("z", "float32", (count, 2))}
    return replace(graph, nodes=[*graph.nodes, z], tensors=tensors, outputs=("y", "z"))


def judged(
    x: Any, faults: dict[str, tuple[int, float]] | None = None, make: Any = norms, **options: Any
) -> ReportDocument:
    """The report of reference and board; faults: tensor to the element that the board computes wrongly, and its factor."""
    x = np.array(x, np.float32)
    graph = make(len(x))

    def side(name: str, compute: Any, wrong: dict[str, tuple[int, float]]) -> Recording:
        values = {"x": x}
        for node in graph.nodes:
            values[node.name] = compute(node, values, graph).copy()
            if node.name in wrong:
                at, factor = wrong[node.name]
                values[node.name][at] *= np.float32(factor)
        shown = [node.name for node in graph.nodes]
        return Recording(
            name,
            "test",
            specs={n: graph.spec(n) for n in shown},
            finals=graph.outputs,
            tensors={n: values[n] for n in shown},
            capabilities=frozenset({"finals", "per_node"}),
            **({"runtime": "qvrt"} if name == "board" else {}),
        )

    def run(unit: Any, inputs: Any) -> dict[str, Any]:
        return {unit.name: onnxruntimes(unit.nodes[0], {**graph.constants, **inputs}, graph)}

    sides = {"reference": side("reference", onnxruntimes, {}), "board": side("board", ours, faults or {})}
    return judge_all(sides, graph, units(graph), Options(dump_all=True, **options), {"reference": run}, None, {"x": x})


def test_correct_hardware_passes_and_the_elements_are_counted() -> None:
    report = judged([HUGE, SMALL])
    assert report.verdict == "PASSED"
    assert f"1 {SAID}" in verdict_lines.render(report) and f"1 {SAID}" in terminal.render(report, ["y"])
    (found,) = to_json(report)["pairs"][0]["not_judged"]
    assert (found["tensor"], found["elements"], found["of"]) == ("n", 1, 2)


@pytest.mark.parametrize("fault", [("n", 0), ("n", 1), ("y", 0), ("y", 1)])
def test_a_fault_in_such_an_element_or_beside_it_fails(fault: tuple[str, int]) -> None:
    report = judged([HUGE, SMALL], {fault[0]: (fault[1], 1.0001)})
    assert report.verdict == "FAILED" and report.blame is not None and report.blame.node == fault[0]


def test_where_no_element_of_the_outputs_has_a_meaningful_reference_nothing_passed() -> None:
    report = judged([HUGE, HUGE])
    assert (report.verdict, report.pairs[0].cause) == ("INCONCLUSIVE", "not_judged")
    assert f"INCONCLUSIVE (2 {SAID}; cause: not_judged)" in verdict_lines.render(report)


def test_a_final_output_that_does_not_depend_on_such_a_tensor_is_judged() -> None:
    report = judged([HUGE, HUGE], make=beside)
    assert report.verdict == "PASSED" and f"2 {SAID}" in verdict_lines.render(report)


def test_what_fails_is_failed_though_nothing_has_a_meaningful_reference() -> None:
    report = judged([HUGE, HUGE], {"y": (1, 1.0001)})
    assert report.verdict == "FAILED" and report.pairs[0].not_judged and report.blame is not None
    assert report.blame.node == "y"


def test_strict_gives_the_literal_rule_back() -> None:
    assert judged([HUGE, SMALL], strict=True).verdict == "FAILED"


def test_infinities_on_both_sides_beside_it_are_still_inconclusive() -> None:
    """The norm of 3e38 and 3e38 is beyond float32 on every side."""
    rows = [HUGE, SMALL, [3e38, 3e38]]
    assert judged(rows).verdict == "INCONCLUSIVE" and judged(rows, nan_equal=True).verdict == "PASSED"
    assert judged(rows, {"n": (2, -1.0)}).verdict == "FAILED"  # the other infinity


def test_the_reason_is_the_arguments_size_where_a_function_is_periodic() -> None:
    (found,) = to_json(judged([2.0**21, 1.0], make=sines))["pairs"][0]["not_judged"]
    assert (found["tensor"], found["elements"]) == ("n", 1) and "beyond 2^20" in found["why"]


def test_underflow_of_squares_leaves_qverifys_own_sides_judged() -> None:
    """Divided by a norm that float32 squares make 0."""
    x = real([[[3e-30], [4e-30]]])
    (y,) = page("lp_norm", [x], (1, 2, 1, 2), (1, 2, 1))
    assert y.lost.all() and (y.error < 1e-6).all()
    (y,) = page("lp_norm", [real([[[3e-3], [4e-3]]])], (1, 2, 1, 2), (1, 2, 1))
    assert y.lost is None


@pytest.mark.parametrize(
    ("op", "words", "x", "wanted"),
    [
        ("reduce_float", (0, 2), [[1e38, 2e38], [1e38, 2e37]], [True, False]),
        ("reduce_float", (3, 2), [[1e30, 1e-30], [1e30, 1e10], [1e-30, 1e-30]], [False, True, False]),
        ("reduce_float", (6, 2), [[1e19, 1e19], [1e18, 1e18]], [True, False]),
        ("reduce_float", (8, 2), [[1e38, 2e38], [-3e38, 3e38]], [False, False]),
        ("reduce_mean", (2, 0, 0), [[1e38, 2e38], [1.0, 2.0]], [True, False]),
    ],
)
def test_which_elements_are_lost(op: str, words: tuple[int, ...], x: Any, wanted: list[bool]) -> None:
    (y,) = page(op, [real(x)], words, (len(x),))
    assert (np.zeros(len(x), bool) if y.lost is None else y.lost).tolist() == wanted


@pytest.mark.parametrize("words", [(2, word(1e-5)), (2, word(0.0))])
def test_rows_of_which_the_squares_overflow(words: tuple[int, ...]) -> None:
    x = real([[1e20, 2e20], [1.0, 2.0]])
    for op, more in (("layer_norm", [None, None]), ("rms_norm", [None])):
        (y,) = page(op, [x, *more], words, (2, 2))
        assert y.lost.tolist() == [[True, True], [False, False]] and (y.error < 1e-5).all(), op
    (y,) = page("group_norm", [real([[[1e20, 2e20], [1.0, 2.0]]]), None, None], words, (1, 2, 2))
    assert y.lost.tolist() == [[[True, True], [False, False]]]


def test_beyond_2_to_the_20_a_sine_of_ours_is_nan() -> None:
    for function in (53, 54, 55):
        (y,) = page("elementwise_float", [real([2.0**20, 2.0**20 + 1])], (function, 0, 0), (2,))
        assert y.lost.tolist() == [False, True] and np.isnan(y.value).tolist() == [False, True]


def test_steps_of_an_8_bit_softmax_that_overflow() -> None:
    y = TensorSpec("y0", "uint8", (1, 2, 1), scale=(1 / 256,), zero_point=(0,))
    table = np.full(256, 3e36, np.float32)
    (found,) = page("softmax", [whole([[[7], [8]]]), real(table)], (1, 2, 1, word(256)), y)
    assert found.lost.all() and (found.low == 255).all()
    (found,) = page("softmax", [whole([[[7], [8]]]), real(table / 1e3)], (1, 2, 1, word(256)), y)
    assert found.lost is None


def test_what_is_lost_is_carried_to_what_reads_it_and_no_further() -> None:
    """sum -> relu -> quantize in one unit."""
    x = np.array([[2e38, 2e38, -3e38], [1.0, 2.0, 3.0]], np.float32)
    specs = {n: TensorSpec(n, "float32", (2,), interior=True) for n in ("s", "r")}
    specs |= {
        "x": TensorSpec("x", "float32", x.shape),
        "y": TensorSpec("y", "int8", (2,), scale=(0.5,), zero_point=(0,)),
    }
    nodes = [
        Node("s", "reduce_float", ("x",), ("s",), (0, 2)),
        Node("r", "elementwise_float", ("s",), ("r",), (16, 0, 0)),
        Node("y", "quantize", ("r",), ("y",)),
    ]
    graph = Graph(nodes, specs, {}, ("x",), ("y",))
    (unit,) = units(graph)
    ((_, y),) = evaluate_unit(unit, "y", graph, {"x": x}, np.arange(2))
    assert y.lost is not None and y.lost.tolist() == [True, False]


def test_qverifys_own_sides_keep_their_limit_through_a_quantizer() -> None:
    """A sum of 4,096 products that the reference may have wrong by several steps, and qverify's own sides by none."""
    a, b = np.ones((1, 4096), np.float32), np.full((4096, 1), 1.00001, np.float32)
    specs = {
        "a": TensorSpec("a", "float32", a.shape),
        "b": TensorSpec("b", "float32", b.shape),
        "m": TensorSpec("m", "float32", (1, 1), interior=True),
        "r": TensorSpec("r", "float32", (1, 1), interior=True),
        "y": TensorSpec("y", "int16", (1, 1), scale=(0.13,), zero_point=(0,)),
    }
    nodes = [
        Node("m", "matmul_float", ("a", "b", None), ("m",), (0, 0, word(1.0), word(1.0)), (), False),
        Node("r", "elementwise_float", ("m",), ("r",), (16, 0, 0), (), False),
        Node("y", "quantize", ("r",), ("y",), (), (), False),
    ]
    graph = Graph(nodes, specs, {"b": b}, ("a",), ("y",))
    (unit,) = units(graph)
    ((_, y),) = evaluate_unit(unit, "y", graph, {"a": a}, np.arange(1))
    right = int(np.rint(np.float32(np.float64(b).sum()) / np.float32(0.13)))
    assert y.high[0, ...] - y.low[0, ...] >= 10
    assert y.ours is not None and [v.tolist() for v in y.ours] == [[right], [right]]


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("quantized", [False, True])
def test_a_reference_whose_error_has_no_limit_lets_no_wrong_board_pass(depth: int, quantized: bool) -> None:
    """The variance of a huge row may be 0 for a side that adds in another order: the reference's error is infinite, that of
    qverify's own sides is not."""
    rows = [[1e20], [3.0]] if depth == 1 else [[1e20, 1.00001e20, 1e20], [1.0, 2.0, 4.0]]
    x = np.array(rows, np.float32)
    specs = {n: TensorSpec(n, "float32", x.shape) for n in "xn"}
    specs["y"] = TensorSpec("y", "int8", x.shape, scale=(0.02,), zero_point=(0,))
    nodes = [
        Node("n", "layer_norm", ("x", None, None), ("n",), (depth, word(1e-5)), (), False),
        Node("y", "quantize", ("n",), ("y",), (), (), False),
    ]
    last = "y" if quantized else "n"
    graph = Graph(nodes[: 1 + quantized], specs, {}, ("x",), (last,))
    values = {"x": x}
    for node in graph.nodes:
        values |= simulate_node(graph, node, values)
    unit = Unit("u", "layer_norm", tuple(graph.nodes), ("x",), (last,), False)
    plain = limit_for(unit, last, graph)

    def check(board: Any) -> Any:
        reference = values[last].copy()
        reference.reshape(-1)[:depth] = 0
        exact = ExactUnit(unit, last, graph, {"x": x})
        return check_both(exact, reference, board, choose_tie_aware_limit(plain, unit, last, graph)[0], plain)

    found = check(values[last])
    assert isinstance(found, TieAwareResult) and found.holds and found.lost == (depth if depth > 1 else 0)
    wrong = values[last].copy()
    wrong.reshape(-1)[0] += 50
    found = check(wrong)
    assert isinstance(found, TieAwareResult) and not found.holds and found.where == 0


def test_what_depends_on_them_through_a_host_island_does_too() -> None:
    graph = norms()
    island = HostIsland(("n",), (), ("h",), (), (HostNode("d", "Det", ""),))
    y = replace(graph.nodes[1], inputs=("h", "k"))
    specs = {**graph.tensors, "h": TensorSpec("h", "float32", (2,))}
    graph = replace(graph, nodes=[graph.nodes[0], y], tensors=specs, islands=(island,))
    forced = {"n": Forced("PASSED", 0, 0, not_judged=1)}
    assert find_after_meaningless(graph, units(graph), forced) == {"n", "h", "y"}


def test_a_lost_row_widens_the_limit_of_no_other() -> None:
    """The second row has a wide bound (a large mean beside a small deviation), within which the reference may be; the board
    must have the exact value, rounded once."""
    x = np.array([[1e20, 2e20, 4e20], [126.0, 126.5, 127.0]], np.float32)
    specs = {n: TensorSpec(n, "float32", x.shape) for n in "xn"}
    graph = Graph(
        [Node("n", "layer_norm", ("x", None, None), ("n",), (3, word(1e-5)), (), False)], specs, {}, ("x",), ("n",)
    )
    (unit,) = units(graph)
    healthy = simulate_node(graph, graph.nodes[0], {"x": x})["n"]
    plain, exact = limit_for(unit, "n", graph), ExactUnit(unit, "n", graph, {"x": x})
    slightly, far = 1 + 2.0**-12, 1.5
    for reference, board, holds in (
        (1, 1, True),
        (slightly, 1, True),
        (far, 1, False),
        (1, slightly, False),
        (1, 1 + 2.0**-22, False),
    ):
        sides = [healthy.copy(), healthy.copy()]
        for side, factor in zip(sides, (reference, board), strict=True):
            side[1, 0] *= np.float32(factor)
        found = check_both(exact, *sides, choose_tie_aware_limit(plain, unit, "n", graph)[0], plain)
        assert isinstance(found, TieAwareResult) and found.holds is holds, (reference, board)


def test_a_norm_without_a_bound_keeps_its_plain_limit() -> None:
    """The deviation may be 0 in float32: no error is known of either side, and 2^-18 of the largest value is the limit."""
    x = np.array([[1e6, 1e6 + 0.0625, 1e6 - 0.0625]], np.float32)
    specs = {n: TensorSpec(n, "float32", x.shape) for n in "xn"}
    node = Node("n", "layer_norm", ("x", None, None), ("n",), (3, word(1e-12)), (), False)
    graph = Graph([node], specs, {}, ("x",), ("n",))
    (unit,) = units(graph)
    healthy = simulate_node(graph, node, {"x": x})["n"]
    plain, exact = limit_for(unit, "n", graph), ExactUnit(unit, "n", graph, {"x": x})
    board = healthy * np.float32(1 + 2.0**-20)
    found = check_both(exact, healthy, board, choose_tie_aware_limit(plain, unit, "n", graph)[0], plain)
    assert (
        isinstance(found, Limit) and found.share == plain.share and "2 elements, whose error has no limit" in found.text
    )
