"""A board that is not qvrt is judged where nothing can be evaluated; regions and directions are put into words."""

from __future__ import annotations

import numpy as np
from qverify.compare.blame import find_culprits
from qverify.compare.error_bounds.integer_sums import SumOperands
from qverify.compare.foreign import ForeignUnit, describe_direction, judge_foreign
from qverify.compare.limits import Limit, choose_foreign_limit
from qverify.compare.one_arithmetic import name_arithmetics
from qverify.compare.region_verdict import RecomputedRegion, judge_region
from qverify.compare.regions import Region, describe_region, list_inner
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import Unit, units
from qverify.report.document import Forced
from qverify.tensors.spec import TensorSpec

from tests.plain.three_sides import chain

EVERY = np.arange(-128, 128).astype(np.int8)


def table_of_a_function() -> Graph:
    """Returns a lookup of a function whose real values are not known, because only model.bin is given."""
    specs = {n: TensorSpec(n, "int8", (256,), scale=(0.05,), zero_point=(0,)) for n in ("x", "y")}
    specs["y/table"] = TensorSpec("y/table", "int8", (256,))
    table = np.rint(127 * np.tanh(EVERY / 20)).astype(np.int8)
    return Graph([Node("y", "lookup", ("x", "y/table"), ("y",))], specs, {"y/table": table}, ("x",), ("y",))


def judged(recorded: np.ndarray, verdict: str, far: int) -> Forced:
    graph = table_of_a_function()
    made = graph.constants["y/table"]
    differ = int(np.count_nonzero(recorded != made))
    measured = Forced(verdict, far, differ, limit="1 LSB", by="reference", on="board", elements=256)  # type: ignore[arg-type]
    foreign = ForeignUnit(units(graph)[0], "y", graph, {"x": EVERY}, made, recorded, "", True)
    return judge_foreign(foreign, measured)


def test_what_cannot_be_evaluated_is_neither_right_nor_blamed() -> None:
    shifted = np.clip(table_of_a_function().constants["y/table"].astype(np.int64) + 1, -128, 127).astype(np.int8)
    found = judged(shifted, "PASSED", 1)
    assert found.verdict == "INCONCLUSIVE" and found.unexplained == found.mismatched and found.at_fault == ""
    differ = found.mismatched
    assert (
        found.why == f"{differ} elements differ and cannot be judged: no float64 evaluation of the table of a function"
    )


def test_what_cannot_be_evaluated_and_is_beyond_the_plain_limit_is_wrong() -> None:
    far = np.clip(table_of_a_function().constants["y/table"].astype(np.int64) + 3, -128, 127).astype(np.int8)
    found = judged(far, "FAILED", 3)
    assert (found.verdict, found.at_fault, found.limit) == ("FAILED", "board", "1 LSB")


def test_the_limit_of_a_foreign_board() -> None:
    stored = TensorSpec("y", "int16", (4,), scale=(0.5,), zero_point=(0,))
    derived = Limit(1, 0.0, "1 LSB (16 bit, derived)")
    assert choose_foreign_limit(derived, stored) == derived
    assert choose_foreign_limit(Limit(0, 0.0, "0 LSB"), stored) == Limit(1, 0.0, "1 LSB")
    real = TensorSpec("y", "float32", (4,))
    assert choose_foreign_limit(Limit(0, 0.25, "a share"), real) == Limit(0, 0.25, "a share")


def test_directions_of_several_distances() -> None:
    made = np.array([0, 10, 20, 30], np.int8)
    assert describe_direction(made, np.array([-2, 10, 25, 31], np.int8)) == "1 too low, 2 too high"
    assert describe_direction(made, made) == ""
    assert describe_direction(made.astype(np.float32), made + np.float32(0.5)) == "all 4 too high by 0.5"


def unit_of(node: Node) -> Unit:
    return Unit(node.name, node.op, (node,), tuple(n for n in node.inputs if n), node.outputs, True)


def region_of(*members: Unit) -> Region:
    nodes = tuple(n for m in members for n in m.nodes)
    inner = tuple(m.outputs[0] for m in members[:-1])
    return Region("y", "+".join(m.op for m in members), nodes, ("x",), ("y",), True, members, inner)


def floats() -> Graph:
    """x -> dequantize -> sqrt -> quantize y; the board gives x and y."""
    specs = {n: TensorSpec(n, "int8", (4,), scale=(0.5,), zero_point=(0,)) for n in ("x", "y")}
    specs |= {n: TensorSpec(n, "float32", (4,)) for n in ("a", "b")}
    nodes = [
        Node("a", "dequantize", ("x",), ("a",)),
        Node("b", "elementwise_float", ("a",), ("b",), (21, 0, 0)),
        Node("y", "quantize", ("b",), ("y",)),
    ]
    return Graph(nodes, specs, {}, ("x",), ("y",))


