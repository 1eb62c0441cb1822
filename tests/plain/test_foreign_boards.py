"""A board that is not qvrt: a known rounding is named and accepted, the same one at all nodes of an op; everything else is
a finding at its node."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from qverify.arithmetic.multipliers import parameters
from qverify.compare.arithmetics import Rounded
from qverify.compare.catalogue import FLOOR_MEANS, LEGAL, MISTAKES, MODES, RULES, choose_name
from qverify.compare.error_bounds.bounded_values import NoBound
from qverify.compare.find_arithmetics import find_arithmetics, find_reach, needs_evidence
from qverify.compare.foreign import describe_direction
from qverify.compare.one_arithmetic import accept_one_arithmetic
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.ops import simulate_node
from qverify.report.document import Forced
from qverify.tensors.codes import restore_codes
from qverify.tensors.spec import TensorSpec

from tests.plain.test_documented_rounding import REFERENCE, SHAPES, SW, SX, inputs, judged, network, run
from tests.plain.three_sides import record

Array = Any
RNG = np.random.default_rng(11)


def between(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a side that computes h as the first and y as the second."""
    return lambda unit, given: (first if unit.name == "h" else second)(unit, given)


def exact(name: str, x: Array) -> Array:
    """Returns the exact value of a layer, in LSB before the zero point."""
    node = next(n for n in REFERENCE.nodes if n.name == name)
    x_spec, w_spec, y_spec = (REFERENCE.spec(n or "") for n in (node.inputs[0], node.inputs[1], name))
    acc = (x.astype(np.int64) - x_spec.zero_point[0]) @ REFERENCE.constants[node.inputs[1] or ""].T.astype(np.int64)
    acc = acc + REFERENCE.constants[node.inputs[2] or ""]
    return acc * (float(x_spec.scale[0]) * float(w_spec.scale[0]) / float(y_spec.scale[0]))


def rounded_by(rule: Callable[[Array], Array]) -> Callable[..., Any]:
    """Returns a side that rounds the exact values of both layers by this rule."""

    def side(unit: Any, given: Any) -> Any:
        spec = REFERENCE.spec(unit.name)
        steps = rule(exact(unit.name, given[unit.inputs[0]])) + spec.zero_point[0]
        return {unit.name: np.clip(steps, -128, 127).astype(np.int8)}

    return side


@pytest.mark.parametrize("mode", MODES)
def test_a_rounding_mode_at_every_node_is_named_and_blames_nobody(mode: str) -> None:
    report = judged(run(network(mode)), kernels="")
    pair = report.pairs[1]
    assert report.blame is None and all(r.forced.verdict == "PASSED" for r in pair.tensors if r.forced)
    if report.verdict == "FAILED":
        assert pair.cause == "other_rounding" and len(pair.arithmetics) == 1
        assert "gives every byte of all 2 tensors" in pair.arithmetics[0]
        assert any(mode in r.forced.arithmetics for r in pair.tensors if r.forced and r.forced.mismatched)


@pytest.mark.parametrize("name", RULES)
def test_any_rule_for_halves_is_right(name: str) -> None:
    assert judged(rounded_by(RULES[name]), kernels="").blame is None


@pytest.mark.parametrize("name", MISTAKES)
def test_what_does_not_round_to_the_nearest_is_blamed_and_named(name: str) -> None:
    report = judged(rounded_by(MISTAKES[name]), kernels="")
    assert report.verdict == "FAILED" and (report.blame.side, report.blame.node) == ("board", "h")
    assert f"the exact value, {name} gives every element" in report.blame.why
    assert "of them near a tie" in report.blame.why and "the inputs of both sides are equal" in report.blame.why


def test_another_rounding_at_one_node_only_is_blamed() -> None:
    """pow2-floor at the first of two layers, gemmlowp at the second."""
    report = judged(between(run(network("pow2-floor")), run(network("gemmlowp"))), kernels="")
    assert report.verdict == "FAILED" and report.blame.node == "h"
    report = judged(between(run(network("pow2-floor")), run(REFERENCE)), kernels="")
    assert report.verdict == "FAILED" and report.blame.node == "h"


