"""Random graphs of every style: each is verified, or refused by name, and no side differs from another (2,000 of them, and
other architectures: scripts/bench graphs)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.graphs.judged import judge
from tests.graphs.made import STYLES, random_graph
from tests.graphs.random_graph import RandomGraph, Unfit

COUNT = 10  # of each style


@pytest.mark.parametrize("style", STYLES)
def test_every_graph_is_verified(style: str, tmp_path: Path) -> None:
    words = []
    for number in range(COUNT):
        seed = 20_000 + list(STYLES).index(style) + number * len(STYLES)
        graph = random_graph(seed)
        outcome = judge(graph.model(), graph.feed(), tmp_path)
        assert not outcome.bad, f"seed {seed}: {outcome.word}: {outcome.said}"
        words.append(outcome.word)
    assert words.count("PASSED") >= 0.8 * COUNT, words


def test_nodes_that_onnxruntime_refuses_together_are_left_out() -> None:
    """A Resize of 10 elements to 7, for which onnxruntime infers 6, and a comparison with 7."""
    graph = RandomGraph(0, STYLES["float"])
    x = graph.input(np.zeros((1, 1, 1, 10), np.float32))
    resized = graph.add("Resize", [x, "", graph.constant([1, 1, 1, 0.7], "float32")])[0]
    graph.check_opens()
    graph.add("Greater", [resized, graph.reals(7)])
    with pytest.raises(Unfit):
        graph.check_opens()


def test_a_graph_that_is_computed_wrongly_is_found(tmp_path: Path) -> None:
    """The same model on a board that spoils a node: the judgement is no formality."""
    graph = random_graph(20_000)
    model, feed = graph.model(), graph.feed()
    assert judge(model, feed, tmp_path).word == "PASSED"
    node = next(node for node in graph.nodes if node.op_type == "QuantizeLinear").output[0]
    assert judge(model, feed, tmp_path, board=f"faulty:local?fault=bitflip:1@{node}").word == "FAILED"
