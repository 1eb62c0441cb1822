"""rnn: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.cases.lstm import check_all, random_recurrence, recurrence
from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def rnn_forward(m: Qdq) -> None:
    check_all(m, recurrence(m, "RNN", m.input((4, 1, 13)), (1, 13, 11), b=True))


@reference(integer=False)
def rnn_in_both_directions(m: Qdq) -> None:
    more = {"b": True, "h": True, "lengths": [3, 1, 2], "activations": ["Tanh", "Relu"], "clip": 1.1}
    check_all(m, recurrence(m, "RNN", m.input((3, 3, 7)), (3, 7, 5), direction="bidirectional", **more))


@reference(integer=False)
def rnn_whose_activations_are_more_than_its_directions(m: Qdq) -> None:
    m.output(recurrence(m, "RNN", m.input((4, 2, 5)), (2, 5, 9), activations=["Tanh", "Tanh"])[1])


@reference(integer=False)
def rnn_of_small_values(m: Qdq) -> None:
    """onnxruntime's Tanh of an RNN errs by as much near 0 as elsewhere."""
    x = m.op("Mul", [m.input((1, 4, 5)), m.constant("little", np.float32(0.003))])
    m.output(recurrence(m, "RNN", x, (4, 5, 9))[0])


def random_nodes(r: RandomNodes) -> None:
    for _ in range(3):
        random_recurrence(r, "rnn", 1, 1, ())
