"""Moves the nodes that no kernel serves out of a model, to the host.

They become islands that onnxruntime computes on the host. The rest is compiled as a model that has the islands' results
as additional inputs."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import numpy_helper

from qverify.compiler.lowerings import lowerings
from qverify.errors import BadFileError, UnsupportedError
from qverify.model_bin.graph import Graph
from qverify.model_bin.islands import READS_RESULT, HostIsland, HostNode
from qverify.onnx_model.complete_shapes import pin_shapes
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.graph_view import ELEMENT, GraphView
from qverify.onnx_model.node_order import graphs_of, inner_nodes, reads, sort_nodes
from qverify.plural import count

CONVERSIONS = {
    "quantize",
    "dequantize",
    "reshape",
    "transpose",
    "cast",
    "half_float",
}  # ops that leave nothing to verify


class HostNodes:
    """The nodes of one model that the host computes.

    why: node name to the reason why it cannot be compiled."""

    def __init__(self, model: onnx.ModelProto, name: str):
        """model: its nodes are in running order and its value_info is complete."""
        self._model, self.why = onnx.ModelProto(), dict[str, str]()
        self._model.CopyFrom(model)
        named = iter(GraphView(model, name).nodes)
        for node in self._model.graph.node:
            if node.op_type != "Constant":
                node.name = next(named).name  # unnamed nodes keep the same name in every part of the model
        _drop_unread(self._model.graph)
        pin_shapes(self._model, name)
        self._view = view = GraphView(self._model, name)
        self._reads = {node.name: [n for n in dict.fromkeys(reads(node)) if n in view.tensors] for node in view.nodes}
        self._readers: dict[str, set[str]] = {}
        for name, read in self._reads.items():
            for tensor in read:
                self._readers.setdefault(tensor, set()).add(name)
        self._ends = {*view.inputs, *view.outputs}
        self._fixed = set(view.constants)  # constants and dequantized constants, which both parts contain
        for node in view.nodes:
            if node.op_type == "DequantizeLinear" and self._fixed.issuperset(self._reads[node.name]):
                self._fixed.update(node.output)

    def take(self, refused: Mapping[str, str]) -> None:
        """Adds refused nodes, and those that read one of their outputs whose type or shape model.bin cannot describe.

        refused: node name to the reason."""
        self.why |= self._select_first(refused)
        for node in self._view.nodes:
            if node.name in self.why:
                continue
            undescribed = [n for n in self._reads[node.name] if self._by_host(n) and n not in self._view.types]
            if undescribed:
                why, _, next_step = self._view.why_undescribed(undescribed[0])
                self.why[node.name] = f"{node.name} ({node.op_type}): {READS_RESULT}: {why}. {next_step}"

    def _select_first(self, refused: Mapping[str, str]) -> dict[str, str]:
        """Returns the refusals that are due to the node itself: no page has its operator, or no node before it is
        refused. Once these nodes are on the host, the others may no longer be refused."""
        affected, first, known_operators = set[str](), dict[str, str](), lowerings().read
        for node in self._view.nodes:
            follows = not affected.isdisjoint(self._reads[node.name])
            if node.name in refused and (node.op_type not in known_operators or not follows):
                start, text = f"{node.name} ({node.op_type}): ", refused[node.name]
                first[node.name] = text if text.startswith(start) else start + text
            if node.name in refused or follows:
                affected.update(node.output)
        return first

    def _by_host(self, name: str) -> bool:
        """Returns whether the host computes the tensor."""
        maker = self._view.producer.get(name)
        return maker is not None and maker.name in self.why and name not in self._fixed

    def names(self) -> set[str]:
        """Returns the names of all tensors that the host's nodes compute, also inside their subgraphs."""
        inner = [n for node in self._view.nodes if node.name in self.why for n in inner_nodes(node)]
        graphs = [graph for node in inner for graph in graphs_of(node)]
        constants = (i.name for graph in graphs for i in graph.initializer)
        return {
            *constants,
            *(v.name for g in graphs for v in g.input),
            *(o for node in inner for o in node.output if o),
        }

    def islands(self) -> tuple[HostIsland, ...]:
        """Returns the connected regions of the host's nodes, split where a region would depend on its own results
        through the board."""
        islands = []
        for nodes in self._regions():
            made = {o for node in nodes for o in node.output if o}
            inside = {node.name for node in nodes}
            read = dict.fromkeys(n for node in nodes for n in self._reads[node.name])
            inputs = tuple(n for n in read if n not in made and n not in self._fixed)
            islands.append(
                HostIsland(
                    inputs,
                    tuple(n for n in inputs if n not in self._ends and not self._by_host(n)),
                    tuple(o for node in nodes for o in node.output if self._readers.get(o, set()) - inside),
                    tuple(n for n in self._view.outputs if n in made),
                    tuple(HostNode(node.name, node.op_type, self.why[node.name]) for node in nodes),
                )
            )
        return tuple(islands)

    def _regions(self) -> list[list[onnx.NodeProto]]:
        """Returns the nodes of each island, in running order."""
        from qverify.model_bin.island_regions import Step, regions_of

        steps = [
            Step(n.name, self._reads[n.name], [o for o in n.output if o not in self._fixed], n.name in self.why)
            for n in self._view.nodes
        ]
        nodes = {node.name: node for node in self._view.nodes}
        return [[nodes[name] for name in names] for names in regions_of(steps)]

    def board_part(self) -> onnx.ModelProto:
        """Returns the model without the host's nodes. The islands' results that it reads are additional inputs, and the
        tensors that the islands read from it are additional outputs."""
        part, islands = onnx.ModelProto(), self.islands()
        part.CopyFrom(self._model)
        graph = part.graph
        kept = [node for node in self._model.graph.node if node.name not in self.why or node.op_type == "Constant"]
        read = {n for node in kept for n in reads(node)}
        further_inputs = dict.fromkeys(n for island in islands for n in island.outputs if n in read)
        outputs = [o.name for o in self._model.graph.output if not self._by_host(o.name)]
        outputs += [n for island in islands for n in island.pulled]
        del graph.node[:], graph.output[:]
        graph.node.extend(kept)
        graph.input.extend(self._info(n) for n in further_inputs)
        graph.output.extend(self._info(n) for n in dict.fromkeys(outputs))
        return part

    def _info(self, name: str) -> onnx.ValueInfoProto:
        """Returns the tensor's declaration, with type and shape if they are known."""
        if name not in self._view.types:
            return onnx.ValueInfoProto(name=name)
        dtype, shape = self._view.types[name]
        return onnx.helper.make_tensor_value_info(name, ELEMENT[dtype], shape)

    def whole(self, integer: onnx.ModelProto) -> onnx.ModelProto:
        """Returns the integer ONNX of the board's part with the islands' nodes inserted again, so that it has the
        network's inputs and outputs."""
        model = onnx.ModelProto()
        model.CopyFrom(integer)
        graph, source = model.graph, self._model.graph
        present = {o for node in graph.node for o in node.output}
        inserted = [node for node in self._view.nodes if node.name in self.why]
        read = {n for node in inserted for n in self._reads[node.name]}
        inserted += [
            n for n in self._view.nodes if read & self._fixed & {*n.output} and not present.intersection(n.output)
        ]
        read |= {n for node in inserted for n in self._reads[node.name]}
        graph.node.extend(inserted)
        sort_nodes(graph, self._view.file)
        initializers = {i.name for i in graph.initializer}
        graph.initializer.extend(
            numpy_helper.from_array(self._view.constants[n], n)
            for n in sorted(read & self._view.constants.keys() - initializers)
        )
        del graph.input[:], graph.output[:]
        graph.input.extend(i for i in source.input if i.name in self._view.inputs)
        graph.output.extend(source.output)
        return model

    def inputs(self) -> tuple[str, ...]:
        """Returns the names of the network's inputs."""
        return tuple(self._view.inputs)


