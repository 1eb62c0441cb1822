"""LRN sums the squares over another window or axis, scales the sum in another way, or raises it to another power."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from qverify.arithmetic.float32 import pow64
from qverify.model_bin.graph import Graph, Node
from qverify.ops import float_word
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.float_formats import FIXED, FORMATS, Format, exactly
from qverify.triage.altered_kernels.replaced_kernels import UNLIKELY, kernel_variant, nodes_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "lrn-window"
OPS = ("lrn",)
Power = Callable[[Array, float], Array]


@dataclass(frozen=True, slots=True)
class Lrn:
    """A kernel for lrn nodes.

    Attributes:
        axis: axis of the window.
        before, after: numbers of neighbours in the window, or None for those of the op.
        edge: contents outside of the tensor (absent, repeated, wrapped, mirrored), or what happens to a window that
            reaches there (shifted: it is moved inward; symmetric: it is cut to the same reach on both sides; whole: it
            is empty).
        divisor: computes the divisor of alpha from (size, taps in the tensor).
        squares: computes squares of real values.
        total: rounds the sum.
        first_of: number of channels that share the window of the first of them.
        within: size of groups of channels over whose ends windows do not reach; 0 for one group.
        combine: computes the base from bias, alpha/divisor and sum.
        power: computes the power of the base.
        finish: computes the output from x and the power.
    """

    axis: int = 1
    before: int | None = None
    after: int | None = None
    edge: str = "absent"
    divisor: Callable[[int, Array], Array | float] = lambda size, taps: float(size)
    squares: Callable[[Array], Array] = np.square
    total: Format = exactly
    stepwise: bool = False
    first_of: int = 1
    within: int = 0
    combine: Callable[[float, Array, Array], Array] = lambda bias, alpha, total: bias + alpha * total
    power: Power = pow64
    finish: Callable[[Array, Array], Array] = lambda x, p: x / p

    def __call__(self, node: Node, inputs: list[Array], graph: Graph) -> Array:
        size = node.words[0]
        alpha, beta, bias = (float(float_word(w)) for w in node.words[1:])
        real = inputs[0].astype(np.float64)
        before = (size - 1) // 2 if self.before is None else self.before
        after = size // 2 if self.after is None else self.after
        squares = np.moveaxis(self.squares(real), self.axis, 0)
        total, taps = np.zeros_like(squares), np.zeros(len(squares))
        at, size_used = np.arange(len(squares)), before + after + 1
        for offset in range(-before, after + 1):
            place = at // self.first_of * self.first_of + offset
            inside = (place >= 0) & (place < len(squares))
            inside = inside & (place // self.within == at // self.within) if self.within else inside
            source = place % len(squares) if self.edge == "wrapped" else np.clip(place, 0, len(squares) - 1)
            if self.edge == "mirrored":
                source = np.clip(np.where(place < 0, -place, 2 * len(squares) - 2 - place), 0, len(squares) - 1)
                source = np.where(inside, place, source)
            if self.edge == "shifted":
                source = np.clip(at - before, 0, max(len(squares) - size_used, 0)) + before + offset
                inside = source < len(squares)
                source = np.minimum(source, len(squares) - 1)
            if self.edge == "symmetric":
                inside = inside & (np.abs(offset) <= np.minimum(at, len(squares) - 1 - at))
            if self.edge == "whole":
                inside = inside & (at >= before) & (at + after < len(squares))
            alone = ("absent", "shifted", "symmetric", "whole")
            used = inside if self.edge in alone else np.ones_like(inside)
            along = [-1] + [1] * (squares.ndim - 1)
            total = total + np.where(used.reshape(along), squares[source], 0.0)
            total = self.total(total) if self.stepwise else total
            taps += inside
        total = np.moveaxis(self.total(total), 0, self.axis)
        taps = taps.reshape([-1 if i == self.axis else 1 for i in range(total.ndim)])
        base = self.combine(bias, alpha / np.asarray(self.divisor(size, taps)), total)
        return self.finish(real, self.power(base, beta))


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, "lrn")[:1]:
        shape = case.graph.spec(node.inputs[0] or "").shape
        for text, kernel in (*_windows(node.words[0], len(shape)), *_scales(node.words[0]), *_powers()):
            yield kernel_variant(f"lrn: {text}", {"lrn": kernel})
        for text, kernel in _formats():
            yield kernel_variant(f"lrn: {text}", {"lrn": kernel}, UNLIKELY)


def _windows(size: int, rank: int) -> Iterator[tuple[str, Lrn]]:
    names = {rank - 1: "columns (the last axis)", 2: "rows (axis 2)", 0: "batch items"}
    for axis, name in names.items():
        if axis < rank and axis != 1:
            yield f"the squares are summed over neighbouring {name} instead of channels", Lrn(axis=axis)
    before, after = (size - 1) // 2, size // 2
    for text, first, last in (
        ("starts one channel later", before - 1, after),
        ("ends one channel earlier", before, after - 1),
        ("starts one channel earlier", before + 1, after),
        ("ends one channel later", before, after + 1),
        ("is one channel wider on both sides", before + 1, after + 1),
        ("is one channel narrower on both sides", before - 1, after - 1),
        ("lies one channel higher", before - 1, after + 1),
        ("lies one channel lower", before + 1, after - 1),
        ("begins at the channel itself (looks ahead only)", 0, size - 1),
        ("ends at the channel itself (looks back only)", size - 1, 0),
        ("begins at the channel itself and ends after half of it", 0, after),
        ("begins half before and ends at the channel itself", before, 0),
        ("is the channel alone", 0, 0),
        ("reaches a whole size to both sides", size, size),
        ("has the longer half before the channel", after, before),
        ("is always of 3 channels", 1, 1),
        ("is always of 5 channels", 2, 2),
        ("is all channels", 10**4, 10**4),
    ):
        if min(first, last) >= 0 and (first, last) != (before, after):
            yield f"the window {text}", Lrn(before=min(first, 512), after=min(last, 512))
    yield "the window repeats the first and the last channel outside the tensor", Lrn(edge="repeated")
    yield (
        "the window is shifted inward at the first and the last channels, so that it always holds size channels",
        Lrn(edge="shifted"),
    )
    yield (
        "at the first and last channels the window is cut to the same reach on both sides (size/2 channels before and after only where they exist on both)",
        Lrn(edge="symmetric"),
    )
    yield (
        "at the first and last channels the window of size/2 channels to both sides is cut to the same reach on both sides",
        Lrn(before=size // 2, after=size // 2, edge="symmetric"),
    )
    yield "channels whose window is not whole get no sum at all", Lrn(edge="whole")
    yield "the window is mirrored at the first and the last channel", Lrn(edge="mirrored")
    for lanes in (2, 4, 8, 16, 32):
        yield f"the window is that of the first channel of its {lanes}", Lrn(first_of=lanes)
        yield f"the window ends with its group of {lanes} channels", Lrn(within=lanes)
    yield "the window wraps from the last channel to the first", Lrn(edge="wrapped")


def _scales(size: int) -> Iterator[tuple[str, Lrn]]:
    yield (
        "alpha is divided by the number of channels that lie inside the tensor, not by size",
        Lrn(divisor=lambda n, taps: taps),
    )
    yield "alpha is not divided by size", Lrn(divisor=lambda n, taps: 1.0)
    for text, of in (
        ("size - 1", size - 1),
        ("size + 1", size + 1),
        ("size squared", size * size),
        ("size / 2", size // 2),
        ("2 * size", 2 * size),
        ("the next power of two", 1 << (size - 1).bit_length()),
        ("the power of two below", 1 << size.bit_length() - 1),
    ):
        if of and of != size:
            yield (
                f"alpha is divided by {text} ({of}) instead of size",
                Lrn(divisor=bind_last(lambda n, taps, d: float(d), of)),
            )
    yield "the bias is left out", Lrn(combine=lambda bias, alpha, total: alpha * total)
    yield "the bias is always 1", Lrn(combine=lambda bias, alpha, total: 1.0 + alpha * total)
    yield "alpha multiplies the bias, too", Lrn(combine=lambda bias, alpha, total: alpha * (bias + total))
    yield "alpha is left out", Lrn(combine=lambda bias, alpha, total: bias + total / size)
    yield "the bias is added twice", Lrn(combine=lambda bias, alpha, total: 2 * bias + alpha * total)
    yield "the absolute values are summed, not the squares", Lrn(squares=np.abs)
    yield "the values are summed, not their squares", Lrn(squares=exactly)
    yield (
        "alpha/size times the sum and the bias are added in float32",
        Lrn(combine=lambda bias, alpha, total: (np.float32(bias) + (alpha * total).astype(np.float32)).astype(float)),
    )
    for power in (*range(-4, 17), 20, 24, 31):
        most = 2.0**power
        yield f"the sum of squares saturates at {most:g}", Lrn(total=bind_last(np.minimum, most))
        yield f"every square saturates at {most:g}", Lrn(squares=bind_last(lambda x, m: np.minimum(x * x, m), most))
    for value in (65504.0, 32767.0, 65535.0, 127.0, 255.0, 100.0, 10.0):
        yield f"the sum of squares saturates at {value:g}", Lrn(total=bind_last(np.minimum, value))
    yield "the sum of squares is divided by the channels in the tensor, and size", Lrn(divisor=lambda n, taps: n * taps)
    yield "alpha is a tenth", Lrn(divisor=lambda n, taps: 10.0 * n)
    yield "alpha is ten times as large", Lrn(divisor=lambda n, taps: n / 10.0)


def _powers() -> Iterator[tuple[str, Lrn]]:
    for value in (0.5, 0.75, 1.0, 0.25, 0.7, 0.8):
        yield f"beta is always {value}", Lrn(power=bind_last(lambda b, beta, v: pow64(b, v), value))
    yield "the power is left out (division by the base)", Lrn(power=lambda b, beta: b)
    yield "the power is taken as 1 + beta*(base - 1)", Lrn(power=lambda b, beta: 1 + beta * (b - 1))
    yield (
        "the power is taken as sqrt(base)*sqrt(sqrt(base))",
        Lrn(power=lambda b, beta: np.sqrt(b) * np.sqrt(np.sqrt(b))),
    )
    yield "the power is taken in float32 as sqrt(base)*sqrt(sqrt(base))", Lrn(power=_root_of_float32)
    yield "beta is squared", Lrn(power=lambda b, beta: pow64(b, beta * beta))
    yield (
        "the power is the first two terms of its series in base - 1",
        Lrn(power=lambda b, beta: 1 + beta * (b - 1) + beta * (beta - 1) / 2 * (b - 1) ** 2),
    )
    yield (
        "the power is the first three terms of its series in base - 1",
        Lrn(power=lambda b, beta: 1 + beta * (b - 1) * (1 + (beta - 1) / 2 * (b - 1) * (1 + (beta - 2) / 3 * (b - 1)))),
    )
    yield "beta is halved", Lrn(power=lambda b, beta: pow64(b, beta / 2))
    yield "beta is doubled", Lrn(power=lambda b, beta: pow64(b, beta * 2))
    yield "x is multiplied by the power instead of divided", Lrn(finish=lambda x, p: x * p)
    yield "1 is divided by the power instead of x", Lrn(finish=lambda x, p: 1 / p)
    yield "x*x is divided by the power instead of x", Lrn(finish=lambda x, p: x * x / p)


def _root_of_float32(base: Array, beta: float) -> Array:
    root = np.sqrt(base.astype(np.float32))
    return (root * np.sqrt(root)).astype(float)


def _formats() -> Iterator[tuple[str, Lrn]]:
    for name, narrow in {**FORMATS, **FIXED}.items():
        yield f"every square is rounded to {name}", Lrn(squares=bind_last(lambda x, f: f(x * x), narrow))
        yield (
            f"the values are rounded to {name} before they are squared",
            Lrn(squares=bind_last(lambda x, f: f(x) ** 2, narrow)),
        )
        yield f"the sum of squares is rounded to {name}", Lrn(total=narrow)
        yield f"the sum of squares is formed in {name}", Lrn(total=narrow, stepwise=True)
        yield (
            f"squares and their sum are formed in {name}",
            Lrn(squares=bind_last(lambda x, f: f(f(x) ** 2), narrow), total=narrow, stepwise=True),
        )
        yield (
            f"bias plus alpha/size times the sum is rounded to {name}",
            Lrn(combine=bind_last(lambda b, a, t, f: f(b + a * t), narrow)),
        )
        yield f"the power is rounded to {name}", Lrn(power=bind_last(lambda b, beta, f: f(pow64(b, beta)), narrow))
        yield (
            f"1/power is rounded to {name}, and multiplied",
            Lrn(power=bind_last(lambda b, beta, f: f(1 / pow64(b, beta)), narrow), finish=np.multiply),
        )
        yield f"beta is rounded to {name}", Lrn(power=partial(_of_beta, narrow=narrow))
        yield f"the result is rounded to {name}", Lrn(finish=bind_last(lambda x, p, f: f(x / p), narrow))


def _of_beta(base: Array, beta: float, narrow: Format) -> Array:
    return pow64(base, float(narrow(np.array(beta))))
