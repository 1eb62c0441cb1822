"""The summands of some output elements of a linear op: every input element that is read, and the weight by which it is
multiplied."""

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
    """The summands of S output elements. Each array broadcasts to [S, channels, kernel rows, kernel columns].

    Attributes:
        x: the stored integers of the input, or the zero point where no element is read.
        w: the stored weights; 1 in a mean.
        zero_x, zero_w: zero points.
        read: whether an element of the tensor is read there, rather than padding or a gap.
        plane: index of the input plane, over batch and channels.
        row, column: place that is read, which may lie outside of the plane.
        stuffed: whether the place is a gap between the elements of a stretched input (conv_transpose).
    """

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
        """x without its zero point."""
        return self.x - self.zero_x

    @property
    def centred_w(self) -> Array:
        """w without its zero points."""
        return self.w - self.zero_w

    @property
    def products(self) -> Array:
        """All products; those of padding are 0."""
        return self.centred_x * self.centred_w


def summands(case: Case, places: Array) -> Summands | None:
    """Returns the summands of the output elements at these flat indices, or None for an op without a sum."""
    make = _OPS.get(case.last.op)
    return None if make is None else make(case, places)


def depth(case: Case) -> int:
    """Returns the number of summands of an output element; 0 for an op without a sum."""
    node = case.last
    if node.op not in _OPS:
        return 0
    first = summands(case, np.zeros(1, np.int64))
    return 0 if first is None else int(np.prod(np.broadcast_shapes(first.x.shape, first.w.shape)))


def reads_padding(case: Case) -> Array:
    """Returns a flat mask of the output elements that have padding or a gap among their summands."""
    return case.compute_once("reads padding", lambda: _reads_padding(case))