@pytest.mark.parametrize("by", [1, -1, 3, -20])
def test_an_offset_is_never_rounding(by: int) -> None:
    def shifted(h: Array) -> Array:
        return np.clip(h.astype(np.int64) + by, -128, 127).astype(np.int8)

    report = judged(run(REFERENCE, shifted), kernels="")
    assert report.verdict == "FAILED" and (report.blame.side, report.blame.node) == ("board", "h")
    assert f"too {'high' if by > 0 else 'low'} by " in report.blame.why


def test_noise_of_one_step_is_blamed_at_its_node() -> None:
    def noisy(h: Array) -> Array:
        return np.clip(h.astype(np.int64) + RNG.integers(-1, 2, h.shape), -128, 127).astype(np.int8)

    report = judged(run(REFERENCE, noisy), kernels="")
    assert report.blame.node == "h" and " too low, " in report.blame.why


def test_a_fault_of_a_board_with_its_own_rounding_is_described_beside_it() -> None:
    """The rounding is that of gemmlowp; output 5 of h is 4 too large."""

    def spoil(h: Array) -> Array:
        h = h.copy()
        h[:, 5] = np.clip(h[:, 5].astype(np.int64) + 4, -128, 127)
        return h

    report = judged(run(network("gemmlowp"), spoil), kernels="")
    assert report.blame.node == "h"
    assert " gives all but 4 elements: all 4 too high by 4 LSB, all in 1 of 32 channels: 5" in report.blame.why


@pytest.mark.parametrize("mode", ["tflite-single", "mul15"])
def test_channels_are_those_of_what_no_tie_explains(mode: str) -> None:
    def spoil(h: Array) -> Array:
        h = h.copy()
        h[:, 5] = np.clip(h[:, 5].astype(np.int64) + 4, -128, 127)
        return h

    report = judged(run(network(mode), spoil), kernels="")
    assert report.blame.node == "h" and "; all in 1 of 32 channels: 5, but for those near a tie; " in report.blame.why


def verdicts_of_mul8(elements: int, differing: int) -> list[str]:
    """Returns the verdicts on a layer of which `differing` elements differ, as mul8 and no other arithmetic gives them."""
    unit = units(REFERENCE)[0]
    found = Forced("FAILED", 1, differing, 0.1, elements, "", "reference", "board", "all too low", arithmetics=["mul8"])
    verdicts = {"h": found}
    accept_one_arithmetic([unit], verdicts, lambda unit, name: True, lambda unit, name: True)
    return [f.verdict for f in verdicts.values()]


@pytest.mark.parametrize(("elements", "differing", "verdict"), [(64, 2, "INCONCLUSIVE"), (64, 5, "PASSED")])
def test_a_coarse_arithmetic_is_accepted_by_its_evidence_only(elements: int, differing: int, verdict: str) -> None:
    """Two of 64 elements can differ in 2,016 ways (13 bits with their directions), 5 in 7.6 million (28 bits)."""
    assert verdicts_of_mul8(elements, differing) == [verdict]


def pair_graph(op: str) -> Graph:
    """Returns a node of two tensors of 6,000 elements: y = a + b or a * b."""
    shape, specs = (3, 2000), {}
    for name, scale, zero in (("a", 0.05, 3), ("b", 0.11, -7), ("y", 0.12 if op == "add" else 0.3, 5)):
        specs[name] = TensorSpec(name, "int8", shape, scale=(float(np.float32(scale)),), zero_point=(zero,))
    specs["y/rq"] = TensorSpec("y/rq", "float64", (2,))
    real = [specs["a"].scale[0] / specs["y"].scale[0], specs["b"].scale[0] / specs["y"].scale[0]]
    rq = np.array(real if op == "add" else [specs["a"].scale[0] * specs["b"].scale[0] / specs["y"].scale[0]])
    words = (0, -128, 127) if op == "add" else (-128, 127)
    node = Node("y", op, ("a", "b", "y/rq"), ("y",), words)
    return Graph([node], specs, {"y/rq": rq}, ("a", "b"), ("y",))


