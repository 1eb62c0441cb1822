"""Checks that the model has the nodes that the faults in a board's address name."""

from __future__ import annotations

from qverify_agents.boards.faulty_runtime import struck_nodes
from qverify_agents.errors import BadAddress

from qverify.closest_names import closest_names
from qverify.model_bin.graph import Graph


def check_struck_nodes(uri: str, graph: Graph) -> None:
    """Raises BadAddress, with similar names, for a fault of a node that the graph does not have."""
    names = [n.name for n in graph.nodes]
    wrong = next((n for n in struck_nodes(uri) if n not in names), None)
    if wrong is None:
        return
    near = [n.name for n in graph.nodes if wrong in n.covers] or closest_names(wrong, names)
    meant = f"; did you mean {' or '.join(near)}?" if near else ";"
    raise BadAddress(f"-b {uri}: the model has no node {wrong!r}{meant} `qverify inspect MODEL` lists them")