def _reads_padding(case: Case) -> Array:
    if case.last.op not in _COORDINATES:
        return np.zeros(case.recorded.size, bool)
    pixels = int(np.prod(case.spec.shape[2:]))
    rows, columns, on_grid = _COORDINATES[case.last.op](case, *_where(case, np.arange(pixels))[2:])
    read = _is_read(case.graph.spec(case.last.inputs[0] or "").shape, rows, columns, on_grid)
    return np.tile(~read.reshape(pixels, -1).all(1), case.recorded.size // pixels)


def _value(case: Case, at: int) -> tuple[Array, Any]:
    """Returns an operand in its own dtype, and its spec. Callers convert to int64 only the elements that they need."""
    name = case.last.inputs[at] or ""
    value = case.graph.constants[name] if name in case.graph.constants else case.inputs[name]
    return value, case.graph.spec(name)


def _dense(
    x: Array, w: Array, zero_x: int, zero_w: Array, plane: Array | None = None, column: Array | None = None
) -> Summands:
    """Returns summands without padding, from x and w of rank 4."""
    zeros = np.zeros((1, 1, 1, 1), np.int64)
    return Summands(
        x.astype(np.int64),
        w.astype(np.int64),
        zero_x,
        zero_w,
        np.ones((1, 1, 1, 1), bool),
        zeros if plane is None else plane,
        zeros,
        zeros if column is None else column,
        np.zeros((1, 1, 1, 1), bool),
    )


def _along(zero: tuple[int, ...], channel: Array) -> Array:
    return np.array(zero)[channel if len(zero) > 1 else np.zeros_like(channel)].reshape(-1, 1, 1, 1)


def _where(case: Case, places: Array) -> tuple[Array, Array, Array, Array]:
    """Returns batch, channel, row and column of each place in an output of rank 3 or 4."""
    at = np.unravel_index(places, case.spec.shape)
    row = at[2] if len(at) == 4 else np.zeros_like(at[0])
    return at[0], at[1], row, at[-1]


def _windows(case: Case, i: Array, j: Array) -> tuple[Array, Array, Array | None]:
    """Returns the input rows [S, kh] and columns [S, kw] that the windows of output rows i and columns j read, and None
    because there are no gaps."""
    words = ops.words(case.last)
    kernel = [(words[f"kernel_{s}"], words[f"stride_{s}"], words.get(f"dilation_{s}", 1)) for s in "hw"]
    rows = i[:, None] * kernel[0][1] - words["pad_top"] + np.arange(kernel[0][0]) * kernel[0][2]
    columns = j[:, None] * kernel[1][1] - words["pad_left"] + np.arange(kernel[1][0]) * kernel[1][2]
    return rows, columns, None


def _is_read(shape: tuple[int, ...], rows: Array, columns: Array, on_grid: Array | None) -> Array:
    """Returns which of these places are elements of the tensor: bool [S, 1, kh, kw]."""
    height, width = shape[2] if len(shape) == 4 else 1, shape[-1]
    inside = ((rows >= 0) & (rows < height))[:, None, :, None] & ((columns >= 0) & (columns < width))[:, None, None, :]
    return np.asarray(inside if on_grid is None else inside & on_grid)


def _windowed(case: Case, places: Array) -> Summands:
    """Returns the summands of a conv or average_pool."""
    (x, spec), words, (batch, channel, i, j) = _value(case, 0), ops.words(case.last), _where(case, places)
    rows, columns, _ = _windows(case, i, j)
    if case.last.op == "conv":
        w, w_spec = _value(case, 1)
        per_in = w.shape[1]
        first = channel // (case.spec.shape[1] // words["group"]) * per_in
        weights, zero_w = w[channel].astype(np.int64), _along(w_spec.zero_point, channel)
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
    """Returns summands read from these places: plane [S, I], rows [S, kh], columns [S, kw]; on_grid and stuffed are
    [S, 1, kh, kw]."""
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
    the mask [S, 1, kh, kw] of those that are not gaps."""
    words, shape = ops.words(case.last), case.graph.spec(case.last.inputs[1] or "").shape
    rows = i[:, None] + words["pad_top"] - np.arange(shape[2]) * words["dilation_h"]
    columns = j[:, None] + words["pad_left"] - np.arange(shape[3]) * words["dilation_w"]
    on_grid = (rows % words["stride_h"] == 0)[:, None, :, None] & (columns % words["stride_w"] == 0)[:, None, None, :]
    return rows, columns, on_grid


def _on_input(case: Case, i: Array, j: Array) -> tuple[Array, Array, Array]:
    """Returns the same as _stretched with rows and columns of the input itself."""
    words, (rows, columns, on_grid) = ops.words(case.last), _stretched(case, i, j)
    return rows // words["stride_h"], columns // words["stride_w"], on_grid


def _transposed(case: Case, places: Array) -> Summands:
    """Returns the summands of a conv_transpose: those of an ordinary convolution of the stretched input."""
    (x, spec), (w, w_spec) = _value(case, 0), _value(case, 1)
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
        _along(w_spec.zero_point, channel % per_out),
        batch[:, None] * x.shape[1] + members,
        rows // sh,
        columns // sw,
        on_grid,
        between,
    )


def _fully_connected(case: Case, places: Array) -> Summands:
    (x, spec), (w, w_spec) = _value(case, 0), _value(case, 1)
    row, output = np.unravel_index(places, case.spec.shape)
    return _dense(
        x[row][:, :, None, None], w[output][:, :, None, None], spec.zero_point[0], _along(w_spec.zero_point, output)
    )


def operand_batches(case: Case) -> tuple[Array, Array]:
    """Returns, for both operands of a matmul, the index of the matrix that each matrix of the output multiplies."""
    shape = np.broadcast_shapes(*(case.graph.spec(n or "").shape[:-2] for n in case.last.inputs[:2]))
    indices = []
    for name in case.last.inputs[:2]:
        lead = case.graph.spec(name or "").shape[:-2]
        indices.append(np.broadcast_to(np.arange(int(np.prod(lead))).reshape(lead), shape).reshape(-1))
    return indices[0], indices[1]


def _matmul(case: Case, places: Array) -> Summands:
    (a, a_spec), (b, b_spec) = _value(case, 0), _value(case, 1)
    rows, columns = a.shape[-2], b.shape[-1]
    batch, i, j = np.unravel_index(places, (case.recorded.size // (rows * columns), rows, columns))
    first_matrix, second_matrix = operand_batches(case)
    x = a.reshape(-1, *a.shape[-2:])[first_matrix[batch], i]
    w = b.reshape(-1, *b.shape[-2:])[second_matrix[batch], :, j]
    return _dense(
        x[:, :, None, None],
        w[:, :, None, None],
        a_spec.zero_point[0],
        _along(b_spec.zero_point, j),
        first_matrix[batch][:, None, None, None],
    )


def _mean(case: Case, places: Array) -> Summands:
    """Returns the summands of a global_average_pool or reduce_mean, whose last reduced axis runs along the kernel's
    columns."""
    x, spec = _value(case, 0)
    mask = ops.words(case.last).get("axes_mask")
    axes = list(range(2, x.ndim)) if mask is None else [i for i in range(x.ndim) if mask >> i & 1]
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = x.transpose(*kept, *axes).reshape(-1, *(x.shape[i] for i in axes))[places]
    one = np.ones((1, 1, 1, 1), np.int64)
    last = x.shape[axes[-1]]
    return _dense(rows.reshape(len(places), 1, -1, last), one, spec.zero_point[0], one * 0)


def _mul(case: Case, places: Array) -> Summands:
    (a, a_spec), (b, b_spec) = _value(case, 0), _value(case, 1)
    both = [np.broadcast_to(v, case.spec.shape).reshape(-1)[places].reshape(-1, 1, 1, 1) for v in (a, b)]
    return _dense(both[0], both[1], a_spec.zero_point[0], np.array(b_spec.zero_point[:1]).reshape(1, 1, 1, 1))


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
