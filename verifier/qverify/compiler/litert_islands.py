"""The host islands of a .tflite: operators that were not converted, which LiteRT's own kernels compute on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from qverify.compiler.host_islands import check_something_is_left
from qverify.model_bin.graph import Graph
from qverify.model_bin.island_regions import Step, regions_of
from qverify.model_bin.islands import HostIsland, HostNode, sort_nodes
from qverify.tflite_model.convert import ConvertedModel
from qverify.tflite_model.read_tflite import TfliteOperator
from qverify.tflite_model.state import STATE_KINDS, values_read


def with_litert_islands(graph: Graph, converted: ConvertedModel) -> Graph:
    """Returns the graph of a file's converted part as that of the whole file: what the host makes is no input of the network, but
    comes from islands. Raises UnsupportedError if the board would compute nothing but conversions."""
    if not converted.host:
        return graph
    inputs = tuple(converted.names[i] for i in converted.model.inputs)
    islands = _islands(converted)
    nodes = sort_nodes(graph.nodes, islands, [*inputs, *graph.constants])
    graph = replace(graph, nodes=nodes, inputs=inputs, islands=islands)
    check_something_is_left(graph)
    return graph


def _islands(converted: ConvertedModel) -> tuple[HostIsland, ...]:
    """Returns the islands of the operators that are the host's."""
    model, host, names = converted.model, converted.host, converted.names
    operators = {o.position: o for o in converted.operators}
    reads = {k: values_read(model, o) for k, o in operators.items()}
    makes = {k: [] if o.kind in STATE_KINDS else [*o.outputs] for k, o in operators.items()}
    steps = [Step(k, reads[k], makes[k], k in host) for k in operators]
    ends, readers = {*model.inputs, *model.outputs}, _readers(reads)
    by_host = {i for k in host if k in makes for i in makes[k]}
    islands = []
    for region in regions_of(steps):
        made = [i for k in region for i in makes[k]]
        read = [i for i in dict.fromkeys(i for k in region for i in reads[k]) if i not in made]
        outputs = [i for i in made if readers.get(i, set()) - {*region}]
        finals = [i for i in model.outputs if i in made]
        islands.append(
            HostIsland(
                tuple(names[i] for i in read),
                tuple(names[i] for i in read if i not in ends and i not in by_host),
                tuple(names[i] for i in outputs),
                tuple(dict.fromkeys(names[i] for i in finals)),
                tuple(_node(operators[k], host, names) for k in region),
            )
        )
    return tuple(island for island in islands if island.made)


def _readers(reads: Mapping[int, Sequence[int]]) -> dict[int, set[int]]:
    """Returns the operators that read each tensor."""
    found: dict[int, set[int]] = {}
    for position, tensors in reads.items():
        for i in tensors:
            found.setdefault(i, set()).add(position)
    return found


def _node(operator: TfliteOperator, host: Mapping[int, str], names: Mapping[int, str]) -> HostNode:
    name = names[operator.outputs[0]] if operator.outputs else str(operator)
    return HostNode(name, operator.kind, f"{name} ({operator.kind}): {host[operator.position]}")
