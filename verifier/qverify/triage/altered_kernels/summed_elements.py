"""Some output elements of a linear op or average pool with all they are made of, and a quick look at which faults fit them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify import ops
from qverify.arithmetic.linear import is_wide
from qverify.arithmetic.requantize import requantize
from qverify.triage.altered_kernels.same_here import prior
from qverify.triage.altered_kernels.summands import Summands, depth, summands
from qverify.triage.case import Case
from qverify.triage.fault import DOES_NOT_FIT
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import LINEAR_OPS, Linear, linear

Array = npt.NDArray[Any]
SAMPLE, FEWER = 40, 16  # differing elements looked at; where each is a sum of more than LONG
SUMMED_OPS = (*LINEAR_OPS, "average_pool")  # of which elements are summed
LONG = 2000
MORE = 4000  # of those where a fault that fits the sample is tried next
MOST_IN_PART = 12  # faults of one list that give the differing elements and spoil others
LATER = 0.5  # bits of another text of what is one at a node
CHUNK = 1 << 19  # summands at a time
MOST_SUMMANDS = 120_000_000  # of a whole output; more take too long
BIASED = ("conv", "conv_transpose", "fully_connected")


def clipped(values: Array, low: int, high: int) -> Array:
    """Returns the values within the limits. Of a few elements, which is what thousands of faults are looked at by,
    np.clip takes several times as long."""
    return np.asarray(np.minimum(np.maximum(values, low), high))


class SummedElements:
    """Output elements at flat places, each with what it is made of; all arrays have one value an element."""

    def __init__(self, case: Case, places: Array):
        self.case, self.places = case, places
        found = requantization(case)
        assert found is not None
        self.of: Linear = found

    @cached_property
    def acc(self) -> Array:
        """The exact sum, bias included."""
        return self.of.acc.reshape(-1)[self.places]

    @cached_property
    def recorded(self) -> Array:
        """What the board gave."""
        return self.case.recorded.reshape(-1)[self.places]

    @cached_property
    def channel(self) -> Array:
        """The output channel, to which bias and scale belong."""
        return np.unravel_index(self.places, self.case.spec.shape)[self.of.axis]

    @cached_property
    def bias(self) -> Array:
        """The bias; 0 where there is none."""
        return bias_of(self.case)[self.channel if len(bias_of(self.case)) > 1 else 0 * self.channel]

    @property
    def channels(self) -> int:
        """Number of output channels."""
        return int(self.case.spec.shape[self.of.axis])

    def scale_of(self, channel: Array) -> Array:
        """Returns output steps per unit of the sum, in the stored float type; float64 in an integer mode."""
        values = self.of.rq if self.of.rq.dtype.kind == "f" else self.of.real
        return values[channel if len(values) > 1 else 0 * channel]

    @cached_property
    def scale(self) -> Array:
        """As scale_of, of the own channel."""
        return self.scale_of(self.channel)

    @cached_property
    def summands(self) -> Summands:
        """What the sum is made of."""
        made = summands(self.case, self.places)
        assert made is not None
        return made

    def steps(self, acc: Array, scale: Array | None = None) -> Array:
        """Returns the output in steps before it is rounded: the product in the type of the scale."""
        scale = self.scale if scale is None else scale
        return acc.astype(scale.dtype) * scale

    def finished(self, steps: Array) -> Array:
        """Returns the output of whole steps: the zero point added, clipped."""
        of = self.of
        return clipped(steps + of.zero_point, of.low, of.high).astype(of.dtype)

    def rounded(self, steps: Array, rule: Callable[[Array], Array] = np.rint) -> Array:
        """Returns the output of steps that a rule rounds, the zero point added where this op adds it."""
        of = self.of
        if self.case.last.op == "mul" and steps.dtype == np.float32:
            value = rule(steps + np.float32(of.zero_point))
            return clipped(value, of.low, of.high).astype(of.dtype)
        return self.finished(rule(steps))

    def requantized(self, acc: Array, channel: Array | None = None) -> Array:
        """Returns the output of another sum, or with another channel's scale, requantized as the model does it. acc: [S],
        or several sums of each element [..., S]."""
        channel, of = self.channel if channel is None else channel, self.of
        if of.rq.dtype.kind == "f":
            return self.rounded(self.steps(acc, self.scale_of(channel)))
        rq = of.rq[:, channel if of.rq.shape[1] > 1 else 0 * channel]
        return requantize(acc, rq, of.zero_point, of.low, of.high, of.dtype, of.rounding, of.wide, acc.ndim - 1)

    def added(self, products: Array) -> Array:
        """Returns the output of other products, broadcastable to four axes, to which the bias is added."""
        return self.requantized(products.reshape(len(products), -1).sum(1) + self.bias)


class PooledElements(SummedElements):
    """Elements of an average_pool, each with a divisor of its own."""

    @cached_property
    def acc(self) -> Array:
        """The exact sum."""
        products = self.summands.products
        return products.reshape(len(products), -1).sum(1)

    @cached_property
    def divisor(self) -> Array:
        """The number of elements of the mean."""
        read, words = self.summands.read, words_of(self.case)
        count = np.broadcast_to(read.reshape(len(read), -1), (len(self.places), read[0].size)).sum(1)
        return np.full_like(count, read[0].size) if words["count_include_pad"] else np.maximum(count, 1)

    def requantized(self, acc: Array, channel: Array | None = None) -> Array:
        """Returns the output of another sum, [S] or [..., S]."""
        rq = self.of.rq
        if rq.dtype == np.float32:
            return self.mean(rq[0] * acc.astype(np.float32), self.divisor)
        if rq.dtype == np.float64:
            return self.finished(np.rint(acc.astype(np.float64) * rq[0] / self.divisor))
        at, of = self.divisor - 1, self.of
        return requantize(acc, rq[:, at], of.zero_point, of.low, of.high, of.dtype, of.rounding, of.wide, acc.ndim - 1)

    def added(self, products: Array) -> Array:
        """Returns the output of other products, added one by one as the model does it."""
        flat = products.reshape(len(products), -1)
        if self.of.rq.dtype != np.float32:
            return self.requantized(flat.sum(1))
        real = np.add.accumulate(self.of.rq[0] * flat.astype(np.float32), 1, dtype=np.float32)[:, -1]
        return self.mean(real, self.divisor)

    def mean(self, real: Array, divisor: Array) -> Array:
        """Returns the output of a real sum, float32."""
        of = self.of
        value = np.rint(real / divisor.astype(np.float32) / of.rq[1] + np.float32(of.zero_point))
        return np.clip(value, of.low, of.high).astype(of.dtype)


Way = Callable[[SummedElements], Array]


def requantization(case: Case) -> Linear | None:
    """Returns the last node's accumulator and requantization; an average_pool's without the accumulator."""
    if case.last.op != "average_pool":
        return linear(case)
    return case.compute_once("pool requantization", lambda: _of_pool(case))


def _of_pool(case: Case) -> Linear:
    node, graph, y = case.last, case.graph, case.spec
    x = graph.spec(node.inputs[0] or "")
    real = np.array([np.float64(x.scale[0]) / np.float64(y.scale[0])])
    wide = is_wide(x.dtype, y.dtype)
    rq = graph.constants[node.inputs[1] or ""]
    low, high = node.words[-2:]
    return Linear(np.zeros(0), rq, real, y.zero_point[0], low, high, y.dtype, graph.rounding, wide, 1)


def elements(case: Case, places: Array) -> SummedElements:
    """Returns the elements at flat indices."""
    return (PooledElements if case.last.op == "average_pool" else SummedElements)(case, places)


def bias_of(case: Case) -> Array:
    """Returns the bias, int64 [C], or [0] where there is none."""
    name = case.last.inputs[2] if case.last.op in BIASED else None
    return np.zeros(1, np.int64) if name is None else case.graph.constants[name].astype(np.int64)


def has_bias(case: Case) -> bool:
    """Returns whether some bias is not 0."""
    return bool(bias_of(case).any())


def sample(case: Case) -> SummedElements | None:
    """Returns some differing elements; None where the unit's last node is not linear."""
    return case.compute_once("sampled elements", lambda: _sample(case))


