"""The accumulator is requantized in another rounding mode, with fewer multiplier bits, or cut off instead of
rounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.arithmetic.multipliers import add_parameters, parameters
from qverify.model_bin.graph import ROUNDINGS
from qverify.triage.case import Array, Case, UnitChange
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import Linear, linear, required_linear
from qverify.triage.pre_rounding import add_ratios, pre_rounding

NAME = "rounding"
RULES: dict[str, Callable[[Array], Array]] = {
    "to the nearest, ties to even": np.rint,
    "to the nearest, ties away from zero": lambda v: np.copysign(np.floor(np.abs(v) + 0.5), v),
    "to the nearest, ties up": lambda v: np.floor(v + 0.5),
    "to the nearest, ties down": lambda v: np.ceil(v - 0.5),
    "to the nearest, ties toward zero": lambda v: np.copysign(np.ceil(np.abs(v) - 0.5), v),
    "down (floor)": np.floor,
    "toward zero": np.trunc,
    "up (ceiling)": np.ceil,
    "away from zero": lambda v: np.copysign(np.ceil(np.abs(v)), v),
}


def variants(case: Case) -> Iterator[FaultVariant]:
    if not case.spec.quantized:
        return
    sums = linear(case)
    if sums is not None:
        yield from _yield_modes(case, sums)
        for text, product in _PRODUCTS.items():
            for rule, rounded in RULES.items():
                yield FaultVariant(f"rounding {rule}, {text}", partial(_by_product, product=product, rounded=rounded))
        yield FaultVariant("rounding: 31-bit multiplier, truncated (floor)", _yield_truncations)
    elif case.last.op == "add":
        yield from _yield_addition_faults(case)
    elif case.last.op == "average_pool":
        yield from _yield_average_pool_faults(case)
    if pre_rounding(case) is not None:
        for rule, rounded in RULES.items():
            yield FaultVariant(f"rounding {rule}", partial(_by_rule, rounded=rounded))
            yield FaultVariant(f"rounding {rule}, the zero point added before", partial(_with_zero, rounded=rounded))


def _yield_modes(case: Case, sums: Linear) -> Iterator[FaultVariant]:
    for mode in ROUNDINGS[1:]:
        if mode != case.graph.rounding:
            yield FaultVariant(f"rounding {mode}", partial(_in_mode, mode=mode))
    if case.graph.rounding != "ref-exact":
        yield FaultVariant("rounding ref-exact", partial(_in_float, dtype="float32"))
    yield FaultVariant("rounding by a float64 product", partial(_in_float, dtype="float64"))


def _in_mode(case: Case, mode: str) -> Array:
    sums = required_linear(case)
    return sums.output(rq=parameters(mode, sums.real, sums.wide), rounding=mode)


def _in_float(case: Case, dtype: str) -> Array:
    sums = required_linear(case)
    return sums.output(rq=sums.real.astype(dtype))


def _single(sums: Linear) -> Array:
    """Returns the accumulator multiplied by a single float32 scale, rounded to float32."""
    return sums.acc.astype(np.float32) * sums.along(sums.real.astype(np.float32))


def _double(sums: Linear) -> Array:
    return sums.acc.astype(np.float64) * sums.along(sums.real)


_PRODUCTS: dict[str, Callable[[Linear], Array]] = {"float32 product": _single, "float64 product": _double}


def _by_product(case: Case, product: Callable[[Linear], Array], rounded: Callable[[Array], Array]) -> Array:
    sums = required_linear(case)
    return sums.finished(rounded(product(sums)))


def _yield_truncations(case: Case) -> Array:
    sums = required_linear(case)
    multiplier, shift = parameters("mul31", sums.real, sums.wide).astype(np.int64)
    product = sums.acc * sums.along(multiplier)
    return sums.finished(product >> sums.along(shift))


def _yield_addition_faults(case: Case) -> Iterator[FaultVariant]:
    for mode in ROUNDINGS[1:]:
        if mode != case.graph.rounding:
            yield FaultVariant(f"rounding {mode}", partial(_add_in_mode, mode=mode, shift=mode))
    yield FaultVariant("rounding: 30-bit multipliers, floor", partial(_add_in_mode, mode="mul31", shift="pow2-floor"))
    yield FaultVariant("rounding by a float64 sum", lambda case: case.recompute(_add_change(case, add_ratios(case))))


def _add_change(case: Case, rq: Array, rounding: str = "") -> UnitChange:
    """Returns the change of an addition to other parameters. rq is not float32, so that its order is that of the
    operands."""
    return UnitChange(constants={case.last.inputs[2] or "": rq}, rounding=rounding)


def _add_in_mode(case: Case, mode: str, shift: str) -> Array:
    first, second = add_ratios(case)
    return case.recompute(_add_change(case, add_parameters(mode, float(first), float(second)), shift))


def _yield_average_pool_faults(case: Case) -> Iterator[FaultVariant]:
    for mode in ROUNDINGS[1:]:
        if mode != case.graph.rounding:
            yield FaultVariant(f"rounding {mode}", partial(_pool_in_mode, mode=mode))
    ratio = np.float64(case.graph.spec(case.last.inputs[0] or "").scale[0]) / np.float64(case.spec.scale[0])
    yield FaultVariant(
        "rounding by a float64 mean",
        lambda case: case.recompute(UnitChange(constants={case.last.inputs[1] or "": np.array([ratio])})),
    )


def _pool_in_mode(case: Case, mode: str) -> Array:
    node, graph = case.last, case.graph
    ratio = np.float64(graph.spec(node.inputs[0] or "").scale[0]) / np.float64(case.spec.scale[0])
    counts = np.arange(node.words[0] * node.words[1], dtype=np.float64) + 1
    return case.recompute(UnitChange(constants={node.inputs[1] or "": parameters(mode, ratio / counts)}, rounding=mode))


def _by_rule(case: Case, rounded: Callable[[Array], Array]) -> Array:
    value = pre_rounding(case)
    assert value is not None
    low, high = value.low, value.high
    return np.clip(rounded(value.steps) + value.zero_point, low, high).astype(case.spec.numpy_dtype)


def _with_zero(case: Case, rounded: Callable[[Array], Array]) -> Array:
    value = pre_rounding(case)
    assert value is not None
    return np.clip(rounded(value.steps + value.zero_point), value.low, value.high).astype(case.spec.numpy_dtype)
