"""Tests that onnxruntime and the simulator lie within the error bounds of NUMERICS.md section 4 in every element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from qverify.compare.error_bounds.bounded_values import BoundedValue, Real, Whole
from qverify.compare.error_bounds.chain import evaluate_unit, explain_missing_evaluation, is_stepwise
from qverify.compare.limits import float_inside, limit_for
from qverify.compare.tie_aware import ExactUnit, TieAwareResult, check_both, choose_tie_aware_limit
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit, units
from qverify.sides.reference import Reference
from qverify.sides.simulator import Simulator

from tests.ops.case_files import ACTIVATIONS, CASES, CASES_OF_ACTIVATIONS
from tests.ops.qdq import Qdq

Array = Any


def judged_by_ties(graph: Graph) -> list[Unit]:
    """Units without an integer reference, or with float outputs, that have a float64 evaluation."""
    return [
        u
        for u in units(graph)
        if not explain_missing_evaluation(u, graph)
        and (float_inside(u) or graph.spec(u.name).numpy_dtype.kind == "f")
        and (graph.spec(u.name).quantized or graph.spec(u.name).numpy_dtype.kind == "f")
    ]


def exact_and_made(built: Qdq, seed: int) -> Iterator[tuple[Unit, str, BoundedValue, list[Array]]]:
    """Every such output: its float64 value and bound, and what onnxruntime and the simulator make of the same inputs."""
    compiled = compile_model(built.model().SerializeToString(), "m", CompilerOptions(check=False))
    graph, prepared = compiled.graph, random_inputs(compiled.graph, seed)
    reference, simulator = Reference(compiled.integer_onnx, graph), Simulator(graph)
    recorded = {**reference.run(prepared).tensors, **prepared.arrays()}
    for unit in judged_by_ties(graph):
        given = {n: recorded[n] for n in unit.inputs}
        sides = [side.run_unit(unit, given) for side in (reference, simulator)]
        for name in unit.outputs:
            made = [np.asarray(side[name]).reshape(-1) for side in sides]
            if is_stepwise(unit):  # what is exact depends on the side
                yield from _each_side(unit, name, graph, given, sides)
                continue
            for at, holds in evaluate_unit(unit, name, graph, given, np.arange(made[0].size)):
                yield unit, name, holds, [m[at] for m in made]


def _each_side(unit: Unit, name: str, graph: Graph, given: Any, sides: Any) -> Iterator[Any]:
    for own, side in enumerate(sides):
        made = np.asarray(side[name]).reshape(-1)
        for at, holds in evaluate_unit(unit, name, graph, given, np.arange(made.size), side):
            assert isinstance(holds, Real) and holds.ours is not None
            yield unit, name, Real(holds.value, holds.ours) if own else holds, [made[at]] * 2


def outside(holds: BoundedValue, made: Array) -> int:
    """Elements beyond the bound."""
    if isinstance(holds, Whole):
        return int(((made < holds.low) | (made > holds.high)).sum())
    same = (made == holds.value) | (np.isnan(made) & np.isnan(holds.value))
    return int((~same & ~(np.abs(made.astype(np.float64) - holds.value) <= holds.error)).sum())


@pytest.mark.parametrize(("name", "act"), CASES_OF_ACTIVATIONS)
def test_every_side_lies_within_the_bound(name: str, act: str) -> None:
    built = Qdq(*ACTIVATIONS[act], seed=sum(name.encode()))
    CASES[name][0](built)
    for seed in (1, 2):
        for unit, output, holds, made in exact_and_made(built, seed):
            assert [outside(holds, m) for m in made] == [0, 0], (unit.op, output)
            if isinstance(holds, Whole) and holds.ours is not None:  # the simulator's sums are exact
                assert outside(Whole(*holds.ours), made[1]) == 0, (unit.op, output)
                assert ((holds.ours[1] - holds.ours[0]) <= 1).all()
            if isinstance(holds, Real) and holds.ours is not None and not is_stepwise(unit):
                assert outside(Real(holds.value, holds.ours), made[1]) == 0, (unit.op, output)
            if isinstance(holds, Whole) and holds.error is not None and "16" not in act:
                assert float(np.median(holds.error)) < 0.01, (unit.op, output)


ONE_INPUT = {
    **{k: {} for k in ("Sigmoid", "Tanh", "Exp", "Erf", "Sqrt", "HardSwish", "Reciprocal", "Log", "Softplus", "Relu")},
    **{k: {} for k in ("Abs", "Neg", "Elu", "LeakyRelu", "HardSigmoid", "Selu", "Mish", "Softsign", "Sinh", "Cosh")},
    **{
        k: {}
        for k in ("Asinh", "Acosh", "Atanh", "Asin", "Acos", "Atan", "Sin", "Cos", "Tan", "ThresholdedRelu", "Round")
    },
    "Celu": {"alpha": 1.7},
    "Shrink": {"lambd": 0.7, "bias": 0.3},
    "Softmax": {"axis": -1},
    "LRN": {"size": 5},
}
RANGES = {  # of half of x, where the function is not defined everywhere
    **dict.fromkeys(("Log", "Sqrt", "Reciprocal"), (1e-3, 9.0)),
    **dict.fromkeys(("Asin", "Acos"), (-0.5, 0.5)),
    "Acosh": (0.51, 9.0),
    "Atanh": (-0.49, 0.49),
}


@pytest.mark.parametrize("kind", ONE_INPUT)
def test_float_functions_over_wide_ranges(kind: str) -> None:
    """On exact floats of every size, not only those a quantizer leaves; the bound is not a thousand times too wide either."""
    built, worst = Qdq("uint16", seed=3), 0.0
    x = built.input((1, 6, 40, 50), *RANGES.get(kind, (-9.0, 9.0)))
    made = built.op(kind, [built.op("Add", [x, x])], **ONE_INPUT[kind])
    built.output(built.op("Mul", [made, built.constant("half", np.float32(0.37))]))
    for _, output, holds, sides in exact_and_made(built, 5):
        assert isinstance(holds, Real)
        assert [outside(holds, side) for side in sides] == [0, 0], output
        assert holds.ours is None or outside(Real(holds.value, holds.ours), sides[1]) == 0, output
        off = np.abs(sides[0].astype(np.float64) - holds.value) / np.maximum(holds.error, 2.0**-126)
        worst = max(worst, float(off[np.isfinite(off)].max(initial=0.0)))
    assert worst > 0.001


def _index(m: Qdq, name: str, values: list[int]) -> str:
    return m.constant(name, np.array(values, np.int64))


MOVED: dict[str, Callable[[Qdq, str], str]] = {
    "reshape": lambda m, x: m.op("Reshape", [x, _index(m, "shape", [4, 6, 8])]),
    "transpose": lambda m, x: m.op("Transpose", [x], perm=[0, 2, 3, 1]),
    "slice": lambda m, x: m.op("Slice", [x, *(_index(m, n, v) for n, v in zip("abcd", SLICED, strict=True))]),
    "split": lambda m, x: m.op("Split", [x, _index(m, "sizes", [3, 5])], 2, axis=3),
    "gather": lambda m, x: m.op("Gather", [x, _index(m, "index", [3, 0, -1])], axis=1),
    "gather_elements": lambda m, x: m.op(
        "GatherElements", [x, m.constant("i", m.rng.integers(-6, 6, (1, 4, 9, 8)))], axis=2
    ),
    "gather_nd": lambda m, x: m.op("GatherND", [x, m.constant("i", m.rng.integers(-1, 1, (1, 3, 2)))]),
    "gather_nd of batches": lambda m, x: m.op(
        "GatherND", [x, m.constant("i", m.rng.integers(-6, 6, (1, 4, 7, 1)))], batch_dims=2
    ),
    "tile": lambda m, x: m.op("Tile", [x, _index(m, "repeats", [2, 1, 3, 1])]),
    "resize_nearest": lambda m, x: m.op(
        "Resize",
        [x, "", m.constant("scales", np.array([1, 1, 2, 3], np.float32))],
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    "pad": lambda m, x: m.op("Pad", [x, _index(m, "pads", [0, 0, 1, 2, 0, 1, 0, 3]), m.constant("v", np.float32(0.7))]),
    "pad reflected": lambda m, x: m.op("Pad", [x, _index(m, "pads", [0, 0, 1, 2, 0, 0, 2, 3])], mode="reflect"),
    "pad at the edge": lambda m, x: m.op("Pad", [x, _index(m, "pads", [0, 0, 1, 2, 0, 0, 2, 3])], mode="edge"),
    "depth_to_space": lambda m, x: m.op("DepthToSpace", [x], blocksize=2, mode="DCR"),
    "max_pool": lambda m, x: m.op("MaxPool", [x], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]),
    "concat": lambda m, x: m.op("Concat", [x, m.op("Mul", [x, x]), x], axis=1),
    "where": lambda m, x: m.op(
        "Where", [m.constant("mask", m.rng.integers(0, 2, (4, 6, 8)).astype(bool)), x, m.op("Mul", [x, x])]
    ),
}
SLICED = ([1, -2], [6, 0], [2, 3], [2, -3])  # starts, ends, axes, steps


@pytest.mark.parametrize("act", ["u8", "u16"])
@pytest.mark.parametrize("name", MOVED)
def test_values_that_are_moved_between_float_ops(name: str, act: str) -> None:
    """dequantize, a float op, a movement, a float op, quantize: what only moves is exact on every side, the rest within its bound."""
    built = Qdq(*ACTIVATIONS[act], seed=sum(name.encode()))
    x = built.op("Sigmoid", [built.input((1, 4, 6, 8))])
    built.output(built.quantize(built.op("Softmax", [MOVED[name](built, x)], axis=-1)))
    ops = set()
    for unit, output, holds, made in exact_and_made(built, 3):
        ops.add(unit.op)
        assert [outside(holds, m) for m in made] == [0, 0], (unit.op, output)
        if unit.op == name.split()[0]:
            assert isinstance(holds, Real) and not holds.error.any() and np.array_equal(*made)
    assert name.split()[0] in ops


@pytest.mark.parametrize(("mean", "depth"), [(0.0, 7), (3.0, 64), (40.0, 768)])
def test_layer_norm_whose_mean_outweighs_its_deviation(mean: float, depth: int) -> None:
    built = Qdq("uint16", seed=depth)
    x = built.input((1, 23, depth), low=mean - 1.0, high=mean + 1.0)
    spread = built.op("Mul", [x, built.constant("k", built.rng.normal(1, 0.01, depth).astype(np.float32))])
    constants = [built.constant(n, built.rng.normal(1, 0.5, depth).astype(np.float32)) for n in ("g", "b")]
    built.output(built.op("LayerNormalization", [spread, *constants], axis=-1))
    found = [(u.op, outside(h, m)) for u, _, h, sides in exact_and_made(built, 0) for m in sides]
    assert ("layer_norm", 0) in found and not any(count for _, count in found)


def test_a_bias_whose_scale_is_not_quite_that_of_the_products() -> None:
    """Without an integer kernel the reference adds its real value; a bias of 2^26 steps that are 5e-4 too long is 33,554 steps off."""
    built = Qdq("uint16", seed=4)
    x = built.input((3, 64))
    steps = built.constants["in0_scale"] * np.float32(0.01) * np.float32(1.0005)
    built.constant("w_i8", built.rng.integers(-127, 128, (7, 64)).astype(np.int8))
    built.constant("w_scale", np.full(7, 0.01, np.float32)), built.constant("w_zp", np.zeros(7, np.int8))
    built.op("DequantizeLinear", ["w_i8", "w_scale", "w_zp"], "w_dq", axis=0)
    built.constant("b_i32", np.full(7, 1 << 26, np.int32)), built.constant("b_zp", np.zeros(7, np.int32))
    built.constant("b_scale", np.full(7, steps, np.float32))
    bias = built.op("DequantizeLinear", ["b_i32", "b_scale", "b_zp"], "b_dq", axis=0)
    built.output(built.quantize(built.op("Gemm", [x, "w_dq", bias], transB=1)))
    found = {u.op: [outside(h, m) for m in sides] for u, _, h, sides in exact_and_made(built, 0)}
    assert found["fully_connected"] == [0, 0]


def test_the_multipliers_of_an_integer_mode_have_no_evaluation() -> None:
    built = Qdq("uint16", seed=1)
    CASES["conv_relu"][0](built)
    graph = compile_model(built.model().SerializeToString(), "m", CompilerOptions("mul15", check=False)).graph
    whys = {explain_missing_evaluation(u, graph) for u in units(graph) if u.op == "conv"}
    assert whys == {"no float64 evaluation of conv with mul15's multipliers"}


def test_what_cancels_leaves_the_error_of_its_terms() -> None:
    """Outputs a few hundred times smaller than the terms of their sums: the reference is off by more than 2^-18 of the outputs, and
    neither the compiler's check nor the judgement blames anyone for it; a fault a little above is blamed."""
    built = Qdq("uint8", seed=6)
    x = built.op("Add", [built.input((49, 4608), -0.1, 0.1), built.constant("two", np.float32(2))])
    w = built.rng.normal(0, 0.05, (4608, 512))
    y = built.op("MatMul", [x, built.constant("w", (w - w.mean(0)).astype(np.float32))])
    built.output(y)
    compiled = compile_model(built.model().SerializeToString(), "m")
    assert compiled.graph.meta["check"]["over"] == []
    graph, prepared = compiled.graph, random_inputs(compiled.graph, 1)
    unit = next(u for u in units(graph) if u.name == y)
    given = {unit.inputs[0]: Simulator(graph).run(prepared).tensors[unit.inputs[0]]}
    made = Reference(compiled.integer_onnx, graph).run_unit(unit, given)[y]
    ours = Simulator(graph).run_unit(unit, given)[y]
    assert np.abs(made - ours).max() > 2.0**-18 * np.abs(made).max()
    plain = limit_for(unit, y, graph)
    limit, tie_aware_limit = choose_tie_aware_limit(plain, unit, y, graph)
    assert tie_aware_limit
    faulty = ours.copy()
    faulty[3, 5] += np.float32(0.05)
    found = [check_both(ExactUnit(unit, y, graph, given), made, side, limit, plain) for side in (ours, faulty)]
    assert [r.holds for r in found if isinstance(r, TieAwareResult)] == [True, False]
