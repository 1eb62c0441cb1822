"""A float operation of one or two tensors works in a narrower format, ignores or changes its parameters, flushes small
numbers to 0, or repeats a smaller operand wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.arithmetic.float32 import exp64, log64, pow64
from qverify.model_bin.graph import Graph, Node
from qverify.ops import float_word, page, with_one_nan
from qverify.ops.elementwise_float import TWO
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.float_formats import FIXED, FORMATS, Format, exactly, flushed
from qverify.triage.altered_kernels.other_functions import MORE
from qverify.triage.altered_kernels.replaced_functions import function_of
from qverify.triage.altered_kernels.replaced_kernels import kernel_variant, nodes_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "float-elements"
OPS = ("elementwise_float",)
One = Callable[[Array, float, float], Array]


def _power(x: Array, exponent: float) -> Array:
    """Returns x to this power; NaN for a negative x and an exponent that is not whole."""
    size, odd = pow64(np.abs(x), exponent), exponent % 2 == 1
    return np.where(x < 0, (-size if odd else size) if exponent == int(exponent) else np.nan, size)


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + log64(1 + exp64(-np.abs(x)))


OTHERS: dict[str, dict[str, One]] = {
    "relu": {
        "limits at 6 (relu6)": lambda x, p, q: np.clip(x, 0, 6),
        "limits at 1": lambda x, p, q: np.clip(x, 0, 1),
        "returns the absolute value": lambda x, p, q: np.abs(x),
        "leaks 0.01 of negative values": lambda x, p, q: np.where(x < 0, 0.01 * x, x),
        "returns its input": lambda x, p, q: x,
    },
    "clip": {
        "ignores the lower limit": lambda x, p, q: np.minimum(x, q),
        "ignores the upper limit": lambda x, p, q: np.maximum(x, p),
        "takes 0 as the lower limit": lambda x, p, q: np.clip(x, 0, q),
        "exchanges its limits": lambda x, p, q: np.where(x < q, q, np.where(x > p, p, x)),
        "takes minus the upper limit as the lower": lambda x, p, q: np.clip(x, -q, q),
        "wraps into its range": lambda x, p, q: p + np.mod(x - p, q - p),
    },
    "leaky_relu": {
        "ignores its slope (as relu)": lambda x, p, q: np.maximum(x, 0),
        "takes the slope 0.01": lambda x, p, q: np.where(x < 0, 0.01 * x, x),
        "takes the slope 0.1": lambda x, p, q: np.where(x < 0, 0.1 * x, x),
        "takes the slope 0.2": lambda x, p, q: np.where(x < 0, 0.2 * x, x),
        "divides by its slope": lambda x, p, q: np.where(x < 0, x / p, x),
        "multiplies positive values instead": lambda x, p, q: np.where(x > 0, p * x, x),
        "multiplies all values by its slope": lambda x, p, q: p * x,
        "adds its slope": lambda x, p, q: np.where(x < 0, x + p, x),
        "returns the maximum of x and slope*x": lambda x, p, q: np.maximum(x, p * x),
        "returns slope times the absolute value": lambda x, p, q: np.where(x < 0, -p * x, x),
    },
    "elu": {
        "ignores its alpha": lambda x, p, q: np.where(x < 0, exp64(x) - 1, x),
        "multiplies exp(x) alone by alpha": lambda x, p, q: np.where(x < 0, p * exp64(x) - 1, x),
        "leaves out the -1": lambda x, p, q: np.where(x < 0, p * exp64(x), x),
        "computes exp(x) - 1 in float32": lambda x, p, q: np.where(
            x < 0, p * (exp64(x).astype(np.float32) - np.float32(1)), x
        ),
        "takes x for exp(x) - 1": lambda x, p, q: np.where(x < 0, p * x, x),
        "is selu": lambda x, p, q: 1.0507009873554805 * np.where(x < 0, 1.6732632423543772 * (exp64(x) - 1), x),
    },
    "hard_sigmoid": {
        f"computes {a:g} x + {b:g}": bind_last(lambda x, p, q, a, b: np.clip(a * x + b, 0, 1), a, b)
        for a in (0.2, 1 / 6, 0.25, 0.125, 1.0)
        for b in (0.5, 0.0)
    }
    | {
        "ignores its offset": lambda x, p, q: np.clip(p * x, 0, 1),
        "ignores its slope": lambda x, p, q: np.clip(x + q, 0, 1),
        "is not limited above": lambda x, p, q: np.maximum(p * x + q, 0),
        "is not limited below": lambda x, p, q: np.minimum(p * x + q, 1),
        "adds before it multiplies": lambda x, p, q: np.clip(p * (x + q), 0, 1),
        "rounds once (fused)": lambda x, p, q: np.clip(p * x + q, 0, 1),
    },
    "hard_swish": {
        "does not multiply by x": lambda x, p, q: np.clip(x / 6 + 0.5, 0, 1),
        "computes 0.2 x + 0.5": lambda x, p, q: x * np.clip(0.2 * x + 0.5, 0, 1),
        "multiplies by 0.1666 for 1/6": lambda x, p, q: x * np.clip(0.1666 * x + 0.5, 0, 1),
        "multiplies by 0.16667 for 1/6": lambda x, p, q: x * np.clip(0.16667 * x + 0.5, 0, 1),
        "multiplies by the float32 nearest 1/6": lambda x, p, q: x * np.clip(float(np.float32(1 / 6)) * x + 0.5, 0, 1),
        "multiplies by the float16 nearest 1/6": lambda x, p, q: x * np.clip(float(np.float16(1 / 6)) * x + 0.5, 0, 1),
        "is x times sigmoid(x)": lambda x, p, q: x / (1 + exp64(-x)),
        "does not divide by 6": lambda x, p, q: x * np.clip(x + 3, 0, 6),
        "divides by 8": lambda x, p, q: x * np.clip(x + 3, 0, 6) / 8,
        "has no upper limit": lambda x, p, q: x * np.maximum(x / 6 + 0.5, 0),
        "has no lower limit": lambda x, p, q: x * np.minimum(x / 6 + 0.5, 1),
        "takes the limit 1 before 0.5 is added": lambda x, p, q: x * (np.clip(x / 6, 0, 1) + 0.5),
    },
    "softplus": {
        **{
            f"returns x above {n}": bind_last(lambda x, p, q, n: np.where(x > n, x, _softplus(x)), n)
            for n in (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30)
        },
        **{
            f"returns 0 below {-n}": bind_last(lambda x, p, q, n: np.where(x < -n, 0.0, _softplus(x)), n)
            for n in (1, 2, 3, 4, 5, 6, 8, 10, 15, 20)
        },
        "is relu(x)": lambda x, p, q: np.maximum(x, 0),
        "leaves out the term in x": lambda x, p, q: log64(1 + exp64(-np.abs(x))),
        "computes 1 + exp in float32": lambda x, p, q: (
            np.maximum(x, 0) + log64((1 + exp64(-np.abs(x)).astype(np.float32)).astype(float))
        ),
        "computes log(1 + exp(x)) in float32, without the absolute value": lambda x, p, q: log64(
            (1 + exp64(x).astype(np.float32)).astype(np.float64)
        ).astype(np.float32),
    },
    "pow": {
        "takes the exponent as a whole number": lambda x, p, q: _power(x, float(int(p))),
        "takes the exponent 2": lambda x, p, q: x * x,
        "takes the absolute value of the base": lambda x, p, q: pow64(np.abs(x), p),
        "multiplies by the exponent": lambda x, p, q: x * p,
        "squares in float64": lambda x, p, q: _power(x, p),
        "returns the inverse": lambda x, p, q: 1 / _power(x, p),
        "takes negative bases as 0": lambda x, p, q: pow64(np.maximum(x, 0), p),
        "keeps the sign of the base": lambda x, p, q: np.copysign(pow64(np.abs(x), p), x),
    },
    "sqrt": {
        "takes the absolute value": lambda x, p, q: np.sqrt(np.abs(x)),
        "takes negative values as 0": lambda x, p, q: np.sqrt(np.maximum(x, 0)),
        "returns 1/sqrt(x)": lambda x, p, q: 1 / np.sqrt(x),
    },
    "neg": {
        "returns its input": lambda x, p, q: x,
        "returns minus the absolute value": lambda x, p, q: -np.abs(x),
        "subtracts from 0 (no -0.0)": lambda x, p, q: 0.0 - x,
    },
    "abs": {
        "returns its input": lambda x, p, q: x,
        "returns 0 for negative values (relu)": lambda x, p, q: np.maximum(x, 0),
        "keeps -0.0": lambda x, p, q: np.where(x < 0, -x, x),
    },
}
PAIRS: dict[str, Callable[[Array, Array], Array]] = {
    **TWO,
    "the operands exchanged in sub": lambda a, b: b - a,
    "the operands exchanged in div": lambda a, b: b / a,
}


def variants(case: Case) -> Iterator[FaultVariant]:
    nodes = nodes_of(case, "elementwise_float")
    for name in dict.fromkeys(function_of(n) for n in nodes):
        for text, function in (OTHERS.get(name, {}) | MORE.get(name, {})).items():
            yield _variant(f"{name.replace('_', ' ')} {text}", partial(_one, name=name, function=function))
        if name in TWO:
            for text, pair in PAIRS.items():
                if text != name:
                    yield _variant(f"{name} computes {text}", partial(_two, name=name, pair=pair))
            yield from _broadcasts(case, name, next(n for n in nodes if function_of(n) == name))
    if not nodes:
        return
    for text, narrow in {"flushed to zero where subnormal": flushed, **FORMATS, **FIXED}.items():
        how = text if text.startswith("flushed") else f"rounded to {text}"
        yield _variant(f"a float function's input is {how}", partial(_rounded, before=narrow))
        yield _variant(f"a float function's result is {how}", partial(_rounded, after=narrow))
        yield _variant(f"a float function's input and result are {how}", partial(_rounded, before=narrow, after=narrow))
        if len(nodes[0].inputs) > 1:
            yield _variant(f"the second operand is {how}", partial(_rounded, second=narrow))
            yield _variant(f"the first operand is {how}", partial(_rounded, first=narrow))
    yield _variant(
        "a float function's NaN is 0",
        partial(_rounded, after=lambda v: np.nan_to_num(v, posinf=np.inf, neginf=-np.inf)),
    )


def _variant(text: str, kernel: Callable[..., Array]) -> FaultVariant:
    return kernel_variant(text, {"elementwise_float": kernel})


def _exact(node: Node, inputs: list[Array], graph: Graph) -> Array:
    values: list[Array | None] = list(inputs)
    return with_one_nan(page("elementwise_float").simulate(node, values, graph, None)[0])


def _one(node: Node, inputs: list[Array], graph: Graph, name: str, function: One) -> Array:
    if function_of(node) != name:
        return _exact(node, inputs, graph)
    p, q = (float(float_word(w)) for w in node.words[1:])
    return function(inputs[0].astype(np.float64), p, q)


def _two(node: Node, inputs: list[Array], graph: Graph, name: str, pair: Callable[[Array, Array], Array]) -> Array:
    return pair(*(v.astype(np.float64) for v in inputs)) if function_of(node) == name else _exact(node, inputs, graph)


def _rounded(
    node: Node,
    inputs: list[Array],
    graph: Graph,
    before: Format = exactly,
    after: Format = exactly,
    first: Format = exactly,
    second: Format = exactly,
) -> Array:
    own = [first, second]
    read = [own[at](before(v.astype(np.float64))).astype(np.float32) for at, v in enumerate(inputs)]
    return after(_exact(node, read, graph).astype(np.float64))


def _broadcasts(case: Case, name: str, node: Node) -> Iterator[FaultVariant]:
    sizes = [case.graph.spec(n or "").elements for n in node.inputs]
    total = case.graph.spec(node.outputs[0]).elements
    at = np.arange(total)
    for which, operand in enumerate(("first", "second")):
        size = sizes[which]
        if size == total or size == 1:
            continue
        for phrase, index in {
            "is not repeated: past its end its last element is used": np.minimum(at, size - 1),
            "is repeated as a whole (element i modulo its size)": at % size,
            "has each element repeated in a block (element i divided by the block)": at * size // total,
            "is read from its start for every row of the last axis": at
            % case.graph.spec(node.outputs[0]).shape[-1]
            % size,
            "gives its first element to all": at * 0,
            "gives its last element to all": at * 0 + size - 1,
            "is not repeated: past its end 0 is used": np.where(at < size, at, -1),
            "is read backward": size - 1 - at % size,
        }.items():
            text = f"{name}: the {operand} operand, smaller than the result, {phrase}"
            yield _variant(text, partial(_placed, name=name, which=which, index=index))
            right = np.where(
                at % case.graph.spec(node.outputs[0]).shape[-1] == 0, _own_places(case, node, which), index
            )
            more = " (the first element of every row is right)"
            yield _variant(text + more, partial(_placed, name=name, which=which, index=right))
        for shift in (1, -1):
            kernel = partial(_placed, name=name, which=which, index=None, shift=shift)
            yield _variant(
                f"{name}: the {operand} operand, smaller than the result, is read one element too {'late' if shift > 0 else 'early'}",
                kernel,
            )


def _own_places(case: Case, node: Node, which: int) -> Array:
    """Returns for each element of the result the place of the element that it reads in the operand."""
    shape = case.graph.spec(node.inputs[which] or "").shape
    places = np.arange(int(np.prod(shape))).reshape(shape)
    return np.broadcast_to(places, case.graph.spec(node.outputs[0]).shape).reshape(-1)


def _placed(node: Node, inputs: list[Array], graph: Graph, name: str, which: int, index: Any, shift: int = 0) -> Array:
    if function_of(node) != name:
        return _exact(node, inputs, graph)
    shape = graph.spec(node.outputs[0]).shape
    flat = inputs[which].reshape(-1)
    if index is None:
        placed = np.broadcast_to(np.roll(flat, -shift).reshape(inputs[which].shape), shape)
    else:
        placed = np.append(flat, np.zeros(1, flat.dtype))[index].reshape(shape)
    return _exact(node, [placed if at == which else v for at, v in enumerate(inputs)], graph)