def _sample(case: Case) -> SummedElements | None:
    of = requantization(case)
    if of is None:
        return None
    flat, recorded = case.differing, case.recorded.reshape(-1)
    inside = flat[(recorded[flat] > of.low) & (recorded[flat] < of.high)]
    most = FEWER if depth(case) > LONG else SAMPLE
    chosen = inside if len(inside) >= most // 2 else flat
    return elements(case, np.unique(chosen[np.linspace(0, len(chosen) - 1, most).astype(np.int64)]))


SUMS = 4.0  # bits of choosing a fault among those of sums, which are looked at before they are yielded


def fitting(
    case: Case, ways: Iterable[tuple[str, Way]], in_parts: bool = False, bits: float | Callable[[str], float] = prior
) -> Iterator[FaultVariant]:
    """Yields the faults that give the recorded bytes at some differing elements. ways: (text, how elements are
    computed). Few of those that spoil other elements are yielded: these may be confined to a part of the output. in_parts: the way reads the summands, of which there are too many for all elements at once. bits: of each
    variant beyond SUMS, or what its text says of them."""
    yield from fitting_alike(case, (([said], way) for said, way in ways), in_parts, bits)


def fitting_alike(
    case: Case,
    ways: Iterable[tuple[list[str], Way]],
    in_parts: bool = False,
    bits: float | Callable[[str], float] = prior,
) -> Iterator[FaultVariant]:
    """Yields as fitting does; every way has several texts, which are one at this node, the likeliest
    first."""
    few = sample(case)
    if few is None or not len(few.places):
        return
    more = case.compute_once(f"more elements {in_parts}", lambda: _more(case, in_parts, case.differing))
    others = case.compute_once(
        f"other elements {in_parts}", lambda: _more(case, in_parts, np.arange(case.recorded.size))
    )
    parts = list[FaultVariant]()
    for texts, way in ways:
        case.count_tried(len(texts), texts)
        if _agree(few, way) and _agree(more, way):
            make = partial(_shared if len(texts) > 1 else whole, way=way, in_parts=in_parts)
            found = [
                FaultVariant(said, make, SUMS + (bits if isinstance(bits, float) else bits(said)) + LATER * min(at, 1))
                for at, said in enumerate(texts)
            ]
            if _agree(others, way):
                yield from found
            else:
                parts += found
    yield from sorted(parts, key=lambda variant: variant.bits)[:MOST_IN_PART]


