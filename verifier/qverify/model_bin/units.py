"""Units: each observable tensor with the nodes that compute it from other observable tensors. Forcing runs one unit."""

from __future__ import annotations

from dataclasses import dataclass

from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec

INNER = "part"  # how the names of inner integer steps begin: NAME@partN
PARTS = ("int8", "int16", "int32", "int64")
MOST_NAMED = 8  # nodes of a unit of which each is named; of more, each op once


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit.

    Attributes:
        name: name of its first output.
        op: op of its last node, or ops joined by "+".
        nodes: its nodes in running order. The last one computes the outputs.
        inputs: observable tensors and graph inputs that it reads, without constants.
        outputs: outputs of the last node.
        integer_reference: whether the reference computes all of its nodes in integers.
    """

    name: str
    op: str
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    integer_reference: bool


def may_be_interior(graph: Graph) -> set[str]:
    """Returns the tensors that a model.bin may flag as interior: no comparison with the ONNX expects them, and the unit
    that contains them is compared.

    These are float tensors that `dequantize` computes, or that only `quantize` or nodes that make NAME or another NAME@PART read
    if they are called NAME@PART, integers without a scale that only such nodes read, and the tensors
    NAME/preactivation that have no integer reference and are read only by the lookup that computes NAME. Outputs of the
    graph are never interior."""
    outputs, readers = set(graph.outputs), dict[str, list[Node]]()
    for node in graph.nodes:
        for name in {n for n in node.inputs if n is not None}:
            readers.setdefault(name, []).append(node)
    return {
        name
        for node in graph.nodes
        for name in node.outputs
        if name not in outputs and _is_inside_unit(graph, name, node, readers.get(name, []))
    }


def may_be_part(spec: TensorSpec) -> bool:
    """Returns whether a tensor may be part of the computation of another: float32, or integers without a scale."""
    return spec.dtype == "float32" or (spec.dtype in PARTS and not spec.quantized)


def is_part(name: str, of: str) -> bool:
    """Returns whether a tensor is called NAME@PART, and `of` NAME or NAME@ with another part. A number is no PART: it tells
    tensors of one name apart."""
    base, at, part = name.rpartition("@")
    return bool(at) and not (part.isascii() and part.isdigit()) and (of == base or of.startswith(f"{base}@"))


def _is_inside_unit(graph: Graph, name: str, maker: Node, readers: list[Node]) -> bool:
    spec = graph.spec(name)
    if may_be_part(spec):
        of_floats = spec.dtype == "float32"
        shown = [(of_floats and n.op == "quantize") or all(is_part(name, o) for o in n.outputs) for n in readers]
        return (of_floats and maker.op == "dequantize") or (bool(shown) and all(shown))
    lookups = [n.name for n in readers if n.op == "lookup" and not graph.spec(n.name).interior]
    return not spec.integer_reference and len(readers) == 1 and name in [f"{n}/preactivation" for n in lookups]


def units(graph: Graph) -> list[Unit]:
    """Returns one Unit per node with an observable output, in running order. Nodes that compute interior tensors (a
    DequantizeLinear, or a float tensor that only a QuantizeLinear reads) belong to every unit that reads these
    tensors."""
    made_by, order = graph.producers(), {node.name: i for i, node in enumerate(graph.nodes)}
    all_units = []
    for last in graph.nodes:
        if all(graph.tensors[o].interior for o in last.outputs):
            continue
        members, inputs, todo = {last.name: last}, dict[str, None](), [last]
        while todo:
            for name in todo.pop().inputs:
                if name is None or name in graph.constants or name in inputs:
                    continue
                maker = made_by.get(name)
                if maker is None or not graph.tensors[name].interior:
                    inputs[name] = None
                elif maker.name not in members:
                    members[maker.name] = maker
                    todo.append(maker)
        nodes = tuple(sorted(members.values(), key=lambda n: order[n.name]))
        ops = [n.op for n in nodes if n.op not in ("quantize", "dequantize")]
        if len(ops) > MOST_NAMED:
            ops = list(dict.fromkeys(ops))
        own = last.op == "quantize" and all(is_part(o, last.name) for n in nodes[:-1] for o in n.outputs)
        op = last.op if len(nodes) == 1 or own else "+".join(ops) or last.op
        exact = all(n.integer_reference for n in nodes)
        all_units.append(Unit(last.name, op, nodes, tuple(inputs), last.outputs, exact))
    return all_units