@pytest.mark.parametrize("op", ["add", "mul"])
def test_the_catalogue_of_two_operands(op: str) -> None:
    graph = pair_graph(op)
    given = {n: RNG.integers(-128, 128, (3, 2000)).astype(np.int8) for n in ("a", "b")}
    rounded = Rounded(units(graph)[0], "y", graph, given)
    made = simulate_node(graph, graph.nodes[0], given)["y"]
    every = np.arange(made.size)
    for name, compute in rounded.formulas.items():
        recorded = compute(every).reshape(made.shape)
        found = find_arithmetics(rounded, made, recorded)
        assert name in found, name
        spoilt = recorded.copy()
        spoilt[2, 1999] ^= 1
        assert name not in find_arithmetics(rounded, made, spoilt)
    assert {*MODES, *RULES, *MISTAKES} <= rounded.formulas.keys()


@pytest.mark.parametrize("include_pad", [0, 1])
def test_a_chip_that_floors_divides_its_means_by_their_number(include_pad: int) -> None:
    """A pool of 3 x 3 with padding: corners have 4 elements, edges 6. Its floor is that of the exact mean, which is no
    shift, and counts as the arithmetic of a board that floors all other sums by shifts."""
    x, count = RNG.integers(-128, 128, (1, 2, 7, 7)).astype(np.int8), np.full((7, 7), 9)
    if not include_pad:
        count[[0, -1]], count[:, [0, -1]] = 6, 6
        count[[0, 0, -1, -1], [0, -1, 0, -1]] = 4
    specs = {n: TensorSpec(n, "int8", x.shape, scale=(0.25,), zero_point=(z,)) for n, z in (("x", 3), ("y", -1))}
    specs["rq"] = TensorSpec("rq", "int32", (2, 9))
    words = (3, 3, 1, 1, 1, 1, 1, 1, include_pad, -128, 127)
    constants = {"rq": parameters("gemmlowp", 1 / (np.arange(9.0) + 1))}
    graph = Graph([Node("y", "average_pool", ("x", "rq"), ("y",), words)], specs, constants, ("x",), ("y",), "gemmlowp")
    sums = np.lib.stride_tricks.sliding_window_view(np.pad(x - 3.0, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3))
    floored = (np.floor_divide(sums.sum((-1, -2)), count) - 1).astype(np.int8)
    rounded = Rounded(units(graph)[0], "y", graph, {"x": x})
    made = simulate_node(graph, graph.nodes[0], {"x": x})["y"]
    assert {*find_arithmetics(rounded, made, floored)} == {FLOOR_MEANS, "rounded down (floor)"}
    assert "gemmlowp" in find_arithmetics(rounded, made, made)
    dense_floor = Rounded(units(REFERENCE)[0], "h", REFERENCE, {"x": inputs()})
    every = np.arange(4 * 32)
    assert np.array_equal(dense_floor.formulas[FLOOR_MEANS](every), dense_floor.formulas["pow2-floor"](every))


def concat_graph() -> Graph:
    """Returns a concatenation of two tensors, of which only the first has the quantization of the output."""
    specs = {
        n: TensorSpec(n, "int8", (2, 3, 500), scale=(s,), zero_point=(z,))
        for n, s, z in (("a", 0.25, 2), ("b", 0.0625, -7))
    }
    specs["y"] = TensorSpec("y", "int8", (2, 6, 500), scale=(0.25,), zero_point=(2,))
    return Graph([Node("y", "concat", ("a", "b"), ("y",), (1,))], specs, {}, ("a", "b"), ("y",))


