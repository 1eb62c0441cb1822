"""Finds tensors whose shape depends on the values of a model's inputs, so that a single run does not determine it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import onnx

from qverify.onnx_model.fold_constants import depends_on
from qverify.onnx_model.infer_types import Types
from qverify.onnx_model.node_order import reads
from qverify.onnx_model.random_operators import reason_it_draws

# operators to the numbers of the inputs whose values determine the output's shape
SHAPED_BY = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "Resize": (1, 2, 3), "Upsample": (1,), "Slice": (1, 2, 3, 4),
    "Pad": (1, 3), "Squeeze": (1,), "Unsqueeze": (1,), "TopK": (1,), "OneHot": (1,), "Range": (0, 1, 2),
    "ConstantOfShape": (0,), "Split": (1,), "CenterCropPad": (1,), "AffineGrid": (1,), "MaxUnpool": (2,),
    "ReduceMean": (1,), "ReduceSum": (1,), "ReduceMax": (1,), "ReduceMin": (1,), "ReduceProd": (1,), "ReduceL1": (1,),
    "ReduceL2": (1,), "ReduceLogSum": (1,), "ReduceLogSumExp": (1,), "ReduceSumSquare": (1,), "DFT": (1, 2),
    "STFT": (1, 3), "Col2Im": (1, 2), "NonZero": (0,), "Unique": (0,), "Compress": (0, 1),
    "NonMaxSuppression": (0, 1, 2, 3, 4), "BlackmanWindow": (0,), "HannWindow": (0,), "HammingWindow": (0,),
    "MelWeightMatrix": (0, 1),
}  # fmt: skip


def find_value_shaped(graph: onnx.GraphProto, types: Types, graphs: bool = True) -> set[str]:
    """Returns the tensors whose shape may depend on the values of the inputs, and all tensors computed from them,
    except those whose shape is known.

    What is computed from other tensors' shapes has one value for all inputs, however many such steps follow each other,
    and so do the shapes that it determines. Nodes must be in running order. types: the known types. graphs: whether
    outputs of nodes with subgraphs count too; if not, their shapes are not taken to be settled either."""
    constants = {i.name: i for i in graph.initializer}
    settled = {*constants, *(n.output[0] for n in graph.node if n.op_type == "Constant")}  # they have one value
    varying: set[str] = set()
    for node in graph.node:
        shaping = [node.input[at] for at in SHAPED_BY.get(node.op_type, ()) if at < len(node.input)]
        by_values = any(n and n not in settled for n in shaping)
        inner = graphs and any(a.HasField("g") or a.graphs for a in node.attribute)
        if by_values or inner or varying.intersection(reads(node)):
            varying.update(o for o in node.output if o not in types)
        elif graphs and _is_settled(node, settled, varying) and not reason_it_draws(node, constants):
            settled.update(node.output)
    return varying


def input_that_shapes(nodes: Iterable[onnx.NodeProto], name: str, inputs: Collection[str]) -> str:
    """Returns the graph input whose values determine the shape of this tensor, the nearest if there are several; "" if
    there is none. inputs: names of the graph's inputs."""
    makers = {o: node for node in nodes for o in node.output if o}
    seen, todo = set[str](), [name]
    for current in todo:  # grows
        node = makers.get(current)
        if node is None or current in seen:
            continue
        seen.add(current)
        shaping = [node.input[at] for at in SHAPED_BY.get(node.op_type, ()) if at < len(node.input)]
        if found := _first_input(shaping, makers, inputs):
            return found
        todo += node.input
    return ""


def _first_input(names: list[str], makers: Mapping[str, onnx.NodeProto], inputs: Collection[str]) -> str:
    """Returns the first graph input from whose values these tensors are computed, "" if there is none."""
    seen, todo = set[str](), list(names)
    for current in todo:  # grows
        if current in inputs:
            return current
        node = makers.get(current)
        if node is not None and current not in seen and node.op_type not in ("Shape", "Size"):
            todo += node.input
        seen.add(current)
    return ""


def _is_settled(node: onnx.NodeProto, settled: set[str], varying: set[str]) -> bool:
    """Returns whether the node computes the same values for all inputs: a fixed shape, or a function of such values.

    settled: the tensors that have the same values for all inputs. varying: those whose shape is not fixed."""
    if node.op_type in ("Shape", "Size") and node.domain in ("", "ai.onnx"):
        return varying.isdisjoint(node.input)
    return depends_on(node, settled)
