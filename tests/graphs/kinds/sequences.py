"""Recurrences."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.graphs.random_graph import MICROSOFT, RandomGraph

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
ACTIVATIONS = ("Sigmoid", "Tanh", "Relu", "HardSigmoid", "Softsign")


def recurrence(g: RandomGraph) -> None:
    x, kind = g.tensor(rank=3), g.pick(*GATES)
    steps, batch, inputs = g.shape(x)
    hidden, direction = g.pick(1, 3, 4), g.pick("forward", "reverse", "bidirectional")
    d, gates = 1 + (direction == "bidirectional"), GATES[kind]
    names = [x, g.reals(d, gates * hidden, inputs), g.reals(d, gates * hidden, hidden)]
    names.append(g.reals(d, 2 * gates * hidden) if g.chance(0.6) else "")
    names.append(g.constant(g.rng.integers(1, steps + 1, batch), "int32") if g.chance(0.3) else "")
    names.append(g.reals(d, batch, hidden) if g.chance(0.4) else "")
    more: dict[str, Any] = {"clip": 0.9} if g.chance(0.2) else {}
    if kind == "LSTM":
        names += [g.reals(d, batch, hidden) if g.chance(0.4) else "", g.reals(d, 3 * hidden) if g.chance(0.3) else ""]
        more |= {"input_forget": 1} if g.chance(0.2) else {}
    if kind == "GRU":
        more["linear_before_reset"] = g.pick(0, 1)
    if g.chance(0.3):
        count = {"LSTM": 3, "GRU": 2, "RNN": 1}[kind]
        more["activations"] = [g.pick(*ACTIVATIONS) for _ in range(d * count)]
    made = g.add(kind, names, 3 if kind == "LSTM" else 2, hidden_size=hidden, direction=direction, **more)
    if g.chance(g.style.often):
        g.quantize(made[0], g.style.activations)


def recurrence_of_integers(g: RandomGraph) -> None:
    """DynamicQuantizeLSTM, with the batch of 1 that it is verified with."""
    x = g.tensor(rank=3)
    inputs, hidden = g.shape(x)[2], g.pick(2, 4)
    if g.shape(x)[1] != 1:
        x = g.add("Slice", [x, g.whole(0), g.whole(1), g.whole(1)])[0]
    w, r = (g.constant(g.rng.normal(0, 40, (1, k, 4 * hidden)).clip(-127, 127), "int8") for k in (inputs, hidden))
    bias = g.reals(1, 8 * hidden) if g.chance(0.6) else ""
    scales = [g.constant(np.full(1, s), "float32") for s in (0.02, 0.01)]
    zeros = [g.constant(np.zeros(1), "int8") for _ in scales]
    names = [x, w, r, bias, "", "", "", "", scales[0], zeros[0], scales[1], zeros[1]]
    g.add("DynamicQuantizeLSTM", names, 3, MICROSOFT, hidden_size=hidden)


KINDS = (recurrence, recurrence, recurrence_of_integers)