def test_a_concatenation_that_changes_the_quantization_rounds_like_its_board() -> None:
    graph = concat_graph()
    given = {n: RNG.integers(-128, 128, (2, 3, 500)).astype(np.int8) for n in ("a", "b")}
    made = simulate_node(graph, graph.nodes[0], given)["y"]
    floored = np.concatenate([given["a"], (given["b"].astype(np.int64) + 7 >> 2) + 2], 1).astype(np.int8)
    rounded = Rounded(units(graph)[0], "y", graph, given)
    found = find_arithmetics(rounded, made, floored)
    assert "pow2-floor" in found and "half up" not in found and not {*found} & {"gemmlowp", "cut off (toward zero)"}
    halves = np.concatenate([given["a"], (given["b"].astype(np.int64) + 9 >> 2) + 2], 1).astype(np.int8)
    assert {"pow2-half-up", "tflite-single", "half up"} <= {*find_arithmetics(rounded, made, halves)}
    floored[1, 4, 9] ^= 1
    assert not find_arithmetics(rounded, made, floored)


@pytest.mark.parametrize("scale", [0.00021, 0.0047, 0.13, 0.31, 0.7, 1.9])
@pytest.mark.parametrize("op", ["fully_connected", "add", "mul"])
def test_beyond_its_reach_every_arithmetic_gives_the_nearest_integer(op: str, scale: float) -> None:
    """These elements are compared once for all arithmetics."""
    if op == "fully_connected":
        graph = network("ref-exact")
        graph.tensors["h"] = replace(graph.tensors["h"], scale=(SX * SW / scale,))
        graph.constants["h/rq"] = np.array([scale], np.float32)
        given = {"x": RNG.integers(-8, 9, SHAPES["x"]).astype(np.int8)}
    else:
        graph = pair_graph(op)
        graph.tensors["y"] = replace(graph.tensors["y"], scale=(0.11 * (0.05 if op == "mul" else 1.0) / scale,))
        given = {n: RNG.integers(-128, 128, (3, 2000)).astype(np.int8) for n in ("a", "b")}
    unit = units(graph)[0]
    rounded = Rounded(unit, unit.outputs[0], graph, given)
    assert rounded.exact is not None and rounded.exact.scales.max() == pytest.approx(scale)
    every = np.arange(graph.spec(unit.outputs[0]).elements)
    steps, compared = rounded.exact.steps(every), 0
    for name, compute in rounded.formulas.items():
        with contextlib.suppress(ValueError):  # scales that this arithmetic cannot represent
            far = 0.5 - np.abs(steps - np.rint(steps)) > find_reach(rounded, name)
            assert np.array_equal(compute(every[far]), rounded.formulas["half even"](every[far])), name
            compared += np.count_nonzero(far) > 0
    assert compared >= 8


def test_the_first_name_is_that_of_powers_of_two() -> None:
    assert choose_name(["half up", "tflite-single", "pow2-half-up"]) == "pow2-half-up"
    assert choose_name(["half up", "gemmlowp"]) == "gemmlowp" and choose_name([]) == ""
    assert not set(MISTAKES) & set(LEGAL)


def test_real_values_stand_for_integers() -> None:
    spec = TensorSpec("x", "int8", (2, 3), scale=(0.1,), zero_point=(4,))
    codes = np.array([[-128, 4, 127], [0, 5, -7]], np.int8)
    real = ((codes.astype(np.float32) - 4) * np.float32(0.1)).astype(np.float32)
    found = restore_codes(real, spec)
    assert isinstance(found, np.ndarray) and found.dtype == np.int8 and np.array_equal(found, codes)
    for at, value in (((0, 1), 0.05), ((1, 2), np.nan), ((0, 2), 20.0)):
        spoilt = real.copy()
        spoilt[at] = value
        assert restore_codes(spoilt, spec) == "1 element is no whole step of its scale 0.1 within int8"
    channels = replace(spec, scale=(0.1, 0.2, 0.4), zero_point=(0, 0, 0), channel_axis=1)
    real = (codes * np.array([0.1, 0.2, 0.4])).astype(np.float32)
    assert np.array_equal(restore_codes(real, channels), codes)


