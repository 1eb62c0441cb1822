"""A node without an integer reference may be 1 LSB off at a tie of its exact value, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qverify.compare.error_bounds.bounded_values import Real
from qverify.compare.error_bounds.chain import evaluate_unit
from qverify.compare.limits import BITS, Limit, limit_for
from qverify.compare.options import Options
from qverify.compare.tie_aware import LIMIT_OF_FLOATS, LIMIT_OF_INTEGERS, ExactUnit, check_both, choose_tie_aware_limit
from qverify.compare.verdict import judge_all
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.report.document import Forced
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

from tests.plain.error_pages import FLUSHED, U, g, rounded

X = np.array([1.0, 1.1, 3.125, 3.2, 30.0, -30.0, 0.0, 2.0], np.float32)
AT_TIE, AWAY, AT_END = 2, 3, 4  # 4 * 3.125 = 12.5 LSB, 12.8 LSB, beyond the type
WORDS = {"add": (0, 0, 0), "pow": (6, int(np.float32(0.4).view(np.int32)), 0)}


def graph_of(dtype: str = "int8", op: str = "elementwise_float", rounding: str = "ref-exact") -> Graph:
    """y = quantize(x + x), scale 0.5: exact values of 4 * x LSB."""
    tensors = {
        "x": TensorSpec("x", "float32", X.shape),
        "sum": TensorSpec("sum", "float32", X.shape, interior=dtype != "float32"),
        "k": TensorSpec("k", "float32", (1,)),
    }
    inputs = ("x", "x") if op == "elementwise_float" else ("x", "k", "k")
    nodes = [Node("sum", op, inputs, ("sum",), WORDS["add"] if op == "elementwise_float" else (), (), False)]
    if dtype != "float32":
        tensors["y"] = TensorSpec("y", dtype, X.shape, scale=(0.5,), zero_point=(0,))
        nodes.append(Node("y", "quantize", ("sum",), ("y",)))
    last = nodes[-1].name
    return Graph(nodes, tensors, {"k": np.ones(1, np.float32)}, ("x",), (last,), rounding)


def forced(graph: Graph, made: Any, recorded: Any, x: Any = X, runtime: str = "qvrt", by: str = "qvrt") -> Forced:
    """The forced verdict of the one unit: the reference makes `made`, the board recorded `recorded`."""
    name = graph.outputs[0]

    def side(label: str, value: Any, **more: Any) -> Recording:
        return Recording(
            label,
            "test",
            specs={name: graph.spec(name)},
            finals=graph.outputs,
            tensors={name: value},
            capabilities=frozenset({"finals", "per_node"}),
            **more,
        )

    sides = {"reference": side("reference", made, runtime=by), "board": side("board", recorded, runtime=runtime)}
    runs = {"reference": lambda unit, given: {name: made}}
    report = judge_all(sides, graph, units(graph), Options(dump_all=True), runs, None, {"x": x})
    found = report.pairs[0].tensors[0].forced
    assert found is not None
    return found


def right(dtype: str = "int8") -> Any:
    limits = np.iinfo(dtype)
    return np.clip(np.rint(4 * X.astype(np.float64)), limits.min, limits.max).astype(dtype)


def off(at: int, by: int = 1, dtype: str = "int8") -> Any:
    value = right(dtype)
    value[at] += by
    return value


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_one_lsb_at_a_tie_passes(dtype: str) -> None:
    found = forced(graph_of(dtype), right(dtype), off(AT_TIE, 1, dtype))
    assert (found.verdict, found.max_lsb, found.mismatched) == ("PASSED", 1, 1)
    assert found.limit.startswith("1 LSB within ") and found.limit.endswith(" LSB of a tie (derived)")
    assert forced(graph_of(dtype), off(AT_TIE, 1, dtype), right(dtype)).verdict == "PASSED"


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("by", [1, -1])
def test_one_lsb_away_from_a_tie_fails(dtype: str, by: int) -> None:
    found = forced(graph_of(dtype), right(dtype), off(AWAY, by, dtype))
    assert (found.verdict, found.max_lsb, found.mismatched) == ("FAILED", 1, 1)
    assert found.why.endswith(f"at [{AWAY}]") and "of a tie" in found.limit


def test_at_a_tie_only_the_two_integers_beside_it_are_open() -> None:
    assert right()[AT_TIE] == 12
    assert forced(graph_of(), right(), off(AT_TIE, -1)).verdict == "FAILED"
    found = forced(graph_of(), right(), off(AT_TIE, 2))
    assert (found.verdict, found.limit) == ("FAILED", LIMIT_OF_INTEGERS)  # no tie is 2 LSB wide
    assert forced(graph_of(), off(AT_TIE, -1), off(AT_TIE, 1)).verdict == "FAILED"


def test_one_element_in_the_middle_fails_though_every_tie_is_taken() -> None:
    recorded = off(AT_TIE)
    recorded[AWAY] -= 1
    assert forced(graph_of(), right(), recorded).verdict == "FAILED"


def test_beyond_the_ends_of_the_type_nothing_is_open() -> None:
    """120 LSB fits int8, 4 * 40 does not: there the exact value is far from the end, whatever its fraction."""
    x = X.copy()
    x[AT_END] = 40.125
    made = right()
    made[AT_END] = 127
    recorded = made.copy()
    recorded[AT_END] = 126
    assert forced(graph_of(), made, recorded, x).verdict == "FAILED"


def test_nan_leaves_nothing_open() -> None:
    x = X.copy()
    x[AWAY] = np.nan
    assert forced(graph_of(), right(), off(AWAY), x).verdict == "FAILED"


@pytest.mark.parametrize("who", [{"runtime": "litert"}, {"by": "litert"}])
def test_another_runtime_may_differ_by_one_lsb_at_a_tie_only(who: dict[str, str]) -> None:
    found = forced(graph_of(), right(), off(AT_TIE), **who)
    assert found.verdict == "PASSED" and found.limit.startswith("1 LSB, within ")
    found = forced(graph_of(), right(), off(AWAY), **who)
    assert (found.verdict, found.unexplained) == ("FAILED", 1)
    assert "1 element differs where the exact value has no tie" in found.why


def test_an_op_without_an_evaluation_keeps_its_limit_and_says_so() -> None:
    found = forced(graph_of(op="batch_norm"), right(), off(AWAY))
    assert (found.verdict, found.limit) == ("PASSED", "1 LSB (no float64 evaluation of batch_norm)")


def test_a_function_that_turns_out_to_have_no_evaluation_keeps_its_limit() -> None:
    """A power of a negative number."""
    graph = graph_of()
    graph.nodes[0] = Node("sum", "elementwise_float", ("x",), ("sum",), WORDS["pow"], (), False)
    found = forced(graph, right(), off(AWAY))
    assert (found.verdict, found.limit) == ("PASSED", "1 LSB (no float64 evaluation of a power of negative numbers)")


def test_floats_are_held_to_twice_their_own_bound() -> None:
    """Not to a share of the largest: 60 lies beside 2, and what 60 may be off 2 may not."""
    made = (X + X).astype(np.float32)
    near, far = made.copy(), made.copy()
    near[0] = np.nextafter(made[0], np.float32(9))
    far[0] += np.float32(1e-6)
    assert forced(graph_of("float32"), made, near).verdict == "PASSED"
    found = forced(graph_of("float32"), made, far)
    assert found.verdict == "FAILED" and "derived error of both sides" in found.limit


def test_inputs_that_do_not_fit_are_inconclusive() -> None:
    graph = graph_of()
    graph.nodes[0] = Node("sum", "elementwise_float", ("x", "k"), ("sum",), WORDS["add"], (), False)
    graph.constants["k"] = np.ones(3, np.float32)
    found = forced(graph, right(), off(AWAY))
    assert found.verdict == "INCONCLUSIVE" and "float64" in found.why


def test_equal_bytes_state_the_rule() -> None:
    assert forced(graph_of(), right(), right()).limit == "1 LSB within the derived error of a tie"


def test_eight_bit_softmax_at_a_tie():
    """A row on which onnxruntime 1.31.1 was seen to give 63 where the sum in order gives 64; the exact value is 63.5."""
    from math import exp, log

    from qverify.compare.error_bounds.bounded_values import bound_exactly
    from qverify.compare.error_bounds.chain import PAGES

    row = np.array([[142, 147, 154, 165, 176, 182, 179, 169, 158, 149, 140, 134, 132, 127, 125, 130]], np.uint8)
    scale, ys = 0.1054965928196907, np.array(254.0, np.float32).view(np.int32)
    bound = (log(float(np.float32(np.finfo(np.float32).max) / np.float32(16))) - 5.0) / scale
    table = np.array([exp((i - 255 + bound) * scale) for i in range(256)]).astype(np.float32)
    node = Node("y", "softmax", ("x", "t"), ("y",), (1, 16, 1, int(ys)))
    specs = {"x": TensorSpec("x", "uint8", (1, 16), scale=(scale,), zero_point=(141,))}
    specs |= {"y": TensorSpec("y", "uint8", (1, 16), scale=(1 / 255,), zero_point=(0,))}
    graph = Graph([node], specs, {"t": table}, ("x",), ("y",))
    (whole,) = PAGES["softmax"](node, [bound_exactly(row), bound_exactly(table)], graph)
    assert (whole.low[0, 6], whole.high[0, 6]) == (63, 64)
    assert (np.delete(whole.low, 6) == np.delete(whole.high, 6)).all() and float(whole.error.max()) < 0.001


def bound(graph: Graph, made: Any, recorded: Any, x: Any) -> Any:
    """What held_to says of the one unit of a graph."""
    (unit,) = units(graph)
    limit = choose_tie_aware_limit(limit_for(unit, "y", graph), unit, "y", graph)[0]
    arrays = (np.asarray(v, graph.spec("y").dtype) for v in (made, recorded))
    return check_both(ExactUnit(unit, "y", graph, {"x": np.asarray(x, graph.spec("x").dtype)}), *arrays, limit, limit)


@pytest.mark.parametrize(("dtype", "by"), [("int8", 1), ("int16", 1), ("int16", 2)])
def test_what_fails_within_the_reach_of_a_tie_has_the_derived_limit(dtype: str, by: int) -> None:
    """At 8 bits, 2 LSB are beyond any tie."""
    found = forced(graph_of(dtype), right(dtype), off(AWAY, by, dtype))
    assert found.verdict == "FAILED" and found.limit.startswith("1 LSB within ") and found.limit != LIMIT_OF_INTEGERS
    far = forced(graph_of(), right(), off(AWAY, 2))
    assert (far.verdict, far.limit) == ("FAILED", LIMIT_OF_INTEGERS)


def products_of_rows(x: Any) -> tuple[ExactUnit, Any, float]:
    """y = the products of rows of which the first is lost; their products in float32; the error of the second."""
    given = np.asarray(x, np.float32)
    graph = Graph(
        [Node("y", "reduce_float", ("x",), ("y",), (3, 2), (), False)],
        {"x": TensorSpec("x", "float32", given.shape), "y": TensorSpec("y", "float32", (2,))},
        {},
        ("x",),
        ("y",),
    )
    (unit,) = units(graph)
    ((_, value),) = evaluate_unit(unit, "y", graph, {"x": given}, np.arange(2))
    assert isinstance(value, Real) and value.lost is not None and value.lost.tolist() == [True, False] and value.mixed
    return ExactUnit(unit, "y", graph, {"x": given}), given.prod(1), float(value.error[1])


def test_beside_what_is_lost_both_sides_share_the_error() -> None:
    """A float product has no smaller error of our own: the board may be as far off as the reference, on the other side."""
    exact, made, error = products_of_rows([[1.2, 1.5e38] + [1.0] * 200, [1.5, 1.25] + [1.0] * 200])
    share = Limit(0, 1.0, "a share")
    for by, holds in ((1.9, True), (2.1, False)):
        recorded = made.copy()
        recorded[1] += by * error
        found = check_both(exact, made, recorded, share, share)
        assert found.holds is holds and found.where == (None if holds else 1), by
        assert found.limit.text.startswith("up to ") and found.reference_error is None


def mean_of_two(scale: float, dtype: str = "int16") -> Graph:
    """y = quantize(mean of two float sums x + 0): a million and what is left of it, so that the order of a sum shows. The sums are inexact,
    so that the mean has no smaller error of our own."""
    shapes = (("x", (1, 2)), ("sum", (1, 2)), ("m", (1, 1)), ("k", (1,)))
    tensors = {n: TensorSpec(n, "float32", s, interior=n in ("sum", "m")) for n, s in shapes}
    tensors["y"] = TensorSpec("y", dtype, (1, 1), scale=(scale,), zero_point=(0,))
    nodes = [
        Node("sum", "elementwise_float", ("x", "k"), ("sum",), WORDS["add"], (), False),
        Node("m", "reduce_mean", ("sum",), ("m",), (2, 0, 0), (), False),
        Node("y", "quantize", ("m",), ("y",)),
    ]
    return Graph(nodes, tensors, {"k": np.zeros(1, np.float32)}, ("x",), ("y",))


def test_sixteen_bits_may_be_apart_by_twice_the_error_and_no_more() -> None:
    x, scale = [[2.0**20, -(2.0**20) + 8]], 0.125  # mean 4: 32 LSB
    moved = (rounded(2.0**20, 0.0) + rounded(2.0**20 - 8, 0.0)) / 2
    error = (moved + g(4) * (2.0**20 - 4 + moved) + FLUSHED) / scale
    error += U * (32 + error) + FLUSHED  # 2.5 LSB
    far = int(np.floor(error + 0.5))
    for one, other, holds in ((32 + far, 32 - far, True), (32 + far + 1, 32, False), (32, 32 - far - 1, False)):
        found = bound(mean_of_two(scale), [[one]], [[other]], x)
        assert (found.holds, found.where) == (holds, None if holds else 0)
        apart = 1 + int(np.floor(2 * error))
        assert found.limit == Limit(
            apart, 0.0, f"{apart} LSB, both within {error:.3g} LSB of the exact value (derived)"
        )
    found = bound(mean_of_two(scale, "int8"), [[33]], [[32]], x)
    assert found.holds and found.limit.lsb == 1
    found = bound(mean_of_two(scale, "int8"), [[34]], [[32]], x)
    assert not found.holds and found.where == 0 and found.limit.text == "1 LSB within the derived error of a tie"


def test_an_integer_sum_of_ours_owes_the_exact_value() -> None:
    """2 * 3 + 1 of a step of 4 LSB: the bias is known to half a step, so the reference may be off by 2."""
    tensors = {
        "x": TensorSpec("x", "int16", (1, 1), scale=(1.0,), zero_point=(0,)),
        "w": TensorSpec("w", "int8", (1, 1), scale=(1.0,), zero_point=(0,)),
        "b": TensorSpec("b", "int32", (1,)),
        "rq": TensorSpec("rq", "float64", (1,)),
        "y": TensorSpec("y", "int16", (1, 1), scale=(1.0,), zero_point=(0,)),
    }
    node = Node("y", "fully_connected", ("x", "w", "b", "rq"), ("y",), (-32768, 32767), (), False)
    constants = {"w": np.array([[3]], np.int8), "b": np.array([1], np.int32), "rq": np.array([4.0])}
    graph = Graph([node], tensors, constants, ("x",), ("y",))
    for made, recorded, holds in ((26, 28, True), (30, 28, True), (28, 27, False), (28, 29, False), (25, 28, False)):
        found = bound(graph, [[made]], [[recorded]], [[2]])
        assert found.holds is holds, (made, recorded)
        assert found.limit == Limit(3, 0.0, "0 LSB from the exact value; the reference within 2 LSB of it (derived)")


def test_integers_that_only_move_are_exact() -> None:
    specs = {n: TensorSpec(n, "int16", (2,), scale=(1.0,), zero_point=(0,)) for n in ("x", "y")}
    graph = Graph([Node("y", "reshape", ("x",), ("y",), (), (), False)], specs, {}, ("x",), ("y",))
    found = bound(graph, [5, 6], [5, 7], [5, 6])
    assert (found.holds, found.where) == (False, 1) and found.limit.text == "1 LSB within 0 LSB of a tie (derived)"
    assert bound(graph, [5, 6], [5, 6], [5, 6]).holds


def test_the_smaller_of_the_two_float_bounds_counts() -> None:
    """Twice the error of an element, and a share of the largest where that is less."""
    graph = graph_of("float32")
    (unit,) = units(graph)
    exact = ExactUnit(unit, "sum", graph, {"x": X})
    made = (X + X).astype(np.float32)
    for at in (0, 3):
        error = rounded(float(made[at]), 0.0)
        for times, share in ((1.9, 1.0), (2.5, 1.0), (1.9, error / 60)):
            recorded = made.copy()
            recorded[at] += times * error
            step = float(recorded[at] - made[at])
            found = check_both(exact, made, recorded, Limit(0, share, "x"), Limit(0, share, "x"))
            assert found.holds is (step <= min(2 * error, share * 60)), (at, times, share)
            assert found.where == (None if found.holds else at)
    allowed = 2 * rounded(float(made[3]), 0.0)
    recorded = made.copy()
    recorded[3] = np.nextafter(made[3], np.float32(9))
    found = check_both(exact, made, recorded, Limit(0, 1.0, "x"), Limit(0, 1.0, "x"))
    assert found.limit == Limit(
        0, 0.0, f"up to {allowed:.2g}, the derived error of both sides or 2^-18 of max|reference|"
    )


def test_nan_on_both_sides_is_no_difference_of_floats() -> None:
    graph = graph_of("float32")
    exact = ExactUnit(units(graph)[0], "sum", graph, {"x": X})
    made = (X + X).astype(np.float32)
    made[2] = np.nan
    limit = Limit(0, 2.0**-18, "x")
    assert check_both(exact, made, made.copy(), limit, limit).holds
    one_sided = made.copy()
    one_sided[2] = 6.25
    assert (
        check_both(exact, made, one_sided, limit, limit).where
        == 2
        == check_both(exact, one_sided, made, limit, limit).where
    )


def test_which_units_are_judged_by_ties() -> None:
    for dtype, limit, stated in (
        ("int8", Limit(1, 0.0, "1 LSB"), Limit(1, 0.0, LIMIT_OF_INTEGERS)),
        ("int16", Limit(3, 0.0, "3 LSB"), Limit(3, 0.0, LIMIT_OF_INTEGERS)),
        ("int16", Limit(0, 0.0, "0 LSB"), Limit(1, 0.0, LIMIT_OF_INTEGERS)),
        ("float32", Limit(0, 0.5, "a share"), Limit(0, 0.5, LIMIT_OF_FLOATS)),
    ):
        graph = graph_of(dtype)
        (unit,) = units(graph)
        assert choose_tie_aware_limit(limit, unit, graph.outputs[0], graph) == (stated, True)
    graph = graph_of()
    graph.tensors["y"] = TensorSpec("y", "int64", X.shape)
    (unit,) = units(graph)
    assert choose_tie_aware_limit(BITS, unit, "y", graph) == (BITS, False)
    graph = graph_of()
    graph.nodes = [Node(n.name, n.op, n.inputs, n.outputs, n.words) for n in graph.nodes]
    assert choose_tie_aware_limit(BITS, units(graph)[0], "y", graph) == (BITS, False)
