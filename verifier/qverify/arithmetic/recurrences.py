"""The steps that lstm, gru and rnn have in common, and the functions of their gates (NUMERICS.md, lstm)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.exact_matmul import wrap_int32
from qverify.arithmetic.float32 import dynamic_parameters, exp64, log64, quantize, sigmoid64, tanh64
from qverify.arithmetic.float_sums import multiply_exactly

Array = npt.NDArray[Any]
REVERSE, BIDIRECTIONAL = 1, 2  # values of the word `direction`; 0 is forward


def _softplus(x: Array) -> Array:
    tail = log64(1.0 + exp64(-np.abs(x)))
    return np.where(x > 0, x + tail, tail)


# The index of a name is the value of a word `function` of lstm, gru and rnn.
FUNCTIONS: dict[str, Callable[[Array, float, float], Array]] = {
    "sigmoid": lambda x, p, q: sigmoid64(x),
    "tanh": lambda x, p, q: tanh64(x),
    "relu": lambda x, p, q: np.where(x < 0, 0.0, x),
    "hard_sigmoid": lambda x, p, q: np.minimum(np.maximum(p * x + q, 0.0), 1.0),
    "affine": lambda x, p, q: p * x + q,
    "leaky_relu": lambda x, p, q: np.where(x < 0, p * x, x),
    "thresholded_relu": lambda x, p, q: np.where(x <= p, 0.0, x),
    "elu": lambda x, p, q: np.where(x < 0, p * (exp64(x) - 1.0), x),
    "softsign": lambda x, p, q: x / (1.0 + np.abs(x)),
    "softplus": lambda x, p, q: _softplus(x),
    "scaled_tanh": lambda x, p, q: p * tanh64(q * x),
}


RECURRENT = tuple(FUNCTIONS)


@dataclass(frozen=True, slots=True)
class GateFunction:
    """The function of a gate. clip: limit of the argument's magnitude, or 0 for none."""

    name: str
    alpha: float
    beta: float
    clip: float = 0.0

    def limited(self, x: Array) -> Array:
        """Returns the argument limited to +-clip."""
        return np.clip(x, -self.clip, self.clip) if self.clip else x

    def unlimited(self) -> GateFunction:
        """Returns the function without its limit."""
        return GateFunction(self.name, self.alpha, self.beta)

    def __call__(self, x: Array) -> Array:
        """Returns the function of float64 values that float32 can represent, rounded once to float32, in float64."""
        with np.errstate(all="ignore"):
            return round_to_float32(FUNCTIONS[self.name](self.limited(x), self.alpha, self.beta))


@dataclass(frozen=True, slots=True)
class RecurrenceSettings:
    """The words of a recurrence.

    Attributes:
        reverse: whether it runs backward, for each direction.
        clip: limit of the arguments of gates, or 0.
        flag: input_forget of lstm, linear_before_reset of gru.
        gates: the functions of the gates, for each direction.
    """

    reverse: tuple[bool, ...]
    clip: float
    flag: bool
    gates: tuple[tuple[GateFunction, ...], ...]


def read_settings(words: tuple[int, ...], per_direction: int, has_flag: bool) -> RecurrenceSettings:
    """Returns the settings in the words of a node of lstm, gru or rnn. per_direction: number of functions for each
    direction. has_flag: whether the words include a flag."""
    first = 3 if has_flag else 2
    floats = np.array(words, np.int32).view(np.float32).astype(np.float64)
    count, clip = (len(words) - first) // 3, float(floats[1])
    functions = [
        GateFunction(
            RECURRENT[words[first + k]], float(floats[first + count + k]), float(floats[first + 2 * count + k]), clip
        )
        for k in range(count)
    ]
    gates = tuple(tuple(functions[d : d + per_direction]) for d in range(0, count, per_direction))
    reverse = {REVERSE: (True,), BIDIRECTIONAL: (False, True)}.get(words[0], (False,))
    return RecurrenceSettings(reverse, clip, has_flag and bool(words[2]), gates)