@pytest.mark.parametrize("fault", [0, 1])
def test_a_board_that_gives_real_values_is_judged_by_their_integers(fault: int) -> None:
    def real(unit: Any, given: Any) -> Any:
        codes = run(REFERENCE)(unit, given)[unit.name].astype(np.float64)
        codes = np.clip(codes + fault, -128, 127) if unit.name == "h" else codes
        spec = REFERENCE.spec(unit.name)
        return {unit.name: ((codes - spec.zero_point[0]) * spec.scale[0]).astype(np.float32)}

    def stored(unit: Any, given: Any) -> Any:
        integers = {n: v if v.dtype == np.int8 else restore_codes(v, REFERENCE.spec(n)) for n, v in given.items()}
        return real(unit, integers)

    report = judged(stored, kernels="", x=inputs())
    nodes = [] if report.blame is None else [report.blame.node, *report.blame.also]
    assert nodes == (["h"] if fault else [])


def test_the_direction_of_differences() -> None:
    made = np.zeros(5, np.int8)
    assert describe_direction(made, np.array([0, 1, 1, 0, 0], np.int8)) == "all 2 too high by 1 LSB"
    assert describe_direction(made, np.array([0, 2, 0, 0, 0], np.int8)) == "1 too high by 2 LSB"
    assert describe_direction(made, np.array([-3, 0, -1, 0, 0], np.int8)) == "all 2 too low by 1 to 3 LSB"
    assert describe_direction(made, np.array([-3, 0, 1, 1, 0], np.int8)) == "1 too low, 2 too high"
    assert describe_direction(made.astype(np.float32), np.full(5, np.nan, np.float32)) == ""


def test_kernels_of_the_reference_excuse_no_other_runtime() -> None:
    """LiteRT is the reference; the board is a runner whose kernels are not known, and is one step off away from ties."""
    x, sides = inputs(), {"reference": run(REFERENCE), "board": run(network("tflite-single"), lambda h: h ^ 1)}
    recordings = {n: record(n, made, graph=REFERENCE, x=x) for n, made in sides.items()}
    recordings["reference"].runtime, recordings["reference"].kernels = "litert", "litert-reference"
    recordings["board"].runtime = "command"
    runs = {"reference": sides["reference"]}
    report = judge_all(recordings, REFERENCE, units(REFERENCE), Options(dump_all=True), runs, None, {"x": x})
    assert report.verdict == "FAILED" and report.blame is not None
    assert (report.blame.side, report.blame.node) == ("board", "h") and report.pairs[0].node_by_node is None


def test_evidence_of_a_million_elements_takes_no_time() -> None:
    assert verdicts_of_mul8(3_000_000, 1_500_000) == ["PASSED"]


def test_a_node_that_cannot_be_asked_stands_in_no_others_way() -> None:
    """Two layers of one op; the first fits gemmlowp only. Of the second nothing is known, or it is judged INCONCLUSIVE, or
    it is equal and gemmlowp gives other bytes."""
    both = units(REFERENCE)[:2]

    def judge(second: str, given: bool | None) -> str:
        forced = {
            name: Forced(
                verdict, 1, 9, 0.1, 128, "", "reference", "board", "w", arithmetics=["gemmlowp"] * (name == "h")
            )
            for name, verdict in (("h", "FAILED"), ("y", second))
        }
        accept_one_arithmetic(both, forced, lambda unit, name: given, lambda unit, name: False)
        return forced["h"].verdict

    assert judge("PASSED", None) == judge("PASSED", True) == judge("INCONCLUSIVE", False) == "PASSED"
    assert judge("PASSED", False) == "FAILED"


def test_arithmetics_that_round_twice_need_evidence_where_they_are_far_from_ties() -> None:
    """With a multiplier of 0.3, gemmlowp's first rounding is to a quarter of the output's step."""
    unit = units(REFERENCE)[0]
    graph = replace(REFERENCE, constants={**REFERENCE.constants, "h/rq": np.array([0.3], np.float32)})
    assert needs_evidence(unit, graph, "gemmlowp") and needs_evidence(unit, graph, "mul8")
    assert not needs_evidence(unit, REFERENCE, "gemmlowp") and not needs_evidence(unit, graph, "tflite-single")