def _drop_unread(graph: onnx.GraphProto) -> None:
    """Removes the nodes that no output depends on, in place, so that they are not moved to the host."""
    needed, kept = {o.name for o in graph.output}, list[onnx.NodeProto]()
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            needed.update(reads(node))
            kept.append(onnx.NodeProto.FromString(node.SerializeToString()))
    del graph.node[:]
    graph.node.extend(reversed(kept))


def check_host_runs(integer: onnx.ModelProto, islands: tuple[HostIsland, ...]) -> None:
    """Raises UnsupportedError that names the islands' nodes if onnxruntime refuses the model with them."""
    try:
        Engine(integer.SerializeToString())
    except BadFileError as error:
        nodes = [f"{node.name} ({node.op})" for island in islands for node in island.nodes]
        raise UnsupportedError(
            f"it cannot be computed on the host, either ({', '.join(nodes[:5])}): {error}"
        ) from error


def check_something_is_left(graph: Graph) -> None:
    """Raises UnsupportedError if the board would compute nothing but conversions."""
    if graph.islands and all(node.op in CONVERSIONS for node in graph.nodes):
        nodes = [node for island in graph.islands for node in island.nodes]
        raise UnsupportedError(
            f"{nodes[0].why}. Computed on the host ({count(len(nodes), 'node')}), nothing would be left to verify"
        )