def test_a_region_is_named_by_what_it_computes() -> None:
    parts = [unit_of(node) for node in floats().nodes]
    whole = region_of(*parts)
    shown = describe_region(whole, "board")
    assert shown is not None and shown.nodes == ["sqrt b"]
    assert shown.place == "between x and y: sqrt b, fused on the board"
    assert list_inner(whole) == ["a", "b"] and list_inner(parts[0]) == []
    assert describe_region(parts[0], "board") is None
    moved = describe_region(region_of(parts[0], parts[2]), "dump")
    assert moved is not None and moved.nodes == ["dequantize a", "quantize y"] and moved.side == "dump"


def _forced(mismatched: int, *names: str) -> Forced:
    return Forced("PASSED", 1 if mismatched else 0, mismatched, arithmetics=list(names), elements=10)


def never(unit: Unit, name: str) -> bool:
    return False


def _unit(name: str, op: str) -> Unit:
    node = Node(name, op, ("x",), (name,))
    return unit_of(node)


def test_the_arithmetic_of_all_sums_is_one_line() -> None:
    parts = [_unit("c", "conv"), _unit("f", "fully_connected"), _unit("s", "softmax")]
    both = {"c": _forced(3, "gemmlowp", "half up"), "f": _forced(2, "gemmlowp")}
    lines, everywhere = name_arithmetics(parts, both, lambda unit, name: False, never)
    assert everywhere and lines == [
        "rounding gemmlowp (qverify compile --rounding gemmlowp) gives every byte of all 2 tensors"
    ]
    lines, everywhere = name_arithmetics(parts, {**both, "s": _forced(1)}, lambda unit, name: False, never)
    assert everywhere and lines[0].endswith("gives every byte of 2 tensors of sums")


def test_different_arithmetics_of_the_ops_are_a_line_each() -> None:
    parts = [_unit("c", "conv"), _unit("d", "conv"), _unit("f", "fully_connected")]
    forced = {"c": _forced(3, "gemmlowp"), "d": _forced(0), "f": _forced(2, "half up")}
    lines, everywhere = name_arithmetics(
        parts, forced, lambda unit, name: unit.name == "d" and name == "gemmlowp", never
    )
    assert not everywhere and lines == [
        "conv: rounding gemmlowp (qverify compile --rounding gemmlowp) gives every byte of 2 tensors",
        "fully_connected: the exact value, half up gives every byte of 1 tensor",
    ]
    assert name_arithmetics(parts, {n: _forced(0) for n in "cdf"}, lambda unit, name: True, never) == ([], False)
    lines, everywhere = name_arithmetics(parts, forced, lambda unit, name: False, never)  # d is not of gemmlowp
    assert not everywhere and lines == ["fully_connected: the exact value, half up gives every byte of 1 tensor"]


def test_a_region_without_a_bound_is_left_open() -> None:
    graph = table_of_a_function()
    made = graph.constants["y/table"]
    part = units(graph)[0]
    region = region_of(part)
    recorded = np.clip(made.astype(np.int64) + 1, -128, 127).astype(np.int8)
    measured = Forced("FAILED", 1, int(np.count_nonzero(made != recorded)), by="reference", on="board", elements=256)
    found = judge_region(RecomputedRegion(region, "y", graph, {"x": EVERY}, made, recorded, 0.0), measured)
    assert found.verdict == "INCONCLUSIVE" and found.limit == "none: no bound is derived"
    exact = judge_region(RecomputedRegion(region, "y", graph, {"x": EVERY}, made, made, 0.0), measured)
    assert exact.verdict == "PASSED" and exact.limit.endswith("with inner tensors rounded as in the model")
    assert f"{found.mismatched} elements differ and cannot be judged: no bound can be carried through" in found.why


def test_few_differences_on_one_side_may_be_roundings_inside_and_many_are_not() -> None:
    """Two tables that change nothing; the board gives no t between them. What the bound allows is wider than a tie."""
    specs = {n: TensorSpec(n, "int8", (256,), scale=(0.05,), zero_point=(0,)) for n in ("x", "t", "y")}
    specs |= {n: TensorSpec(n, "int8", (256,)) for n in ("t/table", "y/table")}
    nodes = [Node("t", "lookup", ("x", "t/table"), ("t",)), Node("y", "lookup", ("t", "y/table"), ("y",))]
    graph = Graph(nodes, specs, {"t/table": EVERY, "y/table": EVERY}, ("x",), ("y",))
    region = region_of(*map(unit_of, nodes))

    def judged_with(differ: int) -> Forced:
        recorded = EVERY.copy()
        recorded[100 : 100 + differ] += 1
        measured = Forced("FAILED", 1, differ, by="reference", on="board", elements=256)
        return judge_region(RecomputedRegion(region, "y", graph, {"x": EVERY}, EVERY, recorded, 0.0), measured)

    few = judged_with(20)
    assert few.verdict == "INCONCLUSIVE" and few.limit.endswith("carried from 1 rounding inside")
    recorded = EVERY.copy()
    recorded[1:-1] += 1
    measured = Forced("FAILED", 1, 254, by="reference", on="board", elements=256)
    many = judge_region(RecomputedRegion(region, "y", graph, {"x": EVERY}, EVERY, recorded, 0.0), measured)
    assert many.verdict == "FAILED" and "254 elements lie on one side" in many.why


