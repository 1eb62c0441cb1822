"""lstm_integer: reference cases and random nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from qverify.arithmetic.recurrences import RECURRENT
from qverify.compiler.builder import float_word

from tests.ops.cases.conv_float import values
from tests.ops.cases.lstm import check_all
from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


def dynamic(m: Qdq, x: str, steps: int, inputs: int, hidden: int, dtype: str, columns: bool, **more: Any) -> list[str]:
    """A DynamicQuantizeLSTM. columns: one scale for each column. more: attributes."""
    d, limits = 2 if more.get("direction") == "bidirectional" else 1, np.iinfo(dtype)

    def made(shape: tuple[int, ...], spread: float = 0.5) -> str:
        return m.constant(f"f{len(m.constants)}", m.rng.normal(0, spread, shape).astype(np.float32))

    def weights(depth: int) -> list[str]:
        shape = (d, 4 * hidden) if columns else (d,)
        name, zero = f"w{len(m.constants)}", 0 if dtype == "int8" else 119
        return [
            m.constant(name, m.rng.integers(limits.min, limits.max + 1, (d, depth, 4 * hidden)).astype(dtype)),
            m.constant(f"{name}_s", m.rng.uniform(0.002, 0.006, shape).astype(np.float32)),
            m.constant(f"{name}_z", np.full(shape, zero, dtype)),
        ]

    (w, *of_w), (r, *of_r) = weights(inputs), weights(hidden)
    state = (d, 1, hidden)
    names = [x, w, r, made((d, 8 * hidden)), "", made(state), made(state), made((d, 3 * hidden)), *of_w, *of_r]
    first = m.op("DynamicQuantizeLSTM", names, 3, domain="com.microsoft", hidden_size=hidden, **more)
    outputs = [first, f"{first}_1", f"{first}_2"]
    m.kinds |= dict(zip(outputs, [(steps, d, 1, hidden), state, state], strict=True))
    return outputs


@reference(integer=False)
def dynamic_lstm_of_int8(m: Qdq) -> None:
    for name in dynamic(m, m.op("Tanh", [m.input((4, 1, 13))]), 4, 13, 11, "int8", columns=False):
        m.output(name)


@reference(integer=False)
def dynamic_lstm_in_both_directions_of_uint8(m: Qdq) -> None:
    x = m.op("Sigmoid", [m.input((4, 1, 9))])
    check_all(m, dynamic(m, x, 4, 9, 16, "uint8", columns=True, direction="bidirectional", clip=2.0))


def random_nodes(r: RandomNodes) -> None:
    for _ in range(3):
        steps, inputs, hidden, direction = r.pick(1, 4, 7), r.pick(1, 5, 67), r.pick(1, 7, 33), r.pick(0, 1, 2)
        d = 2 if direction == 2 else 1

        def some(*shape: int) -> Any:
            return r.plain(r.rng.normal(0, 0.7, shape).astype(np.float32)) if r.pick(0, 1) else None

        x = values(r, (steps, 1, inputs)) if r.pick(0, 1) else r.rng.normal(0, 1, (steps, 1, inputs))
        weights, parameters = [], []
        for depth in (inputs, hidden):
            dtype = r.type()
            limits = np.iinfo(dtype)
            shape = (d, 4 * hidden) if r.pick(0, 1) else (d,)
            ints = r.rng.integers(limits.min, limits.max + 1, (d, depth, 4 * hidden))
            weights.append(r.constant(ints.astype(dtype)))
            parameters.append(r.constant(r.rng.uniform(0.001, 0.02, shape).astype(np.float32)))
            zeros = r.rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
            parameters.append(r.constant(zeros) if r.pick(0, 1) else None)
        states = [some(d, 8 * hidden), None, some(d, 1, hidden), some(d, 1, hidden), some(d, 3 * hidden)]
        state = (d, 1, hidden)
        outputs = (r.float_output((steps, d, 1, hidden)), r.float_output(state), r.float_output(state))
        words = [direction, float_word(float(r.rng.choice([0.0, 0.6]))), r.pick(0, 1)]
        words += [r.pick(*range(len(RECURRENT))) for _ in range(3 * d)]
        words += [float_word(float(v)) for v in r.rng.normal(0.4, 0.4, 6 * d)]
        r.node("lstm_integer", (r.plain(x.astype(np.float32)), *weights, *states, *parameters), outputs, tuple(words))
