"""Values and error bounds of lstm, gru and rnn, step by step: each step is evaluated from the h that the same side
recorded for the step before (NUMERICS.md section 4).

Each function that is named after an op takes a node, its bounded inputs, the graph, and the outputs that one side
recorded, and returns the bounded outputs of that side. Therefore errors do not grow from step to step, except in c,
which no side records; there the forget gate multiplies the error.

An element of a gate is lost if the magnitudes of its terms may overflow in float32, and so is everything computed from
it. A step after a recorded h that is not finite is lost, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qverify.compare.error_bounds.bounded_values import (
    ROUNDOFF,
    TINY,
    Array,
    BoundedValue,
    NoBound,
    Real,
    Reals,
    gamma,
)
from qverify.compare.error_bounds.float_sums import DOUBLE
from qverify.model_bin.graph import Graph, Node

if TYPE_CHECKING:
    from qverify.arithmetic.recurrences import GateFunction, RecurrenceOperands, ScaledWeights
    from qverify.compare.error_bounds.recurrent_gates import GateKernel, RecordedDirection

StepBoundFunction = Callable[[Node, list[BoundedValue | None], Graph, Mapping[str, Array]], list[BoundedValue]]


def lstm(
    node: Node, inputs: list[BoundedValue | None], graph: Graph, recorded: Mapping[str, Array]
) -> list[BoundedValue]:
    from qverify.arithmetic.recurrences import read_operands

    operands = read_operands(_read_exact_inputs(node, inputs, recorded), node.name)

    def gates(kernel: GateKernel, part: RecordedDirection) -> Real:
        part.add_up()
        return part.gates(kernel, slice(None))

    return _bound_lstm(node, operands, recorded[node.outputs[0]], gates)


def lstm_integer(
    node: Node, inputs: list[BoundedValue | None], graph: Graph, recorded: Mapping[str, Array]
) -> list[BoundedValue]:
    from qverify.arithmetic.recurrences import read_integer_operands, read_integer_weights
    from qverify.compare.error_bounds.recurrent_gates import mark_lost_if_large

    values = _read_exact_inputs(node, inputs, recorded)
    operands, (of_x, of_h) = read_integer_operands(values, node.name), read_integer_weights(values, len(values[1]))  # type: ignore[arg-type]

    def gates(kernel: GateKernel, part: RecordedDirection) -> Real:
        """Returns the sums of the gates. All sides quantize x and h in the same way; six float32 operations follow on
        each side."""
        (x, size_x), (h, size_h) = (
            _multiply_quantized(of_x[part.d], [operands.x]),
            _multiply_quantized(of_h[part.d], list(part.before[:, None])),
        )
        biases = operands.biases(part.d)
        size = size_x + size_h + np.abs(biases[0]) + np.abs(biases[1])
        return mark_lost_if_large(Real(x + h + (biases[0] + biases[1]), gamma(8) * size + 8 * TINY), size)

    return _bound_lstm(node, operands, recorded[node.outputs[0]], gates)


def _multiply_quantized(weights: ScaledWeights, parts: list[Array]) -> tuple[Reals, Reals]:
    """Returns the products of 8-bit weights and rows, and the magnitudes of the products, which each kernel rounds.
    parts: rows (T, 1, depth) that are quantized together."""
    from qverify.arithmetic.recurrences import quantize_by_range

    rows = [quantize_by_range(part) for part in parts]
    steps = np.concatenate([s * float(scale) for s, scale in rows])
    recorded = (steps @ weights.centred.T) * weights.scales.astype(np.float64)
    return recorded, np.abs(recorded)


def _bound_lstm(
    node: Node, operands: RecurrenceOperands, y: Array, gates_of: Callable[[GateKernel, RecordedDirection], Real]
) -> list[BoundedValue]:
    from qverify.arithmetic.recurrences import read_settings
    from qverify.compare.error_bounds.recurrent_gates import GateKernel, RecordedDirection, select

    settings = read_settings(node.words, 3, True)

    def both(kernel: GateKernel) -> tuple[Real, Real]:
        outputs, last = _make_zeros(y.shape), _make_zeros(operands.c.shape)
        for d, backward in enumerate(settings.reverse):
            gates = gates_of(kernel, RecordedDirection(operands, d, backward, y[:, d]))
            c = _make_zeros(operands.c[d].shape)
            c.value[:] = operands.c[d]
            for step in range(int(operands.lengths.max(initial=0))):
                rows, at = operands.positions(step, backward)
                now = select(gates, (at, rows))
                h, new = _bound_lstm_step(kernel, settings.gates[d], settings.flag, operands.p[d], now, select(c, rows))
                _write(outputs, (at, d, rows), h)
                _write(c, rows, new)
            some = operands.lengths > 0
            _write(last, (d, some), select(c, some))
        return outputs, last

    (any_y, any_c), (own_y, own_c) = both(GateKernel(False)), both(GateKernel(True))
    last_h = _find_last_h(operands, settings.reverse, y, any_y.lost)
    return [replace(any_y.mark_lost(), ours=own_y.error), last_h, replace(any_c.mark_lost(), ours=own_c.error)]


def _bound_lstm_step(
    kernel: GateKernel, functions: tuple[GateFunction, ...], coupled: bool, peepholes: Array, sums: Real, c: Real
) -> tuple[Real, Real]:
    from qverify.compare.error_bounds.recurrent_gates import add, round_to_float32, select

    f, g, last = functions
    size = c.value.shape[-1]
    i, o, forget, new = (select(sums, np.s_[..., k * size : (k + 1) * size]) for k in range(4))
    of_i, of_o, of_f = (Real(p, np.zeros_like(p)) for p in np.split(peepholes, 3))

    def peep(gate: Real, weights: Real, state: Real) -> Real:
        return round_to_float32(add(gate, kernel.product(weights, state))) if peepholes.any() else gate

    i = kernel.gate(f, peep(i, of_i, c))
    forget = round_to_float32(replace(i, value=1.0 - i.value)) if coupled else kernel.gate(f, peep(forget, of_f, c))
    state = round_to_float32(add(kernel.product(forget, c), kernel.product(i, kernel.gate(g, new))))
    o = kernel.gate(f, peep(o, of_o, state))
    return round_to_float32(kernel.product(o, kernel.gate(last, state, limited=False))), state


def gru(
    node: Node, inputs: list[BoundedValue | None], graph: Graph, recorded: Mapping[str, Array]
) -> list[BoundedValue]:
    from qverify.arithmetic.recurrences import read_operands, read_settings
    from qverify.compare.error_bounds.recurrent_gates import (
        add,
        mark_lost_if_large,
        mark_lost_like,
        round_to_float32,
        select,
    )

    operands, settings = (
        read_operands(_read_exact_inputs(node, inputs, recorded), node.name),
        read_settings(node.words, 2, True),
    )

    def of_direction(kernel: GateKernel, part: RecordedDirection, functions: tuple[GateFunction, ...]) -> Real:
        first_gates, last_gate = slice(0, 2 * operands.hidden), slice(2 * operands.hidden, None)
        gates = kernel.gate(functions[0], part.gates(kernel, first_gates))
        z, r = select(gates, np.s_[..., : operands.hidden]), select(gates, np.s_[..., operands.hidden :])
        h = Real(part.before, np.zeros_like(part.before))
        if settings.flag:
            (x, size_x), (v, size_h) = ([p[..., last_gate] for p in sums] for sums in (part.x, part.h))
            inner = kernel.sums(operands.hidden + 1, size_h, v, np.abs(v))
            of_x = kernel.sums(operands.x.shape[-1] + 1, size_x, x, np.abs(x))
            candidate = round_to_float32(add(of_x, kernel.product(r, inner)))
        else:
            candidate = _reset_first(kernel, part, round_to_float32(kernel.product(r, h)), last_gate)
        new = kernel.gate(functions[1], candidate)
        value = (1.0 - z.value) * new.value + z.value * h.value
        error = np.abs(new.value - h.value) * z.error + (np.abs(1.0 - z.value) + z.error) * new.error
        size = np.abs(new.value) * (1 + np.abs(z.value)) + np.abs(z.value * h.value) + np.abs(h.value)
        more = DOUBLE * size if kernel.own else 4 * ROUNDOFF * size
        return mark_lost_like(mark_lost_if_large(round_to_float32(Real(value, error + more)), size), z, new)

    return _bound_directions(node, operands, settings.reverse, settings.gates, recorded, of_direction)


def _reset_first(kernel: GateKernel, part: RecordedDirection, h: Real, at: slice) -> Real:
    """Returns the argument of the last gate of a gru, of which h is replaced by r * h."""
    from qverify.compare.error_bounds.recurrent_gates import find_infinities

    weights, (x, size_x) = part.operands.r[part.d][at], part.x
    of_x, size, moved = x[..., at], np.abs(h.value) @ np.abs(weights).T, h.error @ np.abs(weights).T
    bias_of_h = part.operands.biases(part.d)[1][at]
    value = of_x + bias_of_h + h.value @ weights.T + find_infinities(of_x + bias_of_h)
    rounded = part.bias[at] + np.abs(of_x + bias_of_h) + np.abs(value) + moved
    y = kernel.sums(part.terms, size_x[..., at] + size + np.abs(bias_of_h), value, rounded, moved)
    return y if h.lost is None else y.mark_lost(np.asarray(h.lost.any(-1, keepdims=True)))


def rnn(
    node: Node, inputs: list[BoundedValue | None], graph: Graph, recorded: Mapping[str, Array]
) -> list[BoundedValue]:
    from qverify.arithmetic.recurrences import read_operands, read_settings

    operands, settings = (
        read_operands(_read_exact_inputs(node, inputs, recorded), node.name),
        read_settings(node.words, 1, False),
    )

    def of_direction(kernel: GateKernel, part: RecordedDirection, functions: tuple[GateFunction, ...]) -> Real:
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
    of: Callable[[GateKernel, RecordedDirection, tuple[GateFunction, ...]], Real],
) -> list[BoundedValue]:
    from qverify.compare.error_bounds.recurrent_gates import GateKernel, RecordedDirection, select

    y = recorded[node.outputs[0]]
    whole, own_error = _make_zeros(y.shape), np.zeros(y.shape)
    for d, backward in enumerate(reverse):
        part = RecordedDirection(operands, d, backward, y[:, d])
        part.add_up()
        by_any, by_own = (of(GateKernel(k), part, functions[d]) for k in (False, True))
        inside = np.broadcast_to(part.inside, by_any.value.shape)
        step, row, unit = np.nonzero(inside)
        _write(whole, (step, d, row, unit), select(by_any, inside))
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
