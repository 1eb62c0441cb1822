"""Tests that reductions, norms and recurrences of floats are held to the error that their sums have, in any order of a kernel,
and that differences below the last decimal of the gate are found if all lie on one side."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.compare.error_bounds.probable import bound_product, probable_errors
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.float_functions import REDUCTIONS
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.report.document import ReportDocument
from qverify.sides.reference import Reference
from qverify.sides.simulator import Simulator
from qverify.tensors.spec import TensorSpec

from tests.plain.error_pages import word
from tests.plain.fused_boards import record_runner
from tests.plain.test_probable_errors_of_sums import in_blocks, in_order, judged, side_by_side

Array = Any
COUNT = 4096


def random(rows: int, seed: int = 5, spread: float = 1.0, around: float = 0.0, count: int = COUNT) -> Array:
    return (np.random.default_rng(seed).normal(size=(rows, count)) * spread + around).astype(np.float32)


def graph_of(op: str, x: Array, words: tuple[int, ...], shape: tuple[int, ...], more: dict[str, Array] | None = None):
    specs = {"x": TensorSpec("x", "float32", x.shape), "y": TensorSpec("y", "float32", shape)}
    specs |= {n: TensorSpec(n, "float32", v.shape) for n, v in (more or {}).items()}
    return Graph([Node("y", op, ("x", *(more or {})), ("y",), words)], specs, more or {}, ("x",), ("y",))


def verdict_of(graph: Graph, x: Array, recorded: Array, exact: Array):
    return judged(graph, x, np.asarray(recorded, np.float32), np.asarray(exact, np.float32))


def running(x: Array, drift: float = 0.0) -> Array:
    """Returns running sums in float32, of which each step adds a little too much."""
    return np.cumsum(x, 1, np.float32) + np.float32(drift) * np.arange(1, x.shape[1] + 1, dtype=np.float32)


def scanned(x: Array, block: int) -> Array:
    """Returns running sums of blocks, to each of which the sum of the blocks before is added."""
    inner = np.cumsum(x.reshape(len(x), -1, block), 2, np.float32)
    carried = np.cumsum(inner[:, :, -1], 1, np.float32)
    inner[:, 1:] += carried[:, :-1, None]
    return inner.reshape(x.shape)


@pytest.mark.parametrize("around", [0.0, 0.3, 5.0])
def test_running_sums_in_any_order_are_right_and_a_drift_is_not(around: float) -> None:
    x = random(2, around=around)
    graph, exact = graph_of("cum_sum", x, (1, 0, 0), x.shape), np.cumsum(x.astype(np.float64), 1)
    for right in (running(x), scanned(x, 64), scanned(x, 512), exact):
        assert verdict_of(graph, x, right, exact).verdict == "PASSED"
    found = verdict_of(graph, x, running(x, 0.1 / COUNT * (1 + 5 * around)), exact)
    assert (found.verdict, found.at_fault) == ("FAILED", "board") and "all 8192 too high" in found.why


def test_running_sums_that_cancel_are_held_to_their_partial_sums() -> None:
    x = np.concatenate([np.full((2, 2048), 7.3), np.full((2, 2048), -7.3)], 1).astype(np.float32)
    graph, exact = graph_of("cum_sum", x, (1, 0, 0), x.shape), np.cumsum(x.astype(np.float64), 1)
    assert verdict_of(graph, x, running(x), exact).verdict == "PASSED"


@pytest.mark.parametrize(("power", "verdict"), [(1, "INCONCLUSIVE"), (2, "FAILED")])  # 1: all below the fifth decimal
def test_a_norm_that_leaves_out_its_last_element(power: int, verdict: str) -> None:
    x = random(3)
    x[:, -1] = 4.0
    graph = graph_of("lp_norm", x, (3, COUNT, 1, power), x.shape)

    def by(norm: Array) -> Array:
        return x.astype(np.float64) / norm[:, None]

    terms = np.abs(x.astype(np.float64)) ** power
    exact = by(terms.sum(1) ** (1 / power))
    for order in (in_order, lambda t: side_by_side(t, 16), lambda t: in_blocks(t, 128)):
        assert verdict_of(graph, x, by(order(terms).astype(np.float64) ** (1 / power)), exact).verdict == "PASSED"
    found = verdict_of(graph, x, by(terms[:, :-1].sum(1) ** (1 / power)), exact)
    assert (found.verdict, found.at_fault) == (verdict, "board" if verdict == "FAILED" else "")


@pytest.mark.parametrize("name", ["log_sum_exp", "prod"])
def test_other_reductions(name: str) -> None:
    rows = 16
    x = random(rows) if name == "log_sum_exp" else random(rows, spread=0.02, around=1.0, count=2000)
    graph = graph_of("reduce_float", x, (REDUCTIONS.index(name), 2), (rows, 1))
    if name == "log_sum_exp":
        largest = x.max(1, keepdims=True)
        exact = np.log(np.exp((x - largest).astype(np.float64)).sum(1, keepdims=True)) + largest
        right = np.log(in_order(np.exp(x - largest)))[:, None] + largest
    else:
        exact = x.astype(np.float64).prod(1, keepdims=True)
        right = np.multiply.accumulate(x, 1, np.float32)[:, -1:]
    assert verdict_of(graph, x, right, exact).verdict == "PASSED"
    found = verdict_of(graph, x, exact * (1 + 1e-4), exact)
    assert (found.verdict, found.at_fault, found.unexplained) == ("FAILED", "board", rows)


def test_the_error_of_a_product_is_measured_on_its_factors() -> None:
    rows = np.full((2, 1000), 1 + 3 * 2.0**-24 + 2.0**-13)
    with probable_errors() as allowed:
        drifting = bound_product(1001, np.ones(2), lambda: rows)
        plain = bound_product(
            1001, np.ones(2), lambda: random(2, spread=0.1, around=1.0, count=1000).astype(np.float64)
        )
    assert allowed.used and (plain < bound_product(1001, np.ones(2), lambda: rows) / 2).all()
    exact, made = rows.prod(1), np.multiply.accumulate(rows.astype(np.float32), 1, np.float32)[:, -1]
    assert (np.abs(made / exact - 1) < drifting + 1001 * np.abs(rows.astype(np.float32) / rows - 1).max()).all()


def rolled(x: Array, size: int, alpha: float) -> Array:
    """Returns a local response normalization whose sum of squares is carried from channel to channel, in float32."""
    padded = np.pad(np.square(x), ((0, 0), (size // 2, size // 2), (0, 0), (0, 0)))
    total, sums = np.zeros_like(x[:, 0]), []
    for at in range(x.shape[1] + size - 1):
        total = total + padded[:, at] - (padded[:, at - size] if at >= size else np.float32(0))
        sums += [total] if at >= size - 1 else []
    return x / (np.float32(2) + np.float32(alpha / size) * np.stack(sums, 1)) ** np.float32(0.75)


def test_a_local_response_normalization() -> None:
    size, alpha = 5, 0.5
    x = random(1, count=64 * 36).reshape(1, 64, 6, 6) * np.float32(3)
    graph = graph_of("lrn", x, (size, word(alpha), word(0.75), word(2.0)), x.shape)
    squares = np.pad(x.astype(np.float64) ** 2, ((0, 0), (2, 2), (0, 0), (0, 0)))
    total = np.lib.stride_tricks.sliding_window_view(squares, size, 1).sum(-1)
    exact = x / (2 + alpha / size * total) ** 0.75
    assert verdict_of(graph, x, rolled(x, size, alpha), exact).verdict == "PASSED"
    assert verdict_of(graph, x, exact + 4e-5, exact).verdict == "FAILED"


def softmax_of(x: Array, left_out: int) -> Array:
    powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return powers / powers[:, : COUNT - left_out].sum(1, keepdims=True)


def test_a_softmax_whose_sum_lacks_its_tail_is_open_although_five_decimals_hold() -> None:
    x = random(4)
    x[:, -1] = np.float32(0.4)
    graph, exact = graph_of("softmax_float", x, (4, COUNT, 1), x.shape), softmax_of(x, 0)
    powers = np.exp(x - x.max(1, keepdims=True))
    assert verdict_of(graph, x, powers / in_order(powers)[:, None], exact).verdict == "PASSED"
    found = verdict_of(graph, x, softmax_of(x, 1), exact)
    assert (found.verdict, found.at_fault) == ("INCONCLUSIVE", "")
    assert "all farther from zero, each by less than half a unit of the last decimal (5e-06)" in found.why
    both = exact * (1 + 1e-4 * np.where(np.arange(COUNT) % 2, 1, -1))  # another precision errs to both sides
    assert verdict_of(graph, x, both, exact).verdict == "PASSED"


def layer_norm(x: Array, how: str) -> Array:
    """Returns a normalization of rows in float32: in two passes, by Welford's update, in one pass, or wrong."""
    count = np.float32(x.shape[1])
    if how == "welford":
        mean, total = np.zeros(len(x), np.float32), np.zeros(len(x), np.float32)
        for at, column in enumerate(x.T, 1):
            delta = column - mean
            mean = mean + delta / np.float32(at)
            total = total + delta * (column - mean)
        variance = total / count
    else:
        mean = in_order(x) / count
        centred = x - mean[:, None]
        variance = in_order(centred * centred) / count
        if how == "one pass":
            variance = in_order(x * x) / count - mean * mean
    y = (x - mean[:, None]) / np.sqrt(variance + np.float32(1e-5))[:, None]
    return y * np.float32(1.5 if how == "half as much again" else 1.0)


