"""A convolution of 8-bit numbers with zero points has another value in its padding, subtracts zero points wrongly, sums
only a part of its taps or channels, has a narrow accumulator, or reads weights in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from qverify.arithmetic.float_convolution import convolve
from qverify.arithmetic.windows import Window, as_planes, plane_shape, window_of
from qverify.model_bin.graph import Graph, Node
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.channel_choice import channel_choices
from qverify.triage.altered_kernels.integer_products import accumulators, as_it_is, centrings, narrow_accumulations
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, kernel_variant, nodes_of, operands
from qverify.triage.altered_kernels.row_sums import partial_sums
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "integer-convolution"
OPS = ("conv_integer",)
MAX_PRODUCTS = 1 << 18  # that are summed one by one
LARGE = 1 << 23  # products of a node from which on only the most likely faults are tried, because each takes long
SIDES = ("top", "left", "bottom", "right")
Centre = Callable[[Array, Array], Array]


def _centred(values: Array, zero: Array) -> Array:
    return values - zero


@dataclass(frozen=True, slots=True)
class Padding:
    """Padding with another value.

    Attributes:
        where: returns a mask of the elements with another value, given window, size of the image and size of the padded
            image.
        value: returns the value without the zero point, given the zero point; None for the nearest element of the
            image.
    """

    where: Callable[[Window, tuple[int, int], tuple[int, ...]], Array]
    value: Callable[[int], float] | None = None


@dataclass(frozen=True, slots=True)
class Convolution:
    """A kernel for conv_integer nodes.

    Attributes:
        x, w: compute factors from stored elements and zero points (those of w as [O, 1, 1, 1]).
        padding: contents of the padding.
        weights: changes the weights without zero points, [O, I/group, kh, kw].
        planes: changes the planes without zero points, [N, C, H, W].
        zero_w: exchanges the zero points of w.
        more: returns an addend, given stored planes and weights, zero points, window, groups and output size.
        total: sums products over the first axis.
    """

    x: Centre = _centred
    w: Centre = _centred
    padding: Padding | None = None
    planes: Callable[[Array], Array] = as_it_is
    weights: Callable[[Array], Array] = as_it_is
    zero_w: Callable[[Array], Array] = as_it_is
    more: Callable[..., Array] | None = None
    acc: Callable[[Array], Array] = as_it_is
    total: Callable[[Array], Array] | None = None

    def __call__(self, node: Node, inputs: list[Array], graph: Graph) -> Array:
        shape = graph.spec(node.outputs[0]).shape
        out, window, group = plane_shape(shape), window_of(node.words), node.words[10]
        x, w = as_planes(inputs[0]).astype(np.int64), inputs[1].astype(np.int64)
        zx: Array
        zw: Array
        zx, zw = (v.reshape(-1).astype(np.int64) if v.size else np.zeros(1, np.int64) for v in inputs[2:4])
        zw = self.zero_w(zw if zw.size > 1 else np.repeat(zw, len(w))).reshape(-1, 1, 1, 1)
        padded, plain = _padded(self.planes(self.x(x, zx)), window, out), replace(window, pad=(0, 0, 0, 0))
        if self.padding is not None:
            where = self.padding.where(window, x.shape[2:], padded.shape[2:])
            padded = _filled(padded, where, self.padding.value, int(zx[0]), window, x.shape[2:])
        weights = self.weights(self.w(w, zw))
        if self.total is None:
            acc = convolve(padded, weights, plain, group, out)
        else:
            acc = _by_products(padded, weights, plain, group, out, self.total)
        if self.more is not None:
            acc = acc + self.more(x, w, int(zx[0]), zw, window, group, out)
        return self.acc(acc.astype(np.int64)).astype(np.int64).astype(np.int32)


def _padded(x: Array, window: Window, out: tuple[int, int], fill: int = 0) -> Array:
    return window.padded(x, out, fill)


def _filled(
    padded: Array, where: Array, value: Callable[[int], float] | None, zero: int, window: Window, size: tuple[int, ...]
) -> Array:
    """Returns the padded planes with a value, or with the nearest element of the image, at the mask `where`."""
    if value is not None:
        return np.where(where, int(value(zero)), padded)
    rows = np.clip(np.arange(padded.shape[2]), window.pad[0], window.pad[0] + size[0] - 1)
    columns = np.clip(np.arange(padded.shape[3]), window.pad[1], window.pad[1] + size[1] - 1)
    return np.where(where, padded[:, :, rows][:, :, :, columns], padded)


def _by_products(
    padded: Array, weights: Array, window: Window, group: int, out: tuple[int, int], total: Callable[[Array], Array]
) -> Array:
    """Returns the sums of products, which are added in the order input channel, kernel row, kernel column."""
    taps = np.stack(list(window.taps(padded, out)), 2)  # N, C, taps, oh, ow
    per_in, per_out = weights.shape[1], len(weights) // group
    y = np.empty((len(padded), len(weights), *out), np.int64)
    for o, of in enumerate(weights):
        first = o // per_out * per_in
        read = taps[:, first : first + per_in].reshape(len(padded), -1, *out)
        y[:, o] = total(np.moveaxis(read * of.reshape(1, -1, 1, 1), 1, 0))
    return y


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, "conv_integer")[:1]:
        w, window = operands(case, node)[1], window_of(node.words)
        shape = case.graph.spec(node.inputs[0] or "").shape
        reads = _inputs(shape[1], node.words[10], shape[0])
        ways = [*_paddings(window), *_corrections(len(w), node.words[10])]
        if case.recorded.size * w[0].size <= LARGE:
            ways += [*reads, *_weights(w), *_sums(case, w)]
        for text, kernel, bits in ways:
            yield kernel_variant(f"convolution of integers: {text}", {"conv_integer": kernel}, bits)


Way = tuple[str, Convolution, float]


def _with(part: str, value: Centre) -> Convolution:
    parts: dict[str, Any] = {part: value}
    return Convolution(**parts)


def _where(window: Window, size: tuple[int, ...], whole: tuple[int, ...], sides: tuple[str, ...], inner: bool) -> Array:
    """Returns a mask of the padding at these sides. inner: whether the corners are left out."""
    row, column = np.arange(whole[0])[:, None], np.arange(whole[1])[None, :]
    top, left = window.pad[:2]
    beyond = {
        "top": (row < top, column),
        "bottom": (row >= top + size[0], column),
        "left": (column < left, row),
        "right": (column >= left + size[1], row),
    }
    mask = np.zeros(whole, bool)
    for side in sides:
        where = np.broadcast_to(beyond[side][0], whole)
        if inner:
            across = column if side in ("top", "bottom") else row
            first, count = (left, size[1]) if side in ("top", "bottom") else (top, size[0])
            where = where & (across >= first) & (across < first + count)
        mask = mask | where
    return mask


VALUES: dict[str, Callable[[int], float] | None] = {
    "the raw value 0 (each tap adds -zx*(w - zw))": lambda z: -z,
    "the zero point as a real value, not taken off (each tap adds zx*(w - zw))": lambda z: z,
    "the nearest element of the image (replicated)": None,
    "the raw value 128": lambda z: 128 - z,
    "the raw value -128": lambda z: -128 - z,
    "the raw value 127": lambda z: 127 - z,
    "the raw value 255": lambda z: 255 - z,
    "the real value 1": lambda z: 1,
    "the real value -1": lambda z: -1,
    "the real value 128": lambda z: 128,
    "the real value -128": lambda z: -128,
}


def _paddings(window: Window) -> Iterator[Way]:
    used = tuple(s for s, n in zip(SIDES, window.pad, strict=True) if n)
    for n in range(len(used), 0, -1):
        for sides in combinations(used, n):
            for inner in (False, True):
                if inner and not (set(sides) & {"left", "right"} and set(used) & {"top", "bottom"}):
                    if not (set(sides) & {"top", "bottom"} and set(used) & {"left", "right"}):
                        continue
                place = "everywhere" if n == len(used) else f"at the {' and '.join(sides)}"
                if inner:
                    place += ", only beside the image and not in the corners"
                for phrase, value in VALUES.items():
                    where = partial(_where, sides=sides, inner=inner)
                    text = f"the padding {place} counts as {phrase}"
                    yield text, Convolution(padding=Padding(where, value)), LIKELY + (n < len(used)) + inner


def _sum_of_x(x: Array, window: Window, group: int, out: tuple[int, int], like: Array, fill: int = 0) -> Array:
    """Returns for each output the sum of the elements that its taps read."""
    plain = replace(window, pad=(0, 0, 0, 0))
    return convolve(_padded(x, window, out, fill), np.ones_like(like), plain, group, out)


def _all_of_w(weights: Array) -> Array:
    return weights.sum((1, 2, 3)).reshape(1, -1, 1, 1)


MORE: dict[str, Callable[..., Array]] = {
    "the zero point of x is taken off times the sum of all stored weights of the channel, and zw times the sum of the stored x; no term zx*zw": lambda x, w, zx, zw, window, group, out: (
        -zx * _all_of_w(w)
        - _by(zw) * _sum_of_x(x, window, group, out, w)
        - convolve(_padded(x - zx, window, out), w - zw, replace(window, pad=(0, 0, 0, 0)), group, out)
        + convolve(_padded(x, window, out), w, replace(window, pad=(0, 0, 0, 0)), group, out)
    ),
    "the zero point of w is taken off times the sum of the stored x, not of x - zx": lambda x, w, zx, zw, window, group, out: (
        -_by(zw) * zx * _sum_of_x(np.ones_like(x), window, group, out, w)
    ),
    "the zero point of w is taken off times the sum of the stored x, not of x - zx (padding is zx)": lambda x, w, zx, zw, window, group, out: (
        -_by(zw) * zx * w[0].size + 0 * _sum_of_x(x, window, group, out, w)
    ),
    "the zero point of x is taken off times the sum of the stored weights, not of w - zw": lambda x, w, zx, zw, window, group, out: (
        -zx * _by(zw) * _sum_of_x(np.ones_like(x), window, group, out, w)
    ),
    "zx times the sum of all stored weights is taken off, not of w - zw, padding included": lambda x, w, zx, zw, window, group, out: (
        -zx * _by(zw) * w[0].size - zx * (_all_of_w(w - zw) - _taps_inside(x, w - zw, window, group, out))
    ),
    "the term zx*zw is added twice": lambda x, w, zx, zw, window, group, out: (
        zx * _by(zw) * _sum_of_x(np.ones_like(x), window, group, out, w)
    ),
}


def _by(zero: Array) -> Array:
    return zero.reshape(1, -1, 1, 1)


def _taps_inside(x: Array, weights: Array, window: Window, group: int, out: tuple[int, int]) -> Array:
    """Returns for each output the sum of the weights whose taps lie in the image."""
    return convolve(_padded(np.ones_like(x), window, out), weights, replace(window, pad=(0, 0, 0, 0)), group, out)


def _corrections(channels: int, group: int) -> Iterator[Way]:
    for name in ("x", "w"):
        for way in centrings(name):
            yield way.text, _with(name, way.centre), way.bits
    yield "no zero point is taken off", Convolution(x=lambda v, z: v, w=lambda v, z: v), LIKELY
    for text, more in MORE.items():
        yield text, Convolution(more=more), LIKELY
    per = channels // group
    choices = channel_choices(channels)
    if group > 1 and per > 1:
        choices = {"the channel within its group (that of the first group)": np.arange(channels) % per, **choices}
    for text, choice in choices.items():
        yield (
            f"the zero point of w for a channel is that of {text}",
            Convolution(zero_w=bind_last(lambda z, c: z[c], choice)),
            6.0,
        )
        yield (
            f"the weights of a channel are those of {text}",
            Convolution(weights=bind_last(lambda w, c: w[c], choice)),
            7.0,
        )


def _inputs(channels: int, group: int, batch: int) -> Iterator[Way]:
    """Yields convolutions that read other channels or batch items of the input."""
    at, per = np.arange(channels), channels // group
    choices = channel_choices(channels)
    if group > 1:
        choices = {
            "the first group": at % per,
            "the next group, the last its own": np.minimum(at + per, channels - per + at % per),
            "the group before, the first its own": np.where(at >= per, at - per, at),
        } | choices
    for phrase, choice in choices.items():
        text = f"the input channels read are those of {phrase}"
        yield text, Convolution(planes=bind_last(lambda x, c: x[:, c], choice)), 6.0
    if batch > 1:
        first: Callable[[Array], Array] = lambda x: np.repeat(x[:1], len(x), 0)  # noqa: E731
        yield "the first batch item is read for all", Convolution(planes=first), LIKELY


ORDERS: dict[str, Callable[[Array], Array]] = {
    "the kernel is flipped in both directions": lambda w: w[:, :, ::-1, ::-1],
    "the kernel is flipped up and down": lambda w: w[:, :, ::-1],
    "the kernel is flipped left and right": lambda w: w[:, :, :, ::-1],
    "the kernel is read transposed": lambda w: w.swapaxes(2, 3).reshape(w.shape),
    "the kernel is read with its channels last": lambda w: np.moveaxis(
        w.reshape(len(w), *w.shape[2:], w.shape[1]), 3, 1
    ),
}


def _weights(w: Array) -> Iterator[Way]:
    for phrase, order in ORDERS.items():
        yield phrase, Convolution(weights=order), LIKELY
    for axis, what in ((3, "kernel column"), (2, "kernel row"), (1, "input channel")):
        size = w.shape[axis]
        if size < 2:
            continue
        for part in partial_sums(size) if size <= 512 else ():
            weights = np.array([float(part.total(row)) for row in np.eye(size)]).astype(np.int64)
            shape = [1] * 4
            shape[axis] = size
            taken = bind_last(lambda w, k: w * k, weights.reshape(shape))
            text = f"the sum takes part of the {what}s: {part.text.replace('element', what)}"
            yield text, Convolution(weights=taken), part.bits
        for k in range(size) if size <= 8 else ():
            mask = (np.arange(size) != k).astype(np.int64).reshape([size if a == axis else 1 for a in range(4)])
            text = f"{what} {k} of {size} is left out of the sum"
            yield text, Convolution(weights=bind_last(lambda w, k: w * k, mask)), 6.0
        for phrase, choice in channel_choices(size).items():
            text = f"for a {what} the weights of {phrase} are used".replace("channel", what)
            yield text, Convolution(weights=partial(np.take, indices=choice, axis=axis)), 8.0


def _sums(case: Case, w: Array) -> Iterator[Way]:
    for text, change in accumulators():
        yield f"the sum {text}", Convolution(acc=change), 7.0
    if case.recorded.size * w[0].size <= MAX_PRODUCTS:
        for text, total in narrow_accumulations():
            yield text, Convolution(total=total), 9.0