@dataclass(frozen=True, slots=True)
class RecurrenceOperands:
    """The inputs of a recurrence, in float64.

    Attributes:
        x: the sequence (T, N, I).
        w, r: weights of x (D, gates * H, I) and of h (D, gates * H, H).
        b: biases of both (D, 2 * gates * H).
        lengths: lengths of the sequences (N).
        h, c: initial states (D, N, H).
        p: peepholes (D, 3 * H).
    """

    x: Array
    w: Array
    r: Array
    b: Array
    lengths: Array
    h: Array
    c: Array
    p: Array

    @property
    def hidden(self) -> int:
        return int(self.r.shape[-1])

    def biases(self, direction: int) -> tuple[Array, Array]:
        """Returns the biases that belong to w and those that belong to r."""
        half = self.b.shape[1] // 2
        return self.b[direction, :half], self.b[direction, half:]

    def positions(self, step: int, reverse: bool) -> tuple[Array, Array]:
        """Returns the rows whose sequence has this step, and the position of each of them in x at this step."""
        rows = np.flatnonzero(step < self.lengths)
        return rows, self.lengths[rows] - 1 - step if reverse else np.full(len(rows), step)


def read_operands(inputs: list[Array | None], name: str) -> RecurrenceOperands:
    """Returns the operands in the inputs x w r b? lengths? h? c? p?, with zeros for those that are absent. Raises
    ValueError for a length outside 0..T."""
    x, w, r, b, lengths, h, c, p = [*inputs, *[None] * 8][:8]
    assert x is not None and w is not None and r is not None
    steps, batch = x.shape[:2]
    state = (len(r), batch, r.shape[-1])
    if lengths is None:
        lengths = np.full(batch, steps)
    elif lengths.size and (lengths.min() < 0 or lengths.max() > steps):
        raise ValueError(f"{name}: a sequence length outside 0..{steps}")
    optional = ((b, (len(r), 2 * r.shape[1])), (h, state), (c, state), (p, (len(r), 3 * r.shape[-1])))
    floats = [np.zeros(shape) if v is None else v.astype(np.float64) for v, shape in optional]
    wide = [v.astype(np.float64) for v in (x, w, r)]
    b, h, c, p = floats
    return RecurrenceOperands(wide[0], wide[1], wide[2], b, lengths.astype(np.int64), h, c, p)


def read_integer_operands(inputs: list[Array | None], name: str) -> RecurrenceOperands:
    """Returns the operands of an lstm_integer node. Its weights are (D, columns, depth), neither centred nor scaled."""
    weights = [None if v is None else v.swapaxes(1, 2) for v in inputs[1:3]]
    return read_operands([inputs[0], *weights, *inputs[3:8]], name)


def read_integer_weights(
    inputs: list[Array | None], directions: int
) -> tuple[list[ScaledWeights], list[ScaledWeights]]:
    """Returns w and r of each direction. The inputs include w (D, I, 4 * H), r (D, H, 4 * H) and, after the first 8,
    scales and zero points of both, D or D * 4 * H."""
    both = []
    for at, first in ((1, 8), (2, 10)):
        weights, scales, zeros = inputs[at], inputs[first], inputs[first + 1]
        assert weights is not None and scales is not None
        zero = np.zeros(directions) if zeros is None else zeros.astype(np.float64)
        centred = weights.astype(np.float64) - zero.reshape(directions, 1, -1)
        both.append([ScaledWeights(c.T, s) for c, s in zip(centred, scales.reshape(directions, -1), strict=True)])
    return both[0], both[1]


def round_to_float32(x: Array) -> Array:
    """Returns float64 values rounded to float32, as float64. A zero is +0 and a NaN is 0x7FC00000."""
    with np.errstate(all="ignore"):
        y: Array = (np.asarray(x, np.float32) + np.float32(0)).astype(np.float64)
    y[np.isnan(y)] = np.nan
    return y


def multiply_and_round(a: Array, weights: Array, added: Array) -> Array:
    """Returns the exact sums of a @ weights.T + added, rounded once to float32, in float64."""
    return multiply_exactly(a, weights.T, added).astype(np.float64)


# A function that returns the new h and c, given the direction, the sums of x and its biases [N, gates * H], and h and c
# [N, H]
Cell = Callable[[int, Array, Array, Array], tuple[Array, Array]]


def sum_inputs(operands: RecurrenceOperands, direction: int, bias: Array) -> Array:
    """Returns the exact sums (T, N, gates * H) of x and the biases for one direction, rounded once."""
    flat = operands.x.reshape(-1, operands.x.shape[-1])
    return multiply_and_round(flat, operands.w[direction], bias).reshape(*operands.x.shape[:2], -1)


