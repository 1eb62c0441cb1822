"""The version of the standard operator set that a model states, the forms in which onnxruntime runs what is newer than
its kernels, and the domain of quantizing nodes that are added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import onnx
from onnx import helper

from qverify.onnx_model.node_order import inner_nodes
from qverify.plural import count

NEWEST_QUANTIZERS = 27  # newest opset in which onnxruntime has kernels of QuantizeLinear and DequantizeLinear
NEWEST_SWISH = 24  # newest opset in which onnxruntime computes Swish
SIXTEEN_BITS = 21  # oldest opset in which the quantizers take 16 bits
MICROSOFT = "com.microsoft"  # has both, of 8 and 16 bits, in every opset
STANDARD = ("", "ai.onnx")


def standard_opset(model: onnx.ModelProto) -> int:
    """Returns the version of the standard ONNX operator set, 0 if the model states none."""
    return max((o.version for o in model.opset_import if o.domain in STANDARD), default=0)


def lower_opset(model: onnx.ModelProto) -> None:
    """Writes Swish and SwiGLU of an opset in which onnxruntime has no kernel of them as QuickGelu, the same function. Sets
    the opset of a model that is newer than onnxruntime's quantizers to the newest that has them if each of its operators
    has the same form there; the compiler adds quantizers, which the file may have of another domain only. Both in
    place."""
    opset = standard_opset(model)
    if opset > onnx.defs.onnx_opset_version():
        return
    if _without_kernel(model):
        _write_gates(model.graph, _kinds_without_kernel(opset))
        if not any(entry.domain == MICROSOFT for entry in model.opset_import):
            model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    if opset > NEWEST_QUANTIZERS and all(_has_older_form(node, opset) for node in _standard_nodes(model.graph)):
        for entry in model.opset_import:
            if entry.domain in STANDARD:
                entry.version = NEWEST_QUANTIZERS


def notes_on_newest(model: onnx.ModelProto) -> list[str]:
    """Returns notes for reports about what lower_opset() changes of operators for which onnxruntime has no kernel. model:
    as parsed from its file."""
    opset, notes = standard_opset(model), list[str]()
    if opset > onnx.defs.onnx_opset_version():
        return []
    for kind, number in sorted(Counter(node.op_type for node in _without_kernel(model)).items()):
        form = "QuickGelu (com.microsoft)" if kind == "Swish" else "QuickGelu (com.microsoft) and Mul"
        notes.append(
            f"onnxruntime has no kernel of {kind} in opset {opset}: {count(number, 'node')} verified as {form}, the same "
            "function"
        )
    nodes = list(_standard_nodes(model.graph))
    quantizers = {n.op_type for n in nodes} & {"QuantizeLinear", "DequantizeLinear"}
    rest = [n for n in nodes if n.op_type != "SwiGLU"]
    if opset > NEWEST_QUANTIZERS and quantizers and all(_has_older_form(node, opset) for node in rest):
        notes.append(
            f"onnxruntime has no kernel of {' and '.join(sorted(quantizers))} in opset {opset}: verified as opset "
            f"{NEWEST_QUANTIZERS}, in which each operator of the model is the same"
        )
    return notes


def _standard_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yields the nodes of ONNX's own operators, also inside subgraphs."""
    for node in graph.node:
        yield from (inner for inner in inner_nodes(node) if inner.domain in STANDARD)


def _kinds_without_kernel(opset: int) -> dict[str, int]:
    """Returns the operators without a kernel in this opset that are written, each with its number of inputs."""
    return {"SwiGLU": 2, "Swish": 1} if opset > NEWEST_SWISH else {"SwiGLU": 2}


def _without_kernel(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Returns the nodes that _write_gates() writes."""
    kinds = _kinds_without_kernel(standard_opset(model))
    return [node for node in _standard_nodes(model.graph) if node.op_type in kinds]


def _has_older_form(node: onnx.NodeProto, opset: int) -> bool:
    """Returns whether the node is the same in the newest opset with quantizers: that has its operator, with these
    attributes and as many inputs. (What opset 28 changed of others are the types that they take.)"""
    try:
        newest, older = (onnx.defs.get_schema(node.op_type, v, "") for v in (opset, NEWEST_QUANTIZERS))
    except onnx.defs.SchemaError:  # of onnxruntime, or not an operator there
        return not onnx.defs.has(node.op_type, "")
    same = newest.since_version == older.since_version
    return same or ({a.name for a in node.attribute} <= {*older.attributes} and len(node.input) <= older.max_input)


def _write_gates(graph: onnx.GraphProto, kinds: Mapping[str, int]) -> None:
    """Writes the nodes of these kinds as x * sigmoid(alpha * x), of a SwiGLU times its second operand, in place."""
    after = list[onnx.NodeProto]()
    taken = {name for node in graph.node for name in (*node.output, *node.input)}
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                _write_gates(inner, kinds)
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        after.append(copy)
        if node.domain not in STANDARD or len(node.input) != kinds.get(node.op_type):
            continue  # also one that is not valid, which onnxruntime says
        alpha = next((a.f for a in node.attribute if a.name == "alpha"), 1.0)
        copy.op_type, copy.domain = "QuickGelu", MICROSOFT
        del copy.attribute[:]
        copy.attribute.append(helper.make_attribute("alpha", alpha))
        if node.op_type == "SwiGLU":
            gate = f"{node.output[0]}/gate"
            while gate in taken:
                gate += "~"
            taken.add(gate)
            copy.input[:], copy.output[:], copy.name = node.input[:1], [gate], f"{node.name}/gate" if node.name else ""
            after.append(helper.make_node("Mul", [gate, node.input[1]], list(node.output), node.name))
    del graph.node[:]
    graph.node.extend(after)


def quantizer_domain(opset: int, sixteen_bit: bool = False) -> str:
    """Returns the domain whose QuantizeLinear and DequantizeLinear onnxruntime runs in a model of this opset."""
    return MICROSOFT if opset > NEWEST_QUANTIZERS or (sixteen_bit and opset < SIXTEEN_BITS) else ""