def test_a_reference_that_alone_is_not_the_exact_value_is_blamed() -> None:
    graph = chain()
    wrong = Forced("FAILED", 1, 3, limit="1 LSB", by="reference", on="board", elements=40, at_fault="reference")
    right = Forced("PASSED", 0, 0, by="simulator", on="board", elements=40)
    matrix = {("reference", "board"): {"n2": wrong}, ("simulator", "board"): {"n2": right}}
    (blame,) = find_culprits(units(graph), matrix)
    assert (blame.side, blame.node) == ("reference", "n2")


def test_sums_with_a_float_result() -> None:
    """An integer bias is added before the scale, a real one after it."""
    constants = {"w": np.ones((1, 2), np.int8), "i": np.array([-10], np.int32), "f": np.array([-10], np.float32)}
    specs = {n: TensorSpec(n, v.dtype.name, v.shape, scale=(0.5,), zero_point=(0,)) for n, v in constants.items()}
    specs |= {
        "x": TensorSpec("x", "int8", (1, 2), scale=(0.5,), zero_point=(0,)),
        "y": TensorSpec("y", "float32", (1, 1)),
    }
    constants["rq"] = np.array([0.25], np.float32)
    specs["rq"] = TensorSpec("rq", "float32", (1,))

    def sums(bias: str | None) -> tuple[float, float, int]:
        node = Node("y", "fully_connected", ("x", "w", bias, "rq"), ("y",), (0, 0))
        graph = Graph([node], specs, constants, ("x",), ("y",))
        operands = SumOperands(node, graph, {"x": np.zeros((1, 2), np.int8)})
        channel = np.array([0])
        found = operands.dot(np.array([[3.0, -5.0]]), np.array([[4.0, 2.0]]), channel, operands.bias(channel))
        return float(found.value[0]), float(found.size[0]), found.terms

    assert sums(None) == (2 * 0.25, 22 * 0.25, 2)
    assert sums("i") == ((2 - 10) * 0.25, (22 + 10) * 0.25, 2)
    assert sums("f") == (2 * 0.25 - 10, 22 * 0.25 + 10, 2)


def test_a_coarse_arithmetic_is_named_by_its_evidence_only() -> None:
    """Two of 64 elements have 13 bits, 5 have 28; a mistake as well as a legal arithmetic."""
    parts = [_unit("c", "conv"), _unit("d", "conv")]
    for name in ("mul8", "rounded down (floor)"):
        for differing, named in ((2, False), (5, True)):
            found = Forced("FAILED", 1, differing, elements=64, arithmetics=[name])
            lines, everywhere = name_arithmetics(parts[:1], {"c": found}, lambda unit, n: True, lambda unit, n: True)
            assert (bool(lines), everywhere) == (named, named)
        two = {n: Forced("FAILED", 1, 2, elements=64, arithmetics=[name]) for n in "cd"}
        lines, _ = name_arithmetics(parts, two, lambda unit, n: True, lambda unit, n: True)
        assert len(lines) == 1  # both nodes show it


def addition(elements: int) -> Graph:
    """Returns an addition of two tensors of these many elements."""
    specs = {
        n: TensorSpec(n, "int8", (elements,), scale=(s,), zero_point=(0,))
        for n, s in (("a", 0.05), ("b", 0.11), ("y", 0.12))
    }
    specs["y/rq"] = TensorSpec("y/rq", "float64", (2,))
    return Graph(
        [Node("y", "add", ("a", "b", "y/rq"), ("y",), (0, -128, 127))],
        specs,
        {"y/rq": np.array([0.05, 0.11]) / 0.12},
        ("a", "b"),
        ("y",),
    )


def test_a_mistake_is_named_at_its_node_only_if_it_is_no_chance() -> None:
    """a is 1, 2, 3 ...; b is 0: the sums are 0.4167, 0.833 ... of a step."""
    for elements, named in ((2, False), (200, True)):
        graph = addition(elements)
        given = {"a": (np.arange(elements) % 100 + 1).astype(np.int8), "b": np.zeros(elements, np.int8)}
        exact = given["a"] * (0.05 / 0.12)
        made, recorded = np.rint(exact).astype(np.int8), np.floor(exact).astype(np.int8)
        differing = int(np.count_nonzero(made != recorded))
        measured = Forced("FAILED", 1, differing, 0.1, elements, "1 LSB", "reference", "board", "")
        foreign = ForeignUnit(units(graph)[0], "y", graph, given, made, recorded, "", True)
        verdict = judge_foreign(foreign, measured)
        assert verdict.verdict == "FAILED" and "rounded down (floor)" in verdict.arithmetics
        assert ("rounded down (floor) gives every element" in verdict.why) is named
