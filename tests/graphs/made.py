"""A random graph of a seed, in one of the styles."""

from __future__ import annotations

import numpy as np

from tests.graphs.kinds import dynamic, floats, linear, movements, operators, sequences, wholes, written_out
from tests.graphs.random_graph import RandomGraph, Style, Unfit

FAMILIES = {
    "floats": floats.KINDS,
    "linear": linear.KINDS,
    "movements": movements.KINDS,
    "wholes": wholes.KINDS,
    "sequences": sequences.KINDS,
    "dynamic": dynamic.KINDS,
    "operators": operators.KINDS,
    "written_out": written_out.KINDS,
}
USUAL = ("floats", "linear", "movements")
STYLES = {
    "uint8": Style("uint8", 0.85, "float32", ("tensor", "channels"), USUAL),
    "int8": Style("int8", 0.85, "float32", ("channels", "channels", "float"), USUAL),
    "uint16": Style("uint16", 0.8, "float32", ("channels", "float"), USUAL),
    "int16": Style("int16", 0.8, "float32", ("tensor", "channels"), USUAL),
    "float": Style("uint8", 0.1, "float32", ("float", "tensor"), (*USUAL, "sequences")),
    "float16": Style("uint8", 0.2, "float16", ("float", "channels"), USUAL),
    "dynamic": Style("uint8", 0.2, "float32", ("float",), (*USUAL, "dynamic", "dynamic", "sequences")),
    "blocks": Style("int8", 0.2, "float32", ("blocks", "blocks", "float"), ("linear", "linear", "floats")),
    "operators": Style("uint8", 0.6, "float32", ("tensor",), (*USUAL, "operators", "operators", "operators")),
    "wholes": Style("int8", 0.5, "float32", ("channels",), ("wholes", "wholes", "wholes", "movements", "floats")),
    "written out": Style("uint8", 0.5, "float32", ("channels", "float"), (*USUAL, *["written_out"] * 4)),
}
SHAPES = ((1, 4, 6, 5), (2, 3, 5, 4), (1, 2, 7), (3, 2, 5), (2, 6), (4, 3), (1, 3, 3, 4, 2), (5, 1, 4))
TRIES = 6  # for each node


def random_graph(seed: int, style: str = "") -> RandomGraph:
    """A graph of 3 to 12 drawn nodes, with those that belong to them. style: of STYLES; the seed's own without one."""
    rng = np.random.default_rng([seed, 1])
    chosen = STYLES[style or list(STYLES)[seed % len(STYLES)]]
    graph = RandomGraph(seed, chosen)
    for _ in range(graph.pick(1, 1, 2)):
        _input(graph, SHAPES[int(rng.integers(len(SHAPES)))])
    for _ in range(graph.below(13, 3)):
        _node(graph)
    return graph


def style_of(seed: int) -> str:
    return list(STYLES)[seed % len(STYLES)]


def _input(graph: RandomGraph, shape: tuple[int, ...]) -> None:
    value = graph.rng.uniform(-2, 3, shape).astype(np.float32)
    narrow = graph.style.real == "float16"
    at_the_end = narrow and graph.chance(0.7)
    name = graph.input(value.astype(np.float16) if at_the_end else value)
    if narrow and not at_the_end:
        name = graph.add("Cast", [name], to=10)[0]
    graph.quantize(name, graph.style.activations)


def _node(graph: RandomGraph) -> None:
    """Adds nodes of one kind; nothing where no try fits."""
    for _ in range(TRIES):
        family = graph.pick(*graph.style.favoured) if graph.chance(0.75) else graph.pick(*FAMILIES)
        before = (len(graph.nodes), dict(graph.values), dict(graph.quantized))
        try:
            graph.pick(*FAMILIES[family])(graph)
            graph.check_opens()
            return
        except (Unfit, IndexError, ZeroDivisionError):
            del graph.nodes[before[0] :]
            graph.values, graph.quantized = before[1], before[2]
