"""A region is not excused by a bound without a limit or too wide; equal infinities inside of it agree."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.compare.region_verdict import RecomputedRegion, judge_region
from qverify.compare.regions import Region
from qverify.model_bin.float_functions import FUNCTIONS
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import Unit
from qverify.report.document import Forced
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

SHAPE = (64,)


def unit_of(node: Node) -> Unit:
    return Unit(node.name, node.op, (node,), tuple(n for n in node.inputs if n), node.outputs, True)


def region_of(nodes: list[Node], inputs: tuple[str, ...]) -> Region:
    return Region("y", "+".join(n.op for n in nodes), tuple(nodes), inputs, ("y",), True, tuple(map(unit_of, nodes)))


def apply(function: str, y: str, *inputs: str) -> Node:
    return Node(y, "elementwise_float", inputs, (y,), (FUNCTIONS[function].number, 0, 0))


def judge(nodes: list[Node], given: dict[str, Array], made: Array, recorded: Array) -> Forced:
    """Judges the region of these nodes, whose tensors are float32 unless y is of integers."""
    names = {*given, *(n.outputs[0] for n in nodes)}
    specs = {n: TensorSpec(n, "float32", SHAPE) for n in names}
    if made.dtype.kind != "f":
        specs["y"] = TensorSpec("y", made.dtype.name, SHAPE, scale=(2.0**24,), zero_point=(0,))
    graph = Graph(nodes, specs, {}, tuple(given), ("y",))
    differ = int(np.count_nonzero(made != recorded))
    measured = Forced("FAILED", 1, differ, by="reference", on="board", elements=made.size)
    return judge_region(
        RecomputedRegion(region_of(nodes, tuple(given)), "y", graph, given, made, recorded, 0.5e-5), measured
    )


def cancelling(near_zero: int) -> tuple[list[Node], dict[str, Array], Array]:
    """Returns s = b * c + d, of which the first elements are not larger than the error of b * c; with the inputs and
    s."""
    b, c, d = (np.ones(SHAPE, np.float32) for _ in range(3))
    b[:near_zero], c[:near_zero], d[:near_zero] = 1 + 2.0**-12, 1 - 2.0**-12, -1
    nodes = [apply("mul", "t", "b", "c"), apply("add", "s", "t", "d")]
    return nodes, {"b": b, "c": c, "d": d}, b * c + d


def quotients(near_zero: int, quantized: bool) -> tuple[list[Node], dict[str, Array], Array]:
    """Returns y = a / s, of which the first elements may have any value; with the inputs and y."""
    nodes, given, s = cancelling(near_zero)
    nodes.append(apply("div", "q" if quantized else "y", "a", "s"))
    given["a"] = np.ones(SHAPE, np.float32)
    made = (given["a"] / s).astype(np.float32)
    if quantized:
        nodes.append(Node("y", "quantize", ("q",), ("y",)))
        made = np.clip(np.rint(made / 2.0**24), -128, 127).astype(np.int8)
    return nodes, given, made


@pytest.mark.parametrize("near_zero", [1, 64])
@pytest.mark.parametrize("quantized", [False, True])
def test_a_bound_without_a_limit_excuses_nothing(near_zero: int, quantized: bool) -> None:
    nodes, given, made = quotients(near_zero, quantized)
    recorded = made.copy()
    recorded[:near_zero] = np.random.default_rng(0).integers(-128, 128, near_zero)
    found = judge(nodes, given, made, recorded)
    assert found.verdict == "INCONCLUSIVE", found
    elements = "1 element" if near_zero == 1 else "64 elements"
    assert found.why.startswith(f"the carried bound of {elements} has no limit"), found.why


@pytest.mark.parametrize("quantized", [False, True])
def test_what_has_a_limit_is_a_finding_beside_what_has_none(quantized: bool) -> None:
    nodes, given, made = quotients(1, quantized)
    recorded = made.copy()
    recorded[5] += 100
    found = judge(nodes, given, made, recorded)
    assert found.verdict == "FAILED" and found.unexplained == 1 and "first [5]" in found.why
    assert found.limit == "none at 1 element, with no rounding inside"


def test_no_alternative_has_a_wider_bound_than_the_region_may_have() -> None:
    nodes, given, s = cancelling(64)
    nodes.append(apply("mul", "y", "s", "f"))
    given["f"] = np.full(SHAPE, 2.0**24, np.float32)
    made = s * given["f"]
    assert (made == -1).all()
    found = judge(nodes, given, made, np.linspace(-1.9, -0.1, 64).astype(np.float32))
    assert found.verdict == "INCONCLUSIVE" and "too wide" in found.why, found
    assert judge(nodes, given, made, np.full(SHAPE, 3, np.float32)).verdict == "FAILED"


def masked(values: list[float]) -> tuple[list[Node], dict[str, Array], Array]:
    """Returns y = x * f + mask with the mask's values for the first elements, 0 for the others; the inputs and y."""
    x, f, mask = np.linspace(-2, 2, 64).astype(np.float32), np.full(SHAPE, 0.3, np.float32), np.zeros(SHAPE, np.float32)
    mask[: len(values)] = values
    nodes = [apply("mul", "t", "x", "f"), apply("add", "y", "t", "mask")]
    return nodes, {"x": x, "f": f, "mask": mask}, x * f + mask


