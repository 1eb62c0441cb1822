"""An average pool of 8 bits (which sums real values in float32) multiplies, sums, divides or rounds in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from qverify.arithmetic import functions64
from qverify.arithmetic.windows import as_planes, plane_shape, window_of
from qverify.model_bin.graph import Graph, Node
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.float_formats import FIXED, FORMATS, Format, exactly
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, kernel_variant, nodes_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.hypotheses.rounding import RULES

NAME = "average-pool-arithmetic"
OPS = ("average_pool",)
F = np.float32


@dataclass(frozen=True, slots=True)
class AveragePool:
    """A kernel for average_pool nodes.

    Attributes:
        real: computes real values from q - zero point and the input's scale.
        count: computes the divisor from the size of the kernel, the number of valid taps and include_pad.
        sum: rounds every partial sum.
        mean: computes the mean from sum and divisor.
        steps: computes output steps from the mean and the output's scale.
        rule: rounds these steps.
        inside: whether the zero point is added before they are rounded.
        integer: whether q - zero point is summed and scaled at the end.
    """

    real: Callable[[Array, Array], Array] = lambda v, s: s * v
    count: Callable[[int, Array, int], Array] = lambda whole, valid, include: (
        np.full_like(valid, whole) if include else valid
    )
    sum: Format = exactly
    mean: Callable[[Array, Array], Array] = lambda total, count: total / count
    steps: Callable[[Array, Array], Array] = lambda mean, scale: mean / scale
    rule: Callable[[Array], Array] = np.rint
    inside: bool = True
    integer: Callable[[Array, Array], Array] | None = None
    backward: bool = False

    def __call__(self, node: Node, inputs: list[Array], graph: Graph) -> Array:
        x, y = graph.spec(node.inputs[0] or ""), graph.spec(node.outputs[0])
        window, planes, out = window_of(node.words, dilated=False), as_planes(inputs[0]), plane_shape(y.shape)
        include, low, high = node.words[8:]
        scale, zero = inputs[1].astype(F), F(y.zero_point[0])
        valid = np.asarray(sum(window.taps(window.padded(np.ones((1, 1, *planes.shape[2:]), np.int64), out, 0), out)))
        count = np.maximum(self.count(window.kernel[0] * window.kernel[1], valid, include), 1).astype(F)
        centred = planes.astype(F) - F(x.zero_point[0])
        real = centred if self.integer is not None else self.real(centred, scale[0])
        taps = list(window.taps(window.padded(real, out, 0), out))
        total = np.zeros(taps[0].shape, real.dtype)
        for tap in reversed(taps) if self.backward else taps:
            total = self.sum((total + tap).astype(real.dtype)).astype(real.dtype)
        if self.integer is not None:
            total = self.integer(total.astype(np.float64), count) * scale[0]
            value = self.steps(total.astype(F), scale[1])
        else:
            value = self.steps(self.mean(total, count), scale[1])
        whole = (
            self.rule((value + zero).astype(np.float64)) if self.inside else self.rule(value.astype(np.float64)) + zero
        )
        return np.clip(np.where(valid == 0, zero, whole), low, high)


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, "average_pool")[:1]:
        if case.graph.constants[node.inputs[1] or ""].dtype == F:
            for text, kernel, bits in _kernels():
                yield kernel_variant(f"average pool: {text}", {"average_pool": kernel}, bits)


def _kernels() -> Iterator[tuple[str, AveragePool, float]]:
    for text, rule in RULES.items():
        if rule is not np.rint:
            yield f"the result plus the zero point is rounded {text}", AveragePool(rule=rule), LIKELY
        yield (
            f"the result is rounded {text} before the zero point is added",
            AveragePool(rule=rule, inside=False),
            LIKELY + 1,
        )
        yield (
            f"the mean of q - zero is rounded {text} to an integer before it is scaled",
            AveragePool(integer=bind_last(lambda t, c, r: r(t / c), rule)),
            LIKELY,
        )
    yield (
        "padded taps are counted though they must not",
        AveragePool(count=lambda whole, valid, include: np.full_like(valid, whole)),
        LIKELY,
    )
    yield "padded taps are not counted though they must", AveragePool(count=lambda whole, valid, include: valid), LIKELY
    yield "the sum is not divided", AveragePool(mean=lambda t, c: t), LIKELY
    for text, change in {
        "one more": lambda n: n + 1,
        "one less": lambda n: n - 1,
        "the power of two above": lambda n: 2 ** np.ceil(functions64.log2(np.maximum(n, 1))),
        "the power of two below": lambda n: 2 ** np.floor(functions64.log2(np.maximum(n, 1))),
        "twice as many": lambda n: 2 * n,
    }.items():
        yield (
            f"the sum is divided by {text} than the taps"
            if text.startswith("one")
            else f"the sum is divided by {text} for the number of taps",
            AveragePool(count=partial(_changed, change=change)),
            6.0,
        )
    for text, kernel in {
        "the sum is of integers in float64, scaled at the end": AveragePool(integer=lambda t, c: t / c),
        "each product is added without being rounded before": AveragePool(
            real=lambda v, s: v * s.astype(float), sum=lambda t: t.astype(F)
        ),
        "the taps are summed from the last to the first": AveragePool(backward=True),
        "the taps are summed in float64": AveragePool(real=lambda v, s: (s * v).astype(float)),
        "the mean is computed in float64": AveragePool(mean=lambda t, c: t.astype(float) / c),
        "the mean is the sum times 1/count in float32": AveragePool(mean=lambda t, c: t * (F(1) / c)),
        "the mean is multiplied by 1/scale in float32": AveragePool(steps=lambda m, s: m * (F(1) / s)),
        "the division by the scale and the addition of the zero point round once (fused)": AveragePool(
            steps=lambda m, s: m.astype(float) / s
        ),
    }.items():
        yield text, kernel, 7.0
    yield from _narrow_kernels()


def _narrow_kernels() -> Iterator[tuple[str, AveragePool, float]]:
    for name, narrow in {**FORMATS, **FIXED}.items():
        yield (
            f"1/count is rounded to {name}, and multiplied",
            AveragePool(mean=bind_last(lambda t, c, f: t * f(1.0 / c.astype(float)).astype(F), narrow)),
            10.0,
        )
        yield f"the partial sums are rounded to {name}", AveragePool(sum=narrow), 10.0
        yield (
            f"the mean is rounded to {name}",
            AveragePool(mean=bind_last(lambda t, c, f: f((t / c).astype(float)).astype(F), narrow)),
            10.0,
        )
        yield (
            f"the real values are rounded to {name}",
            AveragePool(real=bind_last(lambda v, s, f: f((s * v).astype(float)).astype(F), narrow)),
            10.0,
        )
        yield (
            f"the input's scale is rounded to {name}",
            AveragePool(real=bind_last(lambda v, s, f: f(np.array(float(s))).astype(F) * v, narrow)),
            10.0,
        )
        yield (
            f"the output's scale is rounded to {name}",
            AveragePool(steps=bind_last(lambda m, s, f: m / f(np.array(float(s))).astype(F), narrow)),
            10.0,
        )
        yield (
            f"the result in output steps is rounded to {name} before it is rounded to an integer",
            AveragePool(steps=bind_last(lambda m, s, f: f((m / s).astype(float)).astype(F), narrow)),
            10.0,
        )


def _changed(whole: int, valid: Array, include: int, change: Callable[[Array], Array]) -> Array:
    return change(np.full_like(valid, whole) if include else valid)