@pytest.mark.parametrize(
    ("how", "verdict"),
    [
        ("two passes", "PASSED"),
        ("welford", "PASSED"),
        ("one pass", "INCONCLUSIVE"),
        ("half as much again", "INCONCLUSIVE"),
    ],
)
def test_a_normalization_far_from_zero(how: str, verdict: str) -> None:
    x = random(6, spread=0.3, around=50.0, count=768)
    ones = np.ones(768, np.float32)
    graph = graph_of("layer_norm", x, (768, word(1e-5)), x.shape, {"g": ones, "b": 0 * ones})
    wide = x.astype(np.float64)
    exact = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    found = verdict_of(graph, x, layer_norm(x, how), exact)
    assert (found.verdict, found.at_fault) == (verdict, "")
    assert verdict == "PASSED" or "more than two passes err" in found.why


def recurrent(kind: str, inputs: int = 48, hidden: int = 24, steps: int = 6) -> bytes:
    """Returns an ONNX of a recurrence whose last states have no names."""
    rng, gates = np.random.default_rng(2), {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    shapes = {"w": (1, gates * hidden, inputs), "r": (1, gates * hidden, hidden), "b": (1, 2 * gates * hidden)}
    constants = {n: (rng.normal(size=s) * 0.3).astype(np.float32) for n, s in shapes.items()}
    constants |= {"s": np.float32(0.02), "z": np.int8(0)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["x_q"]),
        helper.make_node("DequantizeLinear", ["x_q", "s", "z"], ["x_dq"]),
        helper.make_node(kind, ["x_dq", "w", "r", "b"], ["h"], hidden_size=hidden, name="cell"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (steps, 1, inputs))
    h = helper.make_tensor_value_info("h", TensorProto.FLOAT, (steps, 1, 1, hidden))
    graph = helper.make_graph(nodes, "g", [x], [h], [numpy_helper.from_array(v, n) for n, v in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def report_of(kind: str, off: float) -> ReportDocument:
    """Returns the report on a runner that gives the recurrence's y, a little too high, and not its last states."""
    model = recurrent(kind)
    onnx.checker.check_model(onnx.ModelProto.FromString(model))
    compiled = compile_model(model, "q.onnx", CompilerOptions(check=False))
    graph = compiled.graph
    prepared = prepared_inputs(graph, InputRequest(seed=5))
    simulator = Simulator(graph)
    sides = {
        "reference": Reference(compiled.integer_onnx, graph, model).run(prepared),
        "simulator": simulator.run(prepared),
    }
    shown = {n: np.array(sides["reference"].tensors[n]) for n in ("x_q", "h")}
    shown["h"] = shown["h"] + np.float32(off)
    sides["board"] = record_runner(graph, shown)
    made = [n for n in graph.observable() if n not in ("x_q", "h")]
    runs = {"reference": Reference(compiled.integer_onnx, graph, model).run_unit, "simulator": simulator.run_unit}
    return judge_all(
        sides, graph, units(graph), Options(dump_all=True), runs, None, prepared.arrays(), recomputes=True, made=made
    )


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_recurrence_is_judged_by_its_y_where_its_last_states_have_no_names(kind: str) -> None:
    right, wrong = report_of(kind, 0.0), report_of(kind, 4e-5)
    assert not right.blamed and right.pairs[-1].verdict == "PASSED"
    assert [b.node for b in wrong.blamed] == ["h"] and wrong.pairs[-1].cause == "node"
    forced = next(row.forced for row in wrong.pairs[-1].tensors if row.name == "h")
    assert forced is not None and forced.verdict == "FAILED" and "all 144 too high by" in forced.why
