"""Values and error bounds of lstm, gru and rnn, step by step: each step is evaluated from the h that the same side
recorded for the step before (NUMERICS.md section 4).

Each function that is named after an op takes a node, its bounded inputs, the graph, and the outputs that one side
recorded, and returns the bounded outputs of that side. Therefore errors do not grow from step to step, except in c,
which no side records; there the forget gate multiplies the error.

An element of a gate is lost if the magnitudes of its terms may overflow in float32, and so is everything computed from
it. A step after a recorded h that is not finite is lost, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qverify.arithmetic.recurrences import (
    GateFunction,
    RecurrenceOperands,
    ScaledWeights,
    quantize_by_range,
    read_integer_operands,
    read_integer_weights,
    read_operands,
    read_settings,
)
from qverify.compare.error_bounds.bounded_values import (
    BEYOND,
    OVERFLOW,
    ROUNDOFF,
    TINY,
    Array,
    BoundedValue,
    NoBound,
    Real,
    Reals,
    gamma,
)
from qverify.compare.error_bounds.float_sums import DOUBLE, EXTRA
from qverify.compare.error_bounds.functions import FUNCTIONS, Function, apply
from qverify.model_bin.graph import Graph, Node

StepBoundFunction = Callable[[Node, list[BoundedValue | None], Graph, Mapping[str, Array]], list[BoundedValue]]
GATES = FUNCTIONS | {
    "affine": Function(lambda x, p, q: p * x + q, lambda x, y, p, q: 2 * np.abs(p * x)),
    "tanh_by_sigmoid": Function(lambda x, p, q: np.tanh(x), lambda x, y, p, q: 12.0 + np.abs(y)),
    "scaled_tanh": Function(lambda x, p, q: p * np.tanh(q * x), lambda x, y, p, q: 12 * np.abs(y) + abs(p)),
}
FALLING = ("leaky_relu", "elu", "thresholded_relu")  # functions that fall and rise if alpha is negative


@dataclass(frozen=True, slots=True)
class _Kernel:
    """The rounding of a kernel. own: whether the kernel is qverify's own, which computes exact sums; if not, it is any
    float32 kernel."""

    own: bool

    def sums(self, terms: int, size: Reals, value: Reals, rounded: Reals, moved: Reals | float = 0.0) -> Real:
        """Returns bounded sums of products.

        Args:
            terms: number of products of one sum.
            size: sums of the magnitudes of the terms.
            value: the sums.
            rounded: sums of the magnitudes that qverify's kernel rounds.
            moved: the part of the error that comes from the errors of the terms.
        """
        if self.own:
            y = Real(value, moved + ROUNDOFF * rounded + DOUBLE * terms * size + TINY)
        else:
            y = Real(value, moved + gamma(terms + EXTRA) * (size + moved) + (terms + 2) * TINY)
        return _mark_lost_if_large(y.as_float32(), size + moved)

    def product(self, a: Real, b: Real) -> Real:
        """Returns the product of a and b. It is a term of a sum, or is rounded afterwards."""
        value = a.value * b.value
        error = np.abs(a.value) * b.error + np.abs(b.value) * a.error + a.error * b.error
        y = Real(value, error + (DOUBLE if self.own else ROUNDOFF) * np.abs(value) + TINY)
        return _mark_lost_if_large(_mark_lost_like(y, a, b), value)

    def gate(self, gate: GateFunction, x: Real, limited: bool = True) -> Real:
        """Returns the function of a gate applied to x. Raises NoBound if the function rises and falls."""
        if gate.name in FALLING and gate.alpha < 0:
            raise NoBound(f"{gate.name} of a negative alpha")
        x = replace(x, value=gate.limited(x.value)) if limited else x
        y = _mark_lost_like(apply(GATES[gate.name], x, gate.alpha, gate.beta), x)
        if not self.own:
            return _round_to_float32(y)
        compute = GATES[gate.name].compute
        ends = [np.abs(compute(x.value + s * x.error, gate.alpha, gate.beta) - y.value) for s in (-1, 1)]
        size = np.abs(
            x.value if gate.name == "affine" else y.value
        )  # only of affine can the terms be larger than y and 1
        inside = DOUBLE * (1 + abs(gate.alpha) + abs(gate.beta)) * (1 + size)
        return _round_to_float32(Real(y.value, np.maximum(*ends) + inside, None, y.lost))


def _add(a: Real, b: Real) -> Real:
    y = Real(a.value + b.value, a.error + b.error)
    return _mark_lost_if_large(_mark_lost_like(y, a, b), y.value)


def _round_to_float32(x: Real) -> Real:
    """Returns the values after a rounding to float32."""
    return x.rounded().as_float32()


def _mark_lost_like(y: Real, *parts: Real) -> Real:
    """Returns y, with the elements lost that are lost in one of the parts."""
    return y.mark_lost(*(part.lost for part in parts if part.lost is not None))


def _mark_lost_if_large(y: Real, size: Reals) -> Real:
    """Returns y, with the elements lost of which the magnitude of the terms may overflow or is NaN."""
    return y.mark_lost(~(np.abs(size) < OVERFLOW))


def _select(values: Real, at: Any) -> Real:
    """Returns the part of the values at an index."""
    lost = None if values.lost is None else values.lost[at]
    return Real(values.value[at], values.error[at], None, lost)


class _Direction:
    """The values that one side recorded for one direction of a recurrence.

    Attributes:
        operands: the inputs of the recurrence.
        d, backward: index of the direction, and whether it runs backward.
        inside: mask (T, N, 1) of the steps before each row's end.
        y: the recorded output (T, N, H), 0 beyond each row's end.
        before: the h before each step.
        terms: number of terms of a gate's sum.
        bias: magnitudes of the sums of both biases.
        x, h: sums of x, and of h, with their biases, as (value, size); see add_up().
    """

    def __init__(self, operands: RecurrenceOperands, d: int, backward: bool, y: Array):
        self.operands, self.d, self.backward = operands, d, backward
        steps = np.arange(len(y))[:, None]
        self.inside = (steps < operands.lengths)[..., None]
        self.y = y.astype(np.float64)
        first = operands.h[d]
        if backward:
            self.before = np.concatenate([self.y[1:], first[None]])
            self.before = np.where((steps == operands.lengths - 1)[..., None], first, self.before)
        else:
            self.before = np.concatenate([first[None], self.y[:-1]])
        self.terms = operands.x.shape[-1] + operands.hidden + 2
        self.bias = np.abs(np.add(*operands.biases(d)))

    def add_up(self) -> None:
        """Computes x and h."""
        of_x, of_h = self.operands.biases(self.d)
        self.x = _multiply(self.operands.x, self.operands.w[self.d], of_x)
        self.h = _multiply(self.before, self.operands.r[self.d], of_h)

    def gates(self, kernel: _Kernel, at: slice) -> Real:
        """Returns the arguments of these gates, each of which is one sum over x and h."""
        (x, size_x), (h, size_h) = self.x, self.h
        of_x, value = x[..., at] + self.operands.biases(self.d)[1][at], x[..., at] + h[..., at]
        rounded = self.bias[at] + np.abs(of_x) + np.abs(value)
        return kernel.sums(self.terms, (size_x + size_h)[..., at], value + _find_infinities(of_x), rounded)


def _find_infinities(sums: Reals) -> Reals:
    """Returns the infinities of the sums that are too large for float32, and 0 for all others."""
    return np.where(np.abs(sums) >= BEYOND, np.copysign(np.inf, sums), 0.0)


def _multiply(a: Array, weights: Array, bias: Array) -> tuple[Reals, Reals]:
    return a @ weights.T + bias, np.abs(a) @ np.abs(weights).T + np.abs(bias)


def lstm(
    node: Node, inputs: list[BoundedValue | None], graph: Graph, recorded: Mapping[str, Array]
) -> list[BoundedValue]:
    operands = read_operands(_read_exact_inputs(node, inputs, recorded), node.name)

    def gates(kernel: _Kernel, part: _Direction) -> Real:
        part.add_up()
        return part.gates(kernel, slice(None))

    return _bound_lstm(node, operands, recorded[node.outputs[0]], gates)


def lstm_integer(
    node: Node, inputs: list[BoundedValue | None], graph: Graph, recorded: Mapping[str, Array]
) -> list[BoundedValue]:
    values = _read_exact_inputs(node, inputs, recorded)
    operands, (of_x, of_h) = read_integer_operands(values, node.name), read_integer_weights(values, len(values[1]))  # type: ignore[arg-type]

    def gates(kernel: _Kernel, part: _Direction) -> Real:
        """Returns the sums of the gates. All sides quantize x and h in the same way; six float32 operations follow on
        each side."""
        (x, size_x), (h, size_h) = (
            _multiply_quantized(of_x[part.d], [operands.x]),
            _multiply_quantized(of_h[part.d], list(part.before[:, None])),
        )
        biases = operands.biases(part.d)
        size = size_x + size_h + np.abs(biases[0]) + np.abs(biases[1])
        return _mark_lost_if_large(Real(x + h + (biases[0] + biases[1]), gamma(8) * size + 8 * TINY), size)

    return _bound_lstm(node, operands, recorded[node.outputs[0]], gates)


def _multiply_quantized(weights: ScaledWeights, parts: list[Array]) -> tuple[Reals, Reals]:
    """Returns the products of 8-bit weights and rows, and the magnitudes of the products, which each kernel rounds.
    parts: rows (T, 1, depth) that are quantized together."""
    rows = [quantize_by_range(part) for part in parts]
    steps = np.concatenate([s * float(scale) for s, scale in rows])
    recorded = (steps @ weights.centred.T) * weights.scales.astype(np.float64)
    return recorded, np.abs(recorded)


def _bound_lstm(
    node: Node, operands: RecurrenceOperands, y: Array, gates_of: Callable[[_Kernel, _Direction], Real]
) -> list[BoundedValue]:
    settings = read_settings(node.words, 3, True)

    def both(kernel: _Kernel) -> tuple[Real, Real]:
        outputs, last = _make_zeros(y.shape), _make_zeros(operands.c.shape)
        for d, backward in enumerate(settings.reverse):
            gates = gates_of(kernel, _Direction(operands, d, backward, y[:, d]))
            c = _make_zeros(operands.c[d].shape)
            c.value[:] = operands.c[d]
            for step in range(int(operands.lengths.max(initial=0))):
                rows, at = operands.positions(step, backward)
                now = _select(gates, (at, rows))
                h, new = _bound_lstm_step(
                    kernel, settings.gates[d], settings.flag, operands.p[d], now, _select(c, rows)
                )
                _write(outputs, (at, d, rows), h)
                _write(c, rows, new)
            some = operands.lengths > 0
            _write(last, (d, some), _select(c, some))
        return outputs, last

    (any_y, any_c), (own_y, own_c) = both(_Kernel(False)), both(_Kernel(True))
    last_h = _find_last_h(operands, settings.reverse, y, any_y.lost)
    return [replace(any_y.mark_lost(), ours=own_y.error), last_h, replace(any_c.mark_lost(), ours=own_c.error)]


def _bound_lstm_step(
    kernel: _Kernel, functions: tuple[GateFunction, ...], coupled: bool, peepholes: Array, sums: Real, c: Real
) -> tuple[Real, Real]:
    f, g, last = functions
    size = c.value.shape[-1]
    i, o, forget, new = (_select(sums, np.s_[..., k * size : (k + 1) * size]) for k in range(4))
    of_i, of_o, of_f = (Real(p, np.zeros_like(p)) for p in np.split(peepholes, 3))

    def peep(gate: Real, weights: Real, state: Real) -> Real:
        return _round_to_float32(_add(gate, kernel.product(weights, state))) if peepholes.any() else gate

    i = kernel.gate(f, peep(i, of_i, c))
    forget = _round_to_float32(replace(i, value=1.0 - i.value)) if coupled else kernel.gate(f, peep(forget, of_f, c))
    state = _round_to_float32(_add(kernel.product(forget, c), kernel.product(i, kernel.gate(g, new))))
    o = kernel.gate(f, peep(o, of_o, state))
    return _round_to_float32(kernel.product(o, kernel.gate(last, state, limited=False))), state


def gru(
    node: Node, inputs: list[BoundedValue | None], graph: Graph, recorded: Mapping[str, Array]
) -> list[BoundedValue]:
    operands, settings = (
        read_operands(_read_exact_inputs(node, inputs, recorded), node.name),
        read_settings(node.words, 2, True),
    )

    def of_direction(kernel: _Kernel, part: _Direction, functions: tuple[GateFunction, ...]) -> Real:
        first_gates, last_gate = slice(0, 2 * operands.hidden), slice(2 * operands.hidden, None)
        gates = kernel.gate(functions[0], part.gates(kernel, first_gates))
        z, r = _select(gates, np.s_[..., : operands.hidden]), _select(gates, np.s_[..., operands.hidden :])
        h = Real(part.before, np.zeros_like(part.before))
        if settings.flag:
            (x, size_x), (v, size_h) = ([p[..., last_gate] for p in sums] for sums in (part.x, part.h))
            inner = kernel.sums(operands.hidden + 1, size_h, v, np.abs(v))
            of_x = kernel.sums(operands.x.shape[-1] + 1, size_x, x, np.abs(x))
            candidate = _round_to_float32(_add(of_x, kernel.product(r, inner)))
        else:
            candidate = _reset_first(kernel, part, _round_to_float32(kernel.product(r, h)), last_gate)
        new = kernel.gate(functions[1], candidate)
        value = (1.0 - z.value) * new.value + z.value * h.value
        error = np.abs(new.value - h.value) * z.error + (np.abs(1.0 - z.value) + z.error) * new.error
        size = np.abs(new.value) * (1 + np.abs(z.value)) + np.abs(z.value * h.value) + np.abs(h.value)
        more = DOUBLE * size if kernel.own else 4 * ROUNDOFF * size
        return _mark_lost_like(_mark_lost_if_large(_round_to_float32(Real(value, error + more)), size), z, new)

    return _bound_directions(node, operands, settings.reverse, settings.gates, recorded, of_direction)


def _reset_first(kernel: _Kernel, part: _Direction, h: Real, at: slice) -> Real:
    """Returns the argument of the last gate of a gru, of which h is replaced by r * h."""
    weights, (x, size_x) = part.operands.r[part.d][at], part.x
    of_x, size, moved = x[..., at], np.abs(h.value) @ np.abs(weights).T, h.error @ np.abs(weights).T
    bias_of_h = part.operands.biases(part.d)[1][at]
    value = of_x + bias_of_h + h.value @ weights.T + _find_infinities(of_x + bias_of_h)
    rounded = part.bias[at] + np.abs(of_x + bias_of_h) + np.abs(value) + moved
    y = kernel.sums(part.terms, size_x[..., at] + size + np.abs(bias_of_h), value, rounded, moved)
    return y if h.lost is None else y.mark_lost(np.asarray(h.lost.any(-1, keepdims=True)))


def rnn(
    node: Node, inputs: list[BoundedValue | None], graph: Graph, recorded: Mapping[str, Array]
) -> list[BoundedValue]:
    operands, settings = (
        read_operands(_read_exact_inputs(node, inputs, recorded), node.name),
        read_settings(node.words, 1, False),
    )

    def of_direction(kernel: _Kernel, part: _Direction, functions: tuple[GateFunction, ...]) -> Real:
        gate = functions[0]
        if gate.name == "tanh" and not kernel.own:  # onnxruntime's RNN computes tanh as 2 * sigmoid(2x) - 1
            gate = replace(gate, name="tanh_by_sigmoid")
        return kernel.gate(gate, part.gates(kernel, slice(None)))

    return _bound_directions(node, operands, settings.reverse, settings.gates, recorded, of_direction)


def _bound_directions(
    node: Node,
    operands: RecurrenceOperands,
    reverse: tuple[bool, ...],
    functions: tuple[tuple[GateFunction, ...], ...],
    recorded: Mapping[str, Array],
    of: Callable[[_Kernel, _Direction, tuple[GateFunction, ...]], Real],
) -> list[BoundedValue]:
    y = recorded[node.outputs[0]]
    whole, own_error = _make_zeros(y.shape), np.zeros(y.shape)
    for d, backward in enumerate(reverse):
        part = _Direction(operands, d, backward, y[:, d])
        part.add_up()
        by_any, by_own = (of(_Kernel(k), part, functions[d]) for k in (False, True))
        inside = np.broadcast_to(part.inside, by_any.value.shape)
        step, row, unit = np.nonzero(inside)
        _write(whole, (step, d, row, unit), _select(by_any, inside))
        own_error[step, d, row, unit] = by_own.error[inside]
    return [replace(whole.mark_lost(), ours=own_error), _find_last_h(operands, reverse, y, whole.lost)]


def _read_exact_inputs(
    node: Node, inputs: list[BoundedValue | None], recorded: Mapping[str, Array]
) -> list[Array | None]:
    """Returns the values of the inputs. Raises NoBound if one has an error, or if the side recorded no y."""
    if node.outputs[0] not in recorded:
        raise NoBound(f"{node.op} without its states")
    if any(isinstance(v, Real) and v.error.any() for v in inputs):
        raise NoBound(f"{node.op} of inexact floats")
    return [None if v is None else v.value if isinstance(v, Real) else v.low for v in inputs]


def _find_last_h(operands: RecurrenceOperands, reverse: tuple[bool, ...], y: Array, lost: Array | None) -> Real:
    """Returns the state that the side recorded in y for the last step of each row. lost: mask of the lost elements of
    y."""
    last, rows = _make_zeros(operands.h.shape), np.flatnonzero(operands.lengths > 0)
    for d, backward in enumerate(reverse):
        at = (0 if backward else operands.lengths[rows] - 1, d, rows)
        _write(last, (d, rows), Real(y[at], np.zeros(y[at].shape), None, None if lost is None else lost[at]))
    return replace(last.mark_lost(), ours=np.zeros_like(last.value))


def _make_zeros(shape: tuple[int, ...]) -> Real:
    """Returns zeros without error, which _put() fills."""
    return Real(np.zeros(shape), np.zeros(shape), None, np.zeros(shape, bool))


def _write(whole: Real, at: Any, part: Real) -> None:
    """Writes the values, errors and lost elements of `part` into `whole` at an index, in place."""
    assert whole.lost is not None
    whole.value[at], whole.error[at], whole.lost[at] = part.value, part.error, False if part.lost is None else part.lost
