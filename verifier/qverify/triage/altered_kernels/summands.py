"""What some output elements of a linear op are summed from: every input element read, and the weight it is multiplied by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify import ops
from qverify.triage.case import Case

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Summands:
    """The summands of S output elements, each array broadcastable to [S, channels, kernel rows, kernel columns]. x: the
    stored integers, the zero point where nothing is read. w: the stored weights; 1 in a mean. zero_x, zero_w: zero
    points. read: whether an element of the tensor is read there. plane: index of the input plane, over batch and
    channels. row, column: of the element read, also outside of the plane. stuffed: between the elements of a stretched
    input (conv_transpose)."""

    x: Array
    w: Array
    zero_x: Array | int
    zero_w: Array
    read: Array
    plane: Array
    row: Array
    column: Array
    stuffed: Array

    @property
    def centred_x(self) -> Array:
        """x less its zero point."""
        return self.x - self.zero_x

    @property
    def centred_w(self) -> Array:
        """w less its zero points."""
        return self.w - self.zero_w

    @property
    def products(self) -> Array:
        """Every product, the padding's 0."""
        return self.centred_x * self.centred_w


def summands(case: Case, places: Array) -> Summands | None:
    """Returns the summands of the output elements at these flat indices; None for an op that sums nothing."""
    make = _OPS.get(case.last.op)
    return None if make is None else make(case, places)


def depth(case: Case) -> int:
    """Returns the number of summands of an output element; 0 for an op that sums nothing."""
    node = case.last
    if node.op not in _OPS:
        return 0
    one = summands(case, np.zeros(1, np.int64))
    return 0 if one is None else int(np.prod(np.broadcast_shapes(one.x.shape, one.w.shape)))


def reads_padding(case: Case) -> Array:
    """Returns flat for every element of the output whether one of its summands is padding or a gap: bool."""
    return case.compute_once("reads padding", lambda: _reads_padding(case))


