"""lstm: reference cases and random nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from qverify.arithmetic.recurrences import RECURRENT
from qverify.compiler.builder import float_word
from qverify.tensors.spec import TensorSpec

from tests.ops.cases.conv_float import values
from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrence(m: Qdq, kind: str, x: str, sizes: tuple[int, int, int], **more: Any) -> list[str]:
    """A node over x (T, N, I) with sizes N, I, H. more: attributes, and under the names of further inputs whether (b, h,
    c, p) or with what (lengths) they are given. Returns the names of its outputs."""
    batch, inputs, hidden = sizes
    given = {n: more.pop(n, None) for n in ("b", "lengths", "h", "c", "p")}
    directions, gates = 2 if more.get("direction") == "bidirectional" else 1, GATES[kind]

    def floats(*shape: int) -> str:
        return m.constant(f"f{len(m.constants)}", m.rng.normal(0, 0.5, shape).astype(np.float32))

    def state(name: str) -> str:
        return floats(directions, batch, hidden) if given[name] else ""

    names = [x, floats(directions, gates * hidden, inputs), floats(directions, gates * hidden, hidden)]
    names.append(floats(directions, 2 * gates * hidden) if given["b"] else "")
    lengths = given["lengths"]
    names.append("" if lengths is None else m.constant("lengths", np.array(lengths, np.int32)))
    names.append(state("h"))
    if kind == "LSTM":
        names += [state("c"), floats(directions, 3 * hidden) if given["p"] else ""]
    while not names[-1]:
        names.pop()
    count = 3 if kind == "LSTM" else 2
    first = m.op(kind, names, count, hidden_size=hidden, **more)
    return [first, *(f"{first}_{i}" for i in range(1, count))]


def check_all(m: Qdq, outputs: list[str]) -> None:
    """Makes the first output a quantized one of the model and the others outputs as they are."""
    m.output(m.quantize(outputs[0]))
    for name in outputs[1:]:
        m.output(name)


@reference(integer=False)
def lstm_forward(m: Qdq) -> None:
    check_all(m, recurrence(m, "LSTM", m.input((4, 1, 13)), (1, 13, 11), b=True))


@reference(integer=False)
def lstm_in_both_directions_with_everything(m: Qdq) -> None:
    more = {"b": True, "h": True, "c": True, "p": True, "lengths": [3, 2, 0], "clip": 0.9}
    check_all(m, recurrence(m, "LSTM", m.input((3, 3, 7)), (3, 7, 5), direction="bidirectional", **more))


@reference(integer=False)
def lstm_reverse_with_coupled_gates(m: Qdq) -> None:
    names = recurrence(m, "LSTM", m.input((6, 2, 5)), (2, 5, 9), direction="reverse", input_forget=1, h=True)
    m.output(names[1])


@reference(integer=False)
def lstm_of_other_activations(m: Qdq) -> None:
    kinds = ["HardSigmoid", "Softsign", "ScaledTanh", "Sigmoid", "Affine", "Elu"]
    more = {"activation_alpha": [0.3, 1.5, 0.8, 0.9], "activation_beta": [0.4, 0.7, 0.1], "activations": kinds}
    check_all(m, recurrence(m, "LSTM", m.input((4, 2, 5)), (2, 5, 3), direction="bidirectional", b=True, **more))


def random_recurrence(r: RandomNodes, op: str, gates: int, functions: int, flags: tuple[int, ...]) -> None:
    """One node with random sizes, direction, functions and inputs. flags: what its third word may be; () for no such
    word."""
    steps, batch, inputs, hidden = r.pick(1, 4, 7), r.pick(1, 3), r.pick(1, 5, 67), r.pick(1, 7, 33)
    direction = r.pick(0, 1, 2)
    d = 2 if direction == 2 else 1

    def some(*shape: int) -> TensorSpec | None:
        return r.plain(r.rng.normal(0, 0.7, shape).astype(np.float32)) if r.pick(0, 1) else None

    x = values(r, (steps, batch, inputs)) if r.pick(0, 1) else r.rng.normal(0, 1, (steps, batch, inputs))
    weights = [r.constant(r.rng.normal(0, 0.5, (d, gates * hidden, k)).astype(np.float32)) for k in (inputs, hidden)]
    lengths = r.plain(r.rng.integers(0, steps + 1, batch).astype(np.int32)) if r.pick(0, 1) else None
    given = [r.plain(x.astype(np.float32)), *weights, some(d, 2 * gates * hidden), lengths, some(d, batch, hidden)]
    outputs = [r.float_output((steps, d, batch, hidden)), r.float_output((d, batch, hidden))]
    if op == "lstm":
        given += [some(d, batch, hidden), some(d, 3 * hidden)]
        outputs.append(r.float_output((d, batch, hidden)))
    count = d * functions
    words = [direction, float_word(float(r.rng.choice([0.0, 0.6])))] + ([r.pick(*flags)] if flags else [])
    words += [r.pick(*range(len(RECURRENT))) for _ in range(count)]
    words += [float_word(float(v)) for v in r.rng.normal(0.4, 0.4, 2 * count)]
    r.node(op, tuple(given), tuple(outputs), tuple(words))


def random_nodes(r: RandomNodes) -> None:
    for _ in range(3):
        random_recurrence(r, "lstm", 4, 3, (0, 1))