def test_infinities_alike_on_both_sides_agree() -> None:
    nodes, given, made = masked([-np.inf, np.inf, -np.inf])
    recorded = made.copy()
    recorded[40] = np.nextafter(made[40], np.float32(9))
    found = judge(nodes, given, made, recorded)
    assert found.verdict == "PASSED", found
    recorded[41] += 0.01
    found = judge(nodes, given, made, recorded)
    assert found.verdict == "FAILED" and found.unexplained == 1 and "first [41]" in found.why
    assert found.limit.startswith("up to ") and "inf" not in found.limit


@pytest.mark.parametrize("instead", [np.inf, np.nan, -3.4e38, 0.0])
def test_an_infinity_on_one_side_does_not_pass(instead: float) -> None:
    nodes, given, made = masked([-np.inf] * 3)
    recorded = made.copy()
    recorded[1] = instead
    assert judge(nodes, given, made, recorded).verdict != "PASSED"


def test_a_region_with_one_rounding_is_not_right_because_it_is_rounded_down() -> None:
    """Nothing inside is rounded, so that no habit of the board shows: the output alone is one-sided."""
    steps = np.random.default_rng(4).uniform(-100, 100, SHAPE)
    given = {"b": (steps * 2.0**24).astype(np.float32), "c": np.ones(SHAPE, np.float32)}
    nodes = [apply("mul", "q", "b", "c"), Node("y", "quantize", ("q",), ("y",))]
    exact = given["b"] / 2.0**24
    found = judge(nodes, given, np.rint(exact).astype(np.int8), np.floor(exact).astype(np.int8))
    assert found.verdict == "FAILED", found


@pytest.mark.parametrize(("off", "verdict"), [(0.0, "PASSED"), (0.002, "PASSED"), (1.0, "FAILED"), (0.3, "FAILED")])
def test_a_batch_normalization_between_quantizations_is_held_to_ties(off: float, verdict: str) -> None:
    rng = np.random.default_rng(3)
    shape = (1, 4, 9, 9)
    x = rng.integers(-128, 128, shape).astype(np.int8)
    k, b = (rng.normal(size=4).astype(np.float32) for _ in range(2))
    specs = {
        "x": TensorSpec("x", "int8", shape, scale=(0.02,), zero_point=(3,)),
        "k": TensorSpec("k", "float32", (4,)),
        "b": TensorSpec("b", "float32", (4,)),
    }
    specs |= {n: TensorSpec(n, "float32", shape) for n in ("d", "n")}
    specs |= {n: TensorSpec(n, "int8", shape, scale=(0.03,), zero_point=(-5,)) for n in ("q", "y")}
    nodes = [
        Node("d", "dequantize", ("x",), ("d",)),
        Node("n", "batch_norm", ("d", "k", "b"), ("n",)),
        Node("q", "quantize", ("n",), ("q",)),
        Node("y", "reshape", ("q",), ("y",)),
    ]
    graph = Graph(nodes, specs, {"k": k, "b": b}, ("x",), ("y",))
    along = (1, 4, 1, 1)
    real = (x.astype(np.float64) - 3) * float(np.float32(0.02)) * k.reshape(along) + b.reshape(along)
    steps = real / float(np.float32(0.03)) - 5
    made, recorded = (np.clip(np.rint(v), -128, 127).astype(np.int8) for v in (steps, steps + off))
    differ = int(np.count_nonzero(made != recorded))
    measured = Forced("FAILED", 1, differ, by="reference", on="board", elements=made.size)
    region = RecomputedRegion(region_of(nodes, ("x",)), "y", graph, {"x": x}, made, recorded, 0.5e-5)
    found = judge_region(region, measured)
    assert found.verdict == verdict and (verdict == "PASSED" or f"all {differ} too high by 1 LSB" in found.why)