@pytest.mark.parametrize(("scale", "needed"), [(0.3, True), (2.0**-9, False)])
def test_any_operand_of_a_concatenation_may_be_far_from_ties(scale: float, needed: bool) -> None:
    specs = {n: TensorSpec(n, "int8", (4,), scale=(s,), zero_point=(0,)) for n, s in (("a", 2.0**-9), ("b", scale))}
    specs["y"] = TensorSpec("y", "int8", (8,), scale=(1.0,), zero_point=(0,))
    graph = Graph([Node("y", "concat", ("a", "b"), ("y",), (0,))], specs, {}, ("a", "b"), ("y",))
    assert needs_evidence(units(graph)[0], graph, "gemmlowp") is needed


def test_an_arithmetic_that_other_nodes_show_comes_before_a_coarse_one() -> None:
    """One of 10 elements of the last layer differs, as mul8 and gemmlowp give it; the layer before shows gemmlowp."""
    both, names = units(REFERENCE)[:2], (["gemmlowp"], ["gemmlowp", "mul8"])
    forced = {
        name: Forced("PASSED" if name == "h" else "FAILED", 1, k, 0.1, n, "", "reference", "board", "", arithmetics=a)
        for name, k, n, a in (("h", 9, 128, names[0]), ("y", 1, 10, names[1]))
    }
    accept_one_arithmetic(both, forced, lambda unit, name: True, lambda unit, name: True)
    assert forced["y"].verdict == "PASSED" and "gemmlowp" in forced["y"].limit


def test_what_cannot_be_evaluated_leaves_the_pair_open_whatever_the_gate() -> None:
    def shifted(h: Array) -> Array:
        return np.clip(h.astype(np.int64) + 1, -128, 127).astype(np.int8)

    options = Options(min_cosine=0.5, dump_all=True)
    with mock.patch(
        "qverify.compare.error_bounds.documented_kernels.evaluate_documented", side_effect=NoBound("a table")
    ):
        report = judged(run(REFERENCE, shifted), kernels="", options=options)
    for pair in report.pairs[1:]:
        assert (pair.verdict, pair.cause) == ("INCONCLUSIVE", "not_judged"), pair.why
        assert pair.why.startswith("h differs and cannot be judged when recomputed: ")
    assert report.blame is None and report.verdict == "INCONCLUSIVE"


def test_real_values_that_stand_for_no_integers_are_named_in_the_verdict_line() -> None:
    spec = REFERENCE.spec("h")

    report = judged_with(run(REFERENCE), {"h": lambda v: spec.dequantized(v).astype(np.float32) * np.float32(1.01)})
    text = "1 tensor is given as real values that stand for no integers, and not recomputed, first h"
    assert all(text in pair.relaxed for pair in report.pairs[1:]) and text not in report.pairs[0].relaxed


def judged_with(board: Callable[..., Any], changed: dict[str, Callable[[Array], Array]]) -> Any:
    """Returns the report on a runner that gives these tensors in another form, under a mild gate."""
    x, sides = inputs(), {"reference": run(REFERENCE), "simulator": run(REFERENCE), "board": board}
    recordings = {name: record(name, made, graph=REFERENCE, x=x) for name, made in sides.items()}
    recordings["board"].runtime = "runner"
    for name, change in changed.items():
        value = change(recordings["board"].tensors[name])
        recordings["board"].tensors[name] = value
        recordings["board"].digests.pop(name, None)
        recordings["board"].specs[name] = TensorSpec(name, value.dtype.name, value.shape)
    runs = {n: sides[n] for n in ("reference", "simulator")}
    options = Options(min_cosine=0.9, dump_all=True)
    return judge_all(recordings, REFERENCE, units(REFERENCE), options, runs, None, {"x": x})
