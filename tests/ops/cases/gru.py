"""gru: reference cases and random nodes."""

from __future__ import annotations

from tests.ops.cases.lstm import check_all, random_recurrence, recurrence
from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def gru_forward(m: Qdq) -> None:
    check_all(m, recurrence(m, "GRU", m.input((4, 1, 13)), (1, 13, 11), b=True))


@reference(integer=False)
def gru_in_both_directions_reset_last(m: Qdq) -> None:
    more = {"b": True, "h": True, "lengths": [3, 1, 2], "linear_before_reset": 1}
    check_all(m, recurrence(m, "GRU", m.input((3, 3, 7)), (3, 7, 5), direction="bidirectional", **more))


@reference(integer=False)
def gru_reverse_of_other_activations(m: Qdq) -> None:
    more = {"activations": ["HardSigmoid", "Softsign"], "direction": "reverse", "clip": 0.8}
    m.output(recurrence(m, "GRU", m.input((6, 2, 5)), (2, 5, 9), h=True, **more)[1])


def random_nodes(r: RandomNodes) -> None:
    for _ in range(3):
        random_recurrence(r, "gru", 3, 2, (0, 1))
