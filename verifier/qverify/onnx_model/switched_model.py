"""Adds switches to a float ONNX: each quantizes one tensor, and the weights of the node that computes it, while it is
on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from qverify.onnx_model.engine import Engine

Array = npt.NDArray[Any]
DOMAIN = "com.microsoft"  # its QuantizeLinear supports 8 and 16 bits and channels, whatever the opset of the model


@dataclass(frozen=True, slots=True)
class Weights:
    """Quantized weights of one node.

    maker: an output of the node. at: the number of the input that they replace. value: the dequantized weights."""

    maker: str
    at: int
    value: Array


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch at one tensor.

    Attributes:
        tensor: name of the float tensor.
        scale: float32, one element or one per channel.
        zero_point: as many elements as scale, of the quantized type.
        axis: axis of the channels, -1 for a single scale.
        weights: the weights that are quantized by the same switch.
    """

    tensor: str
    scale: Array
    zero_point: Array
    axis: int = -1
    weights: tuple[Weights, ...] = ()


class SwitchedModel:
    """A model with switches in one session: run() quantizes the tensors that are switched on and leaves the others
    float.

    switches: tensor name to the model input that switches it. Raises BadFileError if onnxruntime refuses the model."""

    def __init__(self, model: onnx.ModelProto, switches: list[Switch]):
        self.switches = {s.tensor: _flag(i) for i, s in enumerate(switches)}
        self._engine = Engine(_add_switches(model, switches).SerializeToString())

    def run(self, feed: Mapping[str, Array], on: Collection[str]) -> dict[str, Array]:
        """Returns the model's outputs with the tensors of `on` quantized."""
        flags = {flag: np.array(tensor in on) for tensor, flag in self.switches.items()}
        return self._engine.run({**feed, **flags})


def _flag(at: int) -> str:
    return f"qverify/switch/{at}"


def _add_switches(model: onnx.ModelProto, switches: list[Switch]) -> onnx.ModelProto:
    """Returns a copy of the model with a boolean input for each switch."""
    switched = onnx.ModelProto()
    switched.CopyFrom(model)
    graph, nodes = switched.graph, list(switched.graph.node)
    fed = [i.name for i in graph.input]
    renamed = {s.tensor: f"{s.tensor}~float" for s in switches if s.tensor not in fed}
    taken = {s.tensor: f"{s.tensor}~switched" for s in switches if s.tensor in fed}
    makers = {o: node for node in nodes for o in node.output}
    ahead = [n for at, s in enumerate(switches) for n in _add_weight_choices(graph, makers, s, _flag(at))]
    for node in nodes:
        node.output[:] = [renamed.get(o, o) for o in node.output]
        node.input[:] = [taken.get(i, i) for i in node.input]
    after: dict[str, onnx.NodeProto] = {}
    for at, switch in enumerate(switches):
        source = renamed.get(switch.tensor, switch.tensor)
        after[source] = _choice(graph, switch, source, taken.get(switch.tensor, switch.tensor), _flag(at))
        graph.input.append(helper.make_tensor_value_info(_flag(at), onnx.TensorProto.BOOL, []))
    ordered = ahead + [after[name] for name in fed if name in after]
    for node in nodes:
        ordered += [node, *(after[o] for o in node.output if o in after)]
    del graph.node[:], graph.value_info[:]
    graph.node.extend(ordered)
    if not any(o.domain == DOMAIN for o in switched.opset_import):
        switched.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    switched.ir_version = max(switched.ir_version, 4)  # with older versions every initializer must be an input as well
    return switched


def _choice(graph: onnx.GraphProto, switch: Switch, source: str, target: str, flag: str) -> onnx.NodeProto:
    """Returns the node target = flag ? dequantized(quantized(source)) : source."""
    names = [f"{flag}/scale", f"{flag}/zero_point"]
    for name, value in zip(names, (switch.scale.astype(np.float32), switch.zero_point), strict=True):
        graph.initializer.append(numpy_helper.from_array(value.reshape(()) if value.size == 1 else value, name))
    axis: dict[str, Any] = {"axis": switch.axis} if switch.scale.size > 1 else {}
    quantized, dequantized = f"{flag}/q", f"{flag}/dq"
    inside = [
        helper.make_node("QuantizeLinear", [source, *names], [quantized], domain=DOMAIN, **axis),
        helper.make_node("DequantizeLinear", [quantized, *names], [dequantized], domain=DOMAIN, **axis),
    ]
    return _branches(flag, target, inside, dequantized, source)


def _add_weight_choices(
    graph: onnx.GraphProto, makers: Mapping[str, onnx.NodeProto], switch: Switch, flag: str
) -> list[onnx.NodeProto]:
    """Returns the nodes that choose between float and quantized weights, and connects the weights' readers to them."""
    choices = []
    for weights in switch.weights:
        node, name = makers[weights.maker], f"{flag}/{weights.maker}/{weights.at}"
        graph.initializer.append(
            numpy_helper.from_array(np.ascontiguousarray(weights.value, np.float32), f"{name}/quantized")
        )
        choices.append(_branches(flag, f"{name}/chosen", [], f"{name}/quantized", node.input[weights.at]))
        node.input[weights.at] = f"{name}/chosen"
    return choices


def _branches(flag: str, target: str, inside: list[onnx.NodeProto], on: str, off: str) -> onnx.NodeProto:
    """Returns the If node target = flag ? on : off. inside: the nodes that compute `on`, run only if the flag is
    set."""

    def branch(nodes: list[onnx.NodeProto], source: str, name: str) -> onnx.GraphProto:
        copy = helper.make_node("Identity", [source], [f"{target}/{name}"])
        result = onnx.ValueInfoProto(name=f"{target}/{name}")
        result.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        return helper.make_graph([*nodes, copy], name, [], [result])

    return helper.make_node(
        "If", [flag], [target], then_branch=branch(inside, on, "on"), else_branch=branch([], off, "off")
    )