def _more(case: Case, in_parts: bool, flat: Array) -> SummedElements:
    """Returns many of these elements, at which what fits a few is tried next."""
    count = max(1, min(MORE, CHUNK // depth(case))) if in_parts else MORE
    return elements(case, np.unique(flat[np.linspace(0, len(flat) - 1, count).astype(np.int64)]))


def _agree(e: SummedElements, way: Way) -> bool:
    try:
        return bool((way(e) == e.recorded).all())
    except DOES_NOT_FIT:  # a fault that this unit cannot have
        return False


def at_touched(e: SummedElements, touched: Array, way: Way) -> Array:
    """Returns the healthy output with the touched elements as the way computes them."""
    output = np.ascontiguousarray(e.case.healthy).reshape(-1)[e.places]
    if touched.any():
        output[touched] = way(elements(e.case, e.places[touched]))
    return output


def _shared(case: Case, way: Way, in_parts: bool) -> Array:
    """Returns whole(), kept for the other faults of the same way."""
    made = case.compute_once(
        f"whole {id(way)}", lambda: (way, whole(case, way, in_parts))
    )  # kept, so that no other way has its id
    return np.asarray(made[1])


def whole(case: Case, way: Way, in_parts: bool) -> Array:
    """Returns the output, every element computed by the way."""
    size = case.recorded.size
    step = max(1, CHUNK // depth(case)) if in_parts else size
    if in_parts and size * depth(case) > MOST_SUMMANDS:
        raise ValueError("too many summands")
    parts = [way(elements(case, np.arange(i, min(i + step, size)))) for i in range(0, size, step)]
    return np.concatenate(parts).astype(case.spec.numpy_dtype).reshape(case.spec.shape)


def words_of(case: Case) -> dict[str, int]:
    """Returns the words of the last node, by name."""
    return ops.words(case.last)
