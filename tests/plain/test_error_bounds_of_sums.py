"""The error bounds of integer sums that the reference makes in float32, and of tables after them (NUMERICS.md section 4)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from qverify.compare.error_bounds import chain, integer_sums
from qverify.compare.error_bounds.bounded_values import NoBound, Real, Whole
from qverify.compare.error_bounds.chain import evaluate_unit, explain_missing_evaluation
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.tensors.spec import TensorSpec

from tests.plain.error_pages import FLUSHED, g

X = np.array([[100, -50, 7]], np.int16)
W = np.array([[3, 4, 5], [-6, 2, 9]], np.int8)
B = np.array([1000, -1000], np.int32)
S = np.array([0.125, 0.25])  # LSB of the output a product


def quantized(name, dtype, shape, scale=0.5, zero=0):
    return TensorSpec(name, dtype, shape, scale=(scale,), zero_point=(zero,))


def layer(bias=True, per_channel=True, table=None, zero=10, limits=(-32768, 32767), rounding="ref-exact"):
    """y = (x - 2) . (w - 1) + b, of 16 bits; after it a table where one is given."""
    made = "y" if table is None else "sum"
    tensors = {
        "x": quantized("x", "int16", (1, 3), zero=2),
        "w": quantized("w", "int8", (2, 3), zero=1),
        "b": TensorSpec("b", "int32", (2,)),
        "rq": TensorSpec("rq", "float64", (2,)),
        made: TensorSpec(
            made, "int16" if table is None else "int8", (1, 2), scale=(1.0,), zero_point=(zero,), interior=made != "y"
        ),
    }
    scale = S if per_channel else S[:1]
    nodes = [Node(made, "fully_connected", ("x", "w", "b" if bias else None, "rq"), (made,), limits, (), False)]
    constants = {"w": W, "b": B, "rq": scale if rounding == "ref-exact" else np.array([1, 2], np.int32)}
    if table is not None:
        tensors |= {"t": TensorSpec("t", "int8", (256,)), "y": quantized("y", "int8", (1, 2))}
        nodes.append(Node("y", "lookup", ("sum", "t"), ("y",), (), (), False))
        constants["t"] = table
    return Graph(nodes, tensors, constants, ("x",), ("y",), rounding)


def made(graph, at=(0, 1), given=None):
    (unit,) = units(graph)
    return list(evaluate_unit(unit, "y", graph, {"x": X} if given is None else given, np.array(at)))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("per_channel", [True, False])
def test_a_layer_of_16_bits(bias, per_channel):
    ((at, y),) = made(layer(bias, per_channel))
    terms = (X.astype(float) - 2) * (W.astype(float) - 1)
    biases = B if bias else np.zeros(2)
    scale = S if per_channel else S[[0, 0]]
    value = (terms.sum(1) + biases) * scale
    error = g(3 + 8) * (np.abs(terms).sum(1) + np.abs(biases)) * scale + (scale / 2 if bias else 0)
    assert at.tolist() == [0, 1] and y.error.tolist() == pytest.approx(error.tolist(), rel=1e-12, abs=0)
    assert y.low.tolist() == np.ceil(value - error - 0.5).astype(int).__add__(10).tolist()
    assert y.high.tolist() == np.floor(value + error + 0.5).astype(int).__add__(10).tolist()
    assert y.ours[0].tolist() == np.ceil(value - 0.5).astype(int).__add__(10).tolist()  # some are exact ties
    assert y.ours[1].tolist() == np.floor(value + 0.5).astype(int).__add__(10).tolist()


def test_our_own_sums_leave_both_integers_open_at_an_exact_tie_only():
    graph = layer(bias=False)
    for last, low, high in ((0.5, 0, 1), (0.5 + 2.0**-29, 1, 1), (0.5 - 2.0**-29, 0, 0), (0.5 + 2.0**-30, 0, 1)):
        graph.constants["rq"] = np.array([last / 10.0, 1.0])
        graph.constants["w"] = np.array([[1, 1, 3], [1, 1, 1]], np.int8)
        ((_, y),) = made(graph, (0,), {"x": X})  # one term is left: 5 * 2
        assert (y.ours[0][0] - 10, y.ours[1][0] - 10) == (low, high), last


def test_what_the_node_clips_is_clipped():
    ((_, y),) = made(layer(limits=(0, 5), zero=0))
    assert all(set(v.tolist()) <= {0, 5} for v in (y.low, y.high, *y.ours))


def test_a_few_elements_at_a_time(monkeypatch):
    monkeypatch.setattr(integer_sums, "TERMS_AT_ONCE", 3)
    parts = made(layer(), (1, 0))
    ((_, all_at_once),) = (monkeypatch.undo(), made(layer(), (1, 0)))[1]
    assert [at.tolist() for at, _ in parts] == [[1], [0]]
    assert [y.low[0] for _, y in parts] == all_at_once.low.tolist()


def table_of(function):
    return np.array([function(v) for v in range(-128, 128)], np.int8)


def test_a_table_is_look_up_at_both_ends():
    """The value of element 0 is open by one step: 12.5 LSB."""
    rising, falling = table_of(lambda v: v // 2), table_of(lambda v: -v // 2)
    humped = table_of(lambda v: -abs(v - 12) // 2)
    for table in (rising, falling, humped):
        graph = layer(bias=False, zero=0, table=table, limits=(-128, 127))
        graph.constants["rq"] = np.array([1.25, 0.01])
        graph.constants["w"] = np.array([[1, 1, 3], [1, 1, 3]], np.int8)  # sums of 10
        ends = sorted(int(table[128 + v]) for v in (12, 13))
        if table is humped:
            with pytest.raises(NoBound, match="rises and falls"):
                made(graph)
            ((_, y),) = made(graph, (1,))
            assert y.low.tolist() == y.high.tolist() == [-6]
            continue
        ((_, y),) = made(graph)
        assert [y.low[0], y.high[0]] == ends and [y.ours[0][0], y.ours[1][0]] == ends
        assert y.low[1] == y.high[1] == table[128] and (y.error > 0).all()


def test_a_table_is_entered_by_the_type_of_its_input():
    graph = layer(bias=False, zero=0, table=np.arange(-128, 128).astype(np.int8), limits=(0, 255))
    graph.tensors["sum"] = replace(graph.tensors["sum"], dtype="uint8")
    graph.constants["rq"] = np.array([1.2, 12.0])
    graph.constants["w"] = np.array([[1, 1, 3], [1, 1, 3]], np.int8)  # sums of 10
    ((_, y),) = made(graph)
    assert y.low.tolist() == y.high.tolist() == [12 - 128, 120 - 128]


def test_a_table_after_what_every_side_computes_alike():
    found = chain.look_up(Whole(np.array([3]), np.array([3])), table_of(lambda v: v + 1 if v < 127 else v), "int8")
    assert found.low.tolist() == [4] and found.ours is None and found.error is None


def test_what_has_no_float64_evaluation():
    assert explain_missing_evaluation(units(layer())[0], layer()) == ""
    graph = layer(rounding="mul15")
    assert (
        explain_missing_evaluation(units(graph)[0], graph)
        == "no float64 evaluation of fully_connected with mul15's multipliers"
    )
    with pytest.raises(NoBound, match="fully_connected with the multipliers of mul15"):
        made(graph)
    graph = layer(table=table_of(lambda v: v))
    assert explain_missing_evaluation(units(graph)[0], graph) == ""
    graph.nodes[1] = Node("y", "batch_norm", ("sum", "t"), ("y",), (), (), False)
    assert explain_missing_evaluation(units(graph)[0], graph) == "no float64 evaluation of batch_norm"
    graph.nodes[1] = Node("y", "softmax", ("sum", "t"), ("y",), (), (), False)
    assert explain_missing_evaluation(units(graph)[0], graph) == "no float64 evaluation of softmax here"
    graph = layer()
    graph.constants["rq"] = S.astype(np.float32)
    assert "no float64 evaluation of fully_connected with" in explain_missing_evaluation(units(graph)[0], graph)


def test_the_elements_asked_for_and_no_others():
    tensors = {"x": TensorSpec("x", "float32", (2, 3)), "y": TensorSpec("y", "float32", (3, 2))}
    graph = Graph([Node("y", "transpose", ("x",), ("y",), (1, 0), (), False)], tensors, {}, ("x",), ("y",))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    ((at, y),) = evaluate_unit(units(graph)[0], "y", graph, {"x": x}, np.array([1, 4]))
    assert isinstance(y, Real) and at.tolist() == [1, 4] and y.value.tolist() == [3, 2] and y.error.tolist() == [0, 0]


def two_operands(op, x, y, rq, shape=(1, 3)):
    tensors = {
        "a": quantized("a", "int16", (1, 3), zero=1),
        "b": quantized("b", "int16", (1, 1), zero=-1),
        "rq": TensorSpec("rq", "float64", rq.shape),
        "y": quantized("y", "int16", shape),
    }
    node = Node("y", op, ("a", "b", "rq"), ("y",), (-32768, 32767), (), False)
    graph = Graph([node], tensors, {"rq": rq}, ("a", "b"), ("y",))
    ((_, found),) = evaluate_unit(units(graph)[0], "y", graph, {"a": x, "b": y}, np.arange(3))
    return found


def test_add_and_mul_of_16_bits():
    a, b = np.array([[101, -49, 8]], np.int16), np.array([[39]], np.int16)
    y = two_operands("add", a, b, np.array([0.5, -0.25]))
    assert y.low.tolist() == [40, -35, -7] == y.ours[0].tolist() and y.high.tolist() == [40, -35, -6]
    assert y.error.tolist() == pytest.approx([g(10) * v for v in (50 + 10, 25 + 10, 3.5 + 10)], rel=1e-12, abs=0)
    y = two_operands("mul", a, b, np.array([0.01]))
    assert y.low.tolist() == [40, -20, 3] == y.high.tolist()
    assert y.error.tolist() == pytest.approx([g(9) * v for v in (40, 20, 2.8)], rel=1e-12, abs=0)
    with pytest.raises(NoBound, match="add in float32"):
        two_operands("add", a, b, np.array([0.5]))


def pooled(op, words, x, rq, shape):
    tensors = {
        "x": quantized("x", "int16", x.shape, zero=5),
        "rq": TensorSpec("rq", "float64", rq.shape),
        "y": quantized("y", "int16", shape),
    }
    node = Node("y", op, ("x", "rq"), ("y",), (*words, -32768, 32767), (), False)
    graph = Graph([node], tensors, {"rq": rq}, ("x",), ("y",))
    ((_, found),) = evaluate_unit(units(graph)[0], "y", graph, {"x": x}, np.arange(np.prod(shape)))
    return found


def test_means_of_16_bits():
    x = (np.arange(12).reshape(1, 2, 2, 3) ** 2 * 3 - 50).astype(np.int16)
    centred = x.astype(float) - 5
    for op, words, scale, shape, axes in (
        ("global_average_pool", (), 0.5, (1, 2, 1, 1), (2, 3)),
        ("reduce_mean", (0b1010,), 0.5, (1, 1, 2, 1), (1, 3)),
    ):
        y = pooled(op, words, x, np.array([scale]), shape)
        count = np.prod([x.shape[i] for i in axes])
        exact = centred.sum(axes).ravel() * scale
        assert y.ours[0].tolist() == np.ceil(exact - 0.5 - 1e-6).tolist()
        assert y.error.tolist() == pytest.approx((g(count + 8) * np.abs(centred).sum(axes).ravel() * scale).tolist())


def test_average_pool_divides_by_the_taps_that_are_there():
    x = np.array([[[[6, 7, 8], [9, 10, 11]]]], np.int16)
    words = (2, 2, 1, 2, 0, 1, 0, 0)
    for include, wanted in ((0, [(1 + 4) / 2, (2 + 3 + 5 + 6) / 4]), (1, [(1 + 4) / 4, 4.0])):
        y = pooled("average_pool", (*words, include), x, np.array([8.0]), (1, 1, 1, 2))
        assert y.ours[0].tolist() == [8 * v for v in wanted]
        assert y.error.tolist() == pytest.approx([g(4 + 8) * 8 * v for v in wanted], rel=1e-9, abs=0)
    row = pooled("average_pool", (1, 2, 1, 2, 0, 3, 0, 0, 0), x[:, :, :1], np.array([8.0]), (1, 1, 1, 3))
    assert row.ours[0].tolist() == row.ours[1].tolist() == [0, 8, 20]  # no tap, one, two
    with pytest.raises(NoBound, match="average_pool in float32"):
        pooled("average_pool", (*words, 0), x, np.array([8.0, 1.0]), (1, 1, 1, 2))


@pytest.mark.parametrize(
    ("op", "x", "w", "y", "terms"),
    [
        ("fully_connected", (1, 12), (5, 12), (1, 5), 12),
        ("conv", (1, 4, 9, 9), (6, 4, 3, 2), (1, 6, 7, 8), 24),
        ("conv_transpose", (1, 4, 9, 9), (4, 6, 3, 2), (1, 6, 11, 10), 24),
        ("matmul", (3, 7, 5), (3, 5, 2), (3, 7, 2), 5),
        ("global_average_pool", (2, 3, 4, 5), None, (2, 3, 1, 1), 20),
        ("add", (3, 4), (1, 4), (3, 4), 1),
    ],
)
def test_how_many_terms_an_element_has(op, x, w, y, terms):
    """What decides how many elements are made at once, so that memory stays bounded."""
    shapes = {"x": x, "y": y} | ({} if w is None else {"w": w})
    tensors = {n: TensorSpec(n, "int16", shape) for n, shape in shapes.items()}
    node = Node("y", op, ("x",) if w is None else ("x", "w"), ("y",))
    assert (
        integer_sums.terms_of(integer_sums.SumOperands(node, Graph([node], tensors, {}, ("x",), ("y",)), {})) == terms
    )


def test_of_zeros_beside_a_float_output_only_what_is_flushed_remains():
    graph = layer(bias=False)
    graph.tensors["y"] = TensorSpec("y", "float32", (1, 2))
    graph = replace(graph, nodes=[replace(graph.nodes[0], inputs=("x", "w", None, "rq"))])
    ((_, y),) = made(graph, given={"x": np.full((1, 3), 2, np.int16)})  # x is its zero point
    assert y.value.tolist() == [0.0, 0.0]
    assert y.error.tolist() == [pytest.approx(5 * FLUSHED, rel=1e-6, abs=0)] * 2
    assert y.ours.tolist() == [pytest.approx(FLUSHED, rel=1e-6, abs=0)] * 2


def test_at_most_4_million_terms_are_held_at_once():
    tensors = {"x": quantized("x", "int16", (1, 2, 1 << 11, 1 << 10)), "y": quantized("y", "int16", (1, 2, 1, 1))}
    tensors["rq"] = TensorSpec("rq", "float64", (1,))
    node = Node("y", "global_average_pool", ("x", "rq"), ("y",), (-32768, 32767), (), False)
    graph = Graph([node], tensors, {"rq": np.array([2.0**-20])}, ("x",), ("y",))
    (unit,) = units(graph)
    x = np.broadcast_to(np.int16(3), tensors["x"].shape)
    at, y = next(evaluate_unit(unit, "y", graph, {"x": x}, np.array([1, 0, 1])))
    assert at.tolist() == [1, 0] and [v.tolist() for v in y.ours] == [[6, 6]] * 2
