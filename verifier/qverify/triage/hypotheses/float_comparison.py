"""The float maximum or minimum, or another function of two operands, compares or combines its operands by their bits,
by their absolute values, or in another format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.model_bin.graph import Graph, Node
from qverify.ops import page, with_one_nan
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.float_formats import NARROW
from qverify.triage.altered_kernels.replaced_functions import function_of
from qverify.triage.altered_kernels.replaced_kernels import kernel_variant, nodes_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "float-comparison"
OPS = ("elementwise_float",)
Pair = Callable[[Array, Array], Array]
Key = Callable[[Array], Array]
F = np.float32


def _integers(x: Array) -> Array:
    return np.ascontiguousarray(x, F).view(np.int32).astype(np.int64)


def _unsigned(x: Array) -> Array:
    return np.ascontiguousarray(x, F).view(np.uint32).astype(np.int64)


KEYS: dict[str, Key] = {
    "the bit patterns of the operands as signed integers (of two negative numbers the wrong one is taken)": _integers,
    "the bit patterns of the operands as unsigned integers (a negative number counts as larger than any other)": _unsigned,
    "the upper 16 bits of the operands as signed integers": lambda x: _integers(x) >> 16,
    "the absolute values of the operands": np.abs,
    "the operands as whole numbers (truncated)": np.trunc,
    "the operands as whole numbers (rounded down)": np.floor,
    "the operands as whole numbers (rounded)": np.rint,
    "the signs of the operands": np.sign,
    **{f"the operands in {name}": bind_last(lambda x, f: f(x.astype(float)), f) for name, f in NARROW.items()},
}
ONE_OPERAND: dict[str, Pair] = {
    "returns the first operand": lambda a, b: a + 0 * b,
    "returns the second operand": lambda a, b: b + 0 * a,
    "returns the maximum of the first operand and 0": lambda a, b: np.maximum(a, 0) + 0 * b,
    "returns the maximum of the second operand and 0": lambda a, b: np.maximum(b, 0) + 0 * a,
    "returns the larger absolute value": lambda a, b: np.maximum(np.abs(a), np.abs(b)),
    "returns the smaller absolute value": lambda a, b: np.minimum(np.abs(a), np.abs(b)),
    "returns the mean of the operands": lambda a, b: (a + b) / 2,
}
PAIRS: dict[str, dict[str, Pair]] = {
    "div": {
        "multiplies": lambda a, b: a * b,
        "divides by the absolute value": lambda a, b: a / np.abs(b),
        "truncates the quotient to a whole number": lambda a, b: np.trunc(a / b),
        "rounds the quotient to a whole number": lambda a, b: np.rint(a / b),
        "returns 0 where the divisor is 0": lambda a, b: np.where(b == 0, 0, a / np.where(b == 0, 1, b)),
        "returns the dividend where the divisor is 0": lambda a, b: np.where(b == 0, a, a / np.where(b == 0, 1, b)),
        **{
            f"adds {eps:g} to the divisor": bind_last(lambda a, b, e: a / (b + e), eps)
            for eps in (1e-3, 1e-5, 1e-6, 1e-7, 1e-8, 1e-12)
        },
        **{
            f"takes divisors of less than {eps:g} (in size) as {eps:g}": bind_last(
                lambda a, b, e: a / np.where(np.abs(b) < e, np.copysign(e, b), b), eps
            )
            for eps in (1e-2, 1e-3, 1e-5, 1e-6, 1e-7)
        },
    },
    "sub": {
        "returns the absolute difference": lambda a, b: np.abs(a - b),
        "does not return less than 0": lambda a, b: np.maximum(a - b, 0),
    },
    "add": {"adds the absolute values": lambda a, b: np.abs(a) + np.abs(b)},
    "mul": {"multiplies by the absolute value of the second operand": lambda a, b: a * np.abs(b)},
}


def variants(case: Case) -> Iterator[FaultVariant]:
    for name in dict.fromkeys(function_of(n) for n in nodes_of(case, "elementwise_float")):
        if name in ("max", "min"):
            for text, key in KEYS.items():
                chosen = partial(_chosen, key=key, least=name == "min")
                yield _variant(f"float {name}imum compares {text}", name, chosen, 3.0 if key is _integers else 6.0)
            for text, pair in ONE_OPERAND.items():
                yield _variant(f"float {name}imum {text}", name, pair)
        for text, pair in PAIRS.get(name, {}).items():
            yield _variant(f"float {name} {text}", name, pair)


def _variant(text: str, name: str, pair: Pair, bits: float = 4.0) -> FaultVariant:
    return kernel_variant(text, {"elementwise_float": partial(_two, name=name, pair=pair)}, bits)


def _chosen(a: Array, b: Array, key: Key, least: bool) -> Array:
    a, b = np.broadcast_arrays(a, b)
    first, second = key(a.astype(F)), key(b.astype(F))
    return np.where(first <= second if least else first >= second, a, b)


def _two(node: Node, inputs: list[Array], graph: Graph, name: str, pair: Pair) -> Array:
    if function_of(node) == name:
        return pair(*(v.astype(np.float64) for v in inputs))
    values: list[Array | None] = list(inputs)
    return with_one_nan(page("elementwise_float").simulate(node, values, graph, None)[0])
