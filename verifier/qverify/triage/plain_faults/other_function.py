"""A table contains another function than the network's: an approximation of it, or a wrong one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.arithmetic import functions64
from qverify.arithmetic.float32 import erf64, sigmoid64, tanh64
from qverify.triage.case import Array, Case, UnitChange, limits
from qverify.triage.hypotheses import FaultVariant

NAME = "other-function"
OPS = ("lookup",)
SQRT_HALF, SQRT_2_PI = 0.7071067811865476, 0.7978845608028654
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "x sigmoid(1.702 x)": lambda x: x * sigmoid64(1.702 * x),
    "x sigmoid(x) (SiLU)": lambda x: x * sigmoid64(x),
    "Gelu with erf": lambda x: 0.5 * x * (1.0 + erf64(x * SQRT_HALF)),
    "Gelu with tanh": lambda x: 0.5 * x * (1.0 + tanh64(SQRT_2_PI * (x + 0.044715 * x * x * x))),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "sigmoid": sigmoid64,
    "HardSigmoid with the slope 0.2": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "HardSigmoid with the slope 1/6": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "tanh": tanh64,
    "x limited to -1..1": lambda x: np.clip(x, -1, 1),
    "Relu": lambda x: np.maximum(x, 0),
    "Relu limited to 6": lambda x: np.clip(x, 0, 6),
    "the identity": lambda x: x,
    "|x|": np.abs,
    "Elu": lambda x: np.where(x > 0, x, functions64.expm1(np.minimum(x, 0))),
    "Softplus": lambda x: np.maximum(x, 0) + functions64.log1p(functions64.exp(-np.abs(x))),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "exp": functions64.exp,
    "exp with base 2": functions64.exp2,
    "LeakyRelu with the slope 0.01": lambda x: np.where(x > 0, x, 0.01 * x),
    "LeakyRelu with the slope 0.1": lambda x: np.where(x > 0, x, 0.1 * x),
}


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op != "lookup" or len(case.unit.nodes) > 1:
        return
    x, y = case.graph.spec(case.last.inputs[0] or ""), case.spec
    table = case.graph.constants.get(case.last.inputs[1] or "")
    one_scale = x.quantized and y.quantized and len(x.scale) == len(y.scale) == 1
    if not one_scale or y.numpy_dtype.kind not in "iu" or table is None or table.ndim != 1:
        return
    for text, function in FUNCTIONS.items():
        yield FaultVariant(f"the table is that of {text}", partial(_with_table, function=function), 5.0)


def _with_table(case: Case, function: Callable[[Array], Array]) -> Array:
    name, x, y = case.last.inputs[1] or "", case.graph.spec(case.last.inputs[0] or ""), case.spec
    table = case.graph.constants[name]
    real = (np.arange(len(table), dtype=np.float64) + limits(x)[0] - x.zero_point[0]) * x.scale[0]
    values = np.rint(function(real) / np.float64(y.scale[0])) + y.zero_point[0]
    return case.recompute(UnitChange(constants={name: np.clip(values, *limits(y)).astype(table.dtype)}))
