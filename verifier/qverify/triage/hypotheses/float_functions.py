"""A function of float32 (log, erf, tanh, sigmoid, gelu, square root, reciprocal, division) is an approximation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from qverify.model_bin.graph import Graph, Node
from qverify.ops import page, with_one_nan
from qverify.triage.altered_kernels import approximate_functions as approximate
from qverify.triage.altered_kernels.approximate_arc_tangents import arc_tangents
from qverify.triage.altered_kernels.approximate_roots import reciprocals, sqrts
from qverify.triage.altered_kernels.float_formats import in_float32
from qverify.triage.altered_kernels.replaced_functions import USES, Functions, function_of, kernels_with, uses
from qverify.triage.altered_kernels.replaced_kernels import kernel_variant, nodes_of
from qverify.triage.altered_kernels.row_sample import fitting_rows
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "float-functions"
LATE = 1
OPS = ("elementwise_float", "softmax_float", "log_softmax", "lrn")
Function = Callable[[Array], Array]
INNER: dict[str, Callable[[], Iterator[tuple[str, Function]]]] = {
    "tanh": approximate.hyperbolic_tangents,
    "sigmoid": approximate.sigmoids,
    "atan": arc_tangents,
}


def variants(case: Case) -> Iterator[FaultVariant]:
    if any(map(partial(uses, case), USES)) or nodes_of(case, "elementwise_float"):
        yield from fitting_rows(case, _faults(case))


def _faults(case: Case) -> Iterator[FaultVariant]:
    for name, functions in INNER.items():
        if uses(case, name):
            for how, function in _also_in_float32(functions()):
                replaced: Mapping[str, Any] = {name: function}
                yield kernel_variant(f"{name} is computed {how}", kernels_with(Functions(**replaced)))
    if any(function_of(n) == "gelu" for n in nodes_of(case, "elementwise_float")):
        for how, function in _also_in_float32(approximate.gelus()):
            kernel = partial(_only, name="gelu", function=function)
            yield kernel_variant(f"gelu is computed {how}", {"elementwise_float": kernel})
    if uses(case, "log"):
        for how, function in _also_in_float32(approximate.logarithms()):
            yield kernel_variant(f"the logarithm is computed {how}", kernels_with(Functions(log=function)))
    if uses(case, "erf"):
        for how, function in _also_in_float32(approximate.error_functions()):
            yield kernel_variant(f"the error function is computed {how}", kernels_with(Functions(erf=function)))
    if uses(case, "sqrt"):
        for how, function in sqrts().items():
            yield kernel_variant(f"the square root is computed {how}", kernels_with(Functions(sqrt=function)))
    if uses(case, "divide"):
        yield from _quotients()


def _also_in_float32(functions: Iterator[tuple[str, Function]]) -> Iterator[tuple[str, Function]]:
    """Yields the functions, and then those that are formulas once more in float32 arithmetic."""
    formulas = list[tuple[str, Function]]()
    for how, function in functions:
        yield how, function
        if not re.search("table|rounded|float32", how):
            formulas.append((how, function))
    for how, function in formulas:
        yield f"{how}, in float32", partial(in_float32, function=function)


def _only(node: Node, inputs: list[Array], graph: Graph, name: str, function: Function) -> Array:
    """Computes a node of this function with another function; other nodes are computed by the simulator."""
    if function_of(node) == name:
        return function(inputs[0].astype(np.float64))
    values: list[Array | None] = list(inputs)
    return with_one_nan(page("elementwise_float").simulate(node, values, graph, None)[0])


def _quotients() -> Iterator[FaultVariant]:
    for how, function in reciprocals().items():
        for text, product in PRODUCTS.items():
            divide = partial(_times, function=function, product=product)
            yield kernel_variant(
                f"a quotient a/b is computed as a times 1/b{text}, and 1/b {how}",
                kernels_with(Functions(divide=divide)),
            )
    yield kernel_variant("a quotient a/b is computed as b/a", kernels_with(Functions(divide=lambda a, b: b / a)))


PRODUCTS: dict[str, Callable[[Array, Array], Array]] = {
    "": np.multiply,
    " in float32": lambda a, r: (np.float32(a) * r.astype(np.float32)).astype(np.float64),
}


def _times(a: Array, b: Array, function: Function, product: Callable[[Array, Array], Array]) -> Array:
    return product(a, function(b))