def _reads_padding(case: Case) -> Array:
    if case.last.op not in _COORDINATES:
        return np.zeros(case.recorded.size, bool)
    pixels = int(np.prod(case.spec.shape[2:]))
    rows, columns, on_grid = _COORDINATES[case.last.op](case, *_where(case, np.arange(pixels))[2:])
    read = _is_read(case.graph.spec(case.last.inputs[0] or "").shape, rows, columns, on_grid)
    return np.tile(~read.reshape(pixels, -1).all(1), case.recorded.size // pixels)


def _value(case: Case, at: int) -> tuple[Array, Any]:
    """Returns an operand in its own type, and its spec: a few elements become int64 faster than all."""
    name = case.last.inputs[at] or ""
    value = case.graph.constants[name] if name in case.graph.constants else case.inputs[name]
    return value, case.graph.spec(name)


def _dense(
    x: Array, w: Array, zero_x: int, zero_w: Array, plane: Array | None = None, column: Array | None = None
) -> Summands:
    """Returns summands without padding. x, w: of rank 4."""
    nothing = np.zeros((1, 1, 1, 1), np.int64)
    return Summands(
        x.astype(np.int64),
        w.astype(np.int64),
        zero_x,
        zero_w,
        np.ones((1, 1, 1, 1), bool),
        nothing if plane is None else plane,
        nothing,
        nothing if column is None else column,
        np.zeros((1, 1, 1, 1), bool),
    )


def _along(zero: tuple[int, ...], channel: Array) -> Array:
    return np.array(zero)[channel if len(zero) > 1 else np.zeros_like(channel)].reshape(-1, 1, 1, 1)


def _where(case: Case, places: Array) -> tuple[Array, Array, Array, Array]:
    """Returns batch, channel, row and column of every place in an output of rank 3 or 4."""
    at = np.unravel_index(places, case.spec.shape)
    row = at[2] if len(at) == 4 else np.zeros_like(at[0])
    return at[0], at[1], row, at[-1]


def _windows(case: Case, i: Array, j: Array) -> tuple[Array, Array, Array | None]:
    """Returns the input rows [S, kh] and columns [S, kw] that the windows of output rows i and columns j read."""
    words = ops.words(case.last)
    kernel = [(words[f"kernel_{s}"], words[f"stride_{s}"], words.get(f"dilation_{s}", 1)) for s in "hw"]
    rows = i[:, None] * kernel[0][1] - words["pad_top"] + np.arange(kernel[0][0]) * kernel[0][2]
    columns = j[:, None] * kernel[1][1] - words["pad_left"] + np.arange(kernel[1][0]) * kernel[1][2]
    return rows, columns, None


def _is_read(shape: tuple[int, ...], rows: Array, columns: Array, on_grid: Array | None) -> Array:
    """Returns which of these places of a plane are elements of the tensor: bool [S, 1, kh, kw]."""
    height, width = shape[2] if len(shape) == 4 else 1, shape[-1]
    inside = ((rows >= 0) & (rows < height))[:, None, :, None] & ((columns >= 0) & (columns < width))[:, None, None, :]
    return np.asarray(inside if on_grid is None else inside & on_grid)


def _windowed(case: Case, places: Array) -> Summands:
    """The summands of conv and average_pool."""
    (x, spec), words, (batch, channel, i, j) = _value(case, 0), ops.words(case.last), _where(case, places)
    rows, columns, _ = _windows(case, i, j)
    if case.last.op == "conv":
        w, of_w = _value(case, 1)
        per_in = w.shape[1]
        first = channel // (case.spec.shape[1] // words["group"]) * per_in
        weights, zero_w = w[channel].astype(np.int64), _along(of_w.zero_point, channel)
    else:
        per_in, first = 1, channel
        weights, zero_w = np.ones((1, 1, 1, 1), np.int64), np.zeros((1, 1, 1, 1), np.int64)
    plane = (batch * x.shape[1] + first)[:, None] + np.arange(per_in)
    zero = _along(spec.zero_point, first) if len(spec.zero_point) > 1 else spec.zero_point[0]
    return _gathered(x, zero, weights, zero_w, plane, rows, columns)


def _gathered(
    x: Array,
    zero: Array | int,
    w: Array,
    zero_w: Array,
    plane: Array,
    rows: Array,
    columns: Array,
    on_grid: Array | None = None,
    stuffed: Array | None = None,
) -> Summands:
    """plane: [S, I]; rows: [S, kh]; columns: [S, kw]; on_grid, stuffed: [S, 1, kh, kw]."""
    height, width = x.shape[2] if x.ndim == 4 else 1, x.shape[-1]
    read = _is_read(x.shape, rows, columns, on_grid)
    at = (plane[:, :, None, None] * height + np.clip(rows, 0, height - 1)[:, None, :, None]) * width
    values = x.reshape(-1)[at + np.clip(columns, 0, width - 1)[:, None, None, :]].astype(np.int64)
    none = np.zeros((1, 1, 1, 1), bool)
    return Summands(
        np.where(read, values, zero),
        w,
        zero,
        zero_w,
        read,
        plane[:, :, None, None],
        rows[:, None, :, None],
        columns[:, None, None, :],
        none if stuffed is None else stuffed,
    )


def _stretched(case: Case, i: Array, j: Array) -> tuple[Array, Array, Array]:
    """Returns the rows [S, kh] and columns [S, kw] of the stretched input that output rows i and columns j read, and
    which of them are no gap: bool [S, 1, kh, kw]."""
    words, shape = ops.words(case.last), case.graph.spec(case.last.inputs[1] or "").shape
    rows = i[:, None] + words["pad_top"] - np.arange(shape[2]) * words["dilation_h"]
    columns = j[:, None] + words["pad_left"] - np.arange(shape[3]) * words["dilation_w"]
    on_grid = (rows % words["stride_h"] == 0)[:, None, :, None] & (columns % words["stride_w"] == 0)[:, None, None, :]
    return rows, columns, on_grid


def _on_input(case: Case, i: Array, j: Array) -> tuple[Array, Array, Array]:
    """Returns _stretched with the rows and columns of the input itself."""
    words, (rows, columns, on_grid) = ops.words(case.last), _stretched(case, i, j)
    return rows // words["stride_h"], columns // words["stride_w"], on_grid


def _transposed(case: Case, places: Array) -> Summands:
    """The summands of conv_transpose: what an ordinary convolution reads of the stretched input."""
    (x, spec), (w, of_w) = _value(case, 0), _value(case, 1)
    words, (batch, channel, i, j) = ops.words(case.last), _where(case, places)
    per_out, per_in = w.shape[1], x.shape[1] // words["group"]
    first = channel // per_out * per_in
    sh, sw = words["stride_h"], words["stride_w"]
    rows, columns, on_grid = _stretched(case, i, j)
    height, width = x.shape[2] if x.ndim == 4 else 1, x.shape[-1]
    between = ((rows >= 0) & (rows <= (height - 1) * sh))[:, None, :, None]
    between = between & ((columns >= 0) & (columns <= (width - 1) * sw))[:, None, None, :] & ~on_grid
    members = first[:, None] + np.arange(per_in)
    weights = w[members, (channel % per_out)[:, None]].astype(np.int64)
    return _gathered(
        x,
        spec.zero_point[0],
        weights,
        _along(of_w.zero_point, channel % per_out),
        batch[:, None] * x.shape[1] + members,
        rows // sh,
        columns // sw,
        on_grid,
        between,
    )


def _fully_connected(case: Case, places: Array) -> Summands:
    (x, spec), (w, of_w) = _value(case, 0), _value(case, 1)
    row, output = np.unravel_index(places, case.spec.shape)
    return _dense(
        x[row][:, :, None, None], w[output][:, :, None, None], spec.zero_point[0], _along(of_w.zero_point, output)
    )


def operand_batches(case: Case) -> tuple[Array, Array]:
    """Returns for every matrix of a matmul's output which matrix of each operand it multiplies."""
    shape = np.broadcast_shapes(*(case.graph.spec(n or "").shape[:-2] for n in case.last.inputs[:2]))
    found = []
    for name in case.last.inputs[:2]:
        own = case.graph.spec(name or "").shape[:-2]
        found.append(np.broadcast_to(np.arange(int(np.prod(own))).reshape(own), shape).reshape(-1))
    return found[0], found[1]


def _matmul(case: Case, places: Array) -> Summands:
    (a, of_a), (b, of_b) = _value(case, 0), _value(case, 1)
    rows, columns = a.shape[-2], b.shape[-1]
    batch, i, j = np.unravel_index(places, (case.recorded.size // (rows * columns), rows, columns))
    of_first, of_second = operand_batches(case)
    x = a.reshape(-1, *a.shape[-2:])[of_first[batch], i]
    w = b.reshape(-1, *b.shape[-2:])[of_second[batch], :, j]
    return _dense(
        x[:, :, None, None],
        w[:, :, None, None],
        of_a.zero_point[0],
        _along(of_b.zero_point, j),
        of_first[batch][:, None, None, None],
    )


def _mean(case: Case, places: Array) -> Summands:
    """The summands of global_average_pool and reduce_mean: the last axis of the mean along the kernel's columns."""
    x, spec = _value(case, 0)
    mask = ops.words(case.last).get("axes_mask")
    axes = list(range(2, x.ndim)) if mask is None else [i for i in range(x.ndim) if mask >> i & 1]
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = x.transpose(*kept, *axes).reshape(-1, *(x.shape[i] for i in axes))[places]
    one = np.ones((1, 1, 1, 1), np.int64)
    last = x.shape[axes[-1]]
    return _dense(rows.reshape(len(places), 1, -1, last), one, spec.zero_point[0], one * 0)


def _mul(case: Case, places: Array) -> Summands:
    (a, of_a), (b, of_b) = _value(case, 0), _value(case, 1)
    both = [np.broadcast_to(v, case.spec.shape).reshape(-1)[places].reshape(-1, 1, 1, 1) for v in (a, b)]
    return _dense(both[0], both[1], of_a.zero_point[0], np.array(of_b.zero_point[:1]).reshape(1, 1, 1, 1))


_COORDINATES: dict[str, Callable[[Case, Array, Array], tuple[Array, Array, Array | None]]] = {
    "conv": _windows,
    "average_pool": _windows,
    "conv_transpose": _on_input,
}
_OPS = {
    "conv": _windowed,
    "average_pool": _windowed,
    "conv_transpose": _transposed,
    "fully_connected": _fully_connected,
    "matmul": _matmul,
    "global_average_pool": _mean,
    "reduce_mean": _mean,
    "mul": _mul,
}