def run_steps(
    operands: RecurrenceOperands,
    reverse: tuple[bool, ...],
    sums_of_x: Callable[[int], Array],
    cell: Cell,
    recorded: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Runs every step of every direction. Returns y (T, D, N, H), which is 0 beyond the end of a sequence, and the last
    h and c (D, N, H), which are 0 for a sequence of length 0.

    Args:
        operands: the inputs of the recurrence.
        reverse: whether each direction runs backward.
        sums_of_x: function that returns the sums of x and its biases for a direction, (T, N, gates * H).
        cell: function that computes one step.
        recorded: a recorded y. If given, each step starts from its h instead of the computed one.
    """
    steps, batch = operands.x.shape[:2]
    y = np.zeros((steps, len(reverse), batch, operands.hidden), np.float32)
    last_h, last_c = (np.zeros(y.shape[1:], np.float32) for _ in range(2))
    for d, backward in enumerate(reverse):
        sums, h, c = sums_of_x(d), operands.h[d].copy(), operands.c[d].copy()
        for step in range(steps):
            rows, at = operands.positions(step, backward)
            if not len(rows):
                break
            with np.errstate(all="ignore"):
                h[rows], c[rows] = cell(d, sums[at, rows], h[rows], c[rows])
            y[at, d, rows] = last_h[d, rows] = h[rows]
            if recorded is not None:
                h[rows] = recorded[at, d, rows]
        some = operands.lengths > 0
        last_c[d, some] = c[some]
    return y, last_h, last_c


def compute_lstm_step(
    functions: tuple[GateFunction, ...], coupled: bool, peepholes: Array | None, sums: Array, c: Array
) -> tuple[Array, Array]:
    """Returns the new h and c of one step of an lstm. sums: sums of its gates i, o, f, c, [N, 4 * H]. coupled: whether
    the forget gate is 1 - i."""
    f, g, last = functions
    i, o, forget, new = np.split(sums, 4, -1)
    if peepholes is not None:
        of_i, of_o, of_f = np.split(peepholes, 3)
        i, forget = round_to_float32(i + of_i * c), round_to_float32(forget + of_f * c)
    i, new = f(i), g(new)
    forget = round_to_float32(1.0 - i) if coupled else f(forget)
    c = round_to_float32(forget * c + i * new)
    if peepholes is not None:
        o = round_to_float32(o + of_o * c)
    return round_to_float32(f(o) * last.unlimited()(c)), c


@dataclass(frozen=True, slots=True)
class ScaledWeights:
    """The 8-bit weights of one direction. centred: weights minus their zero points, [columns, depth]. scales: float32,
    one for all columns or one per column."""

    centred: Array
    scales: Array

    def product(self, a: Array) -> Array:
        """Returns fl32(fl32(acc) * fl32(scale * scales)), acc being the products with the rows of a, which are
        quantized together by their range."""
        steps, scale = quantize_by_range(a)
        with np.errstate(all="ignore"):
            acc = wrap_int32(steps @ self.centred.T)
            y: Array = acc.astype(np.float32) * (scale.reshape(1) * self.scales)
        return y


def quantize_by_range(a: Array) -> tuple[Array, Array]:
    """Quantizes float32 values to uint8 by their own range. Returns the integers minus the zero point, in float64, and
    the scale."""
    a = a.astype(np.float32)
    scale, zero = dynamic_parameters(a)
    with np.errstate(all="ignore"):
        steps = quantize(a, scale.reshape(1), np.full(1, zero), "uint8")
    return steps.astype(np.float64) - zero, scale


def estimate_largest_sum(operands: RecurrenceOperands) -> float:
    """Returns an estimate of the largest sum of magnitudes of a gate's terms. All states except the first are taken to
    be at most 1."""
    most = max(1.0, float(np.abs(operands.h).max(initial=0.0)))
    of_x = np.abs(operands.x).reshape(-1, operands.x.shape[-1]) @ np.abs(operands.w).reshape(-1, operands.w.shape[-1]).T
    return float(
        of_x.max(initial=0.0) + most * np.abs(operands.r).sum(-1).max() + 2 * np.abs(operands.b).max(initial=0.0)
    )
