"""The interface that pages of decompositions use to read a node and to write the nodes that replace it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from qverify.errors import UnsupportedError
from qverify.onnx_model.held_data import value_of
from qverify.onnx_model.node_order import graphs_of, inner_nodes, outer_reads
from qverify.onnx_model.opsets import MICROSOFT as MICROSOFT
from qverify.onnx_model.opsets import standard_opset

Array = npt.NDArray[Any]
Dims = tuple[int, ...]


class Rewriter:
    """Replaces nodes of one model, one after the other; begin() starts the next one.

    Attributes:
        opset: version of the standard ONNX opset.
        initializers: the model's initializers and those added, by name.
        read: names of all tensors that a node reads or the graph outputs.
        nodes, constants: what has been written for the current node.
        absorbed: activations after the current node that are replaced together with it.
        valid: values of inputs of the current node with which it is compared with what replaces it, each in a comparison
            of its own, because its result is not defined for all values; others are not compared.
    """

    def __init__(self, model: onnx.ModelProto):
        graph = model.graph
        self.opset = standard_opset(model)
        self.initializers = {i.name: i for i in graph.initializer}
        self._infos = {v.name: v.type.tensor_type for v in [*graph.value_info, *graph.input, *graph.output]}
        self._taken = {
            *self._infos,
            *self.initializers,
            *(n for node in graph.node for inner in inner_nodes(node) for n in [*inner.input, *inner.output]),
            *(v.name for node in graph.node for g in _inner_graphs(node) for v in [*g.input, *g.initializer]),
        }
        self.read = {i for node in graph.node for i in outer_reads(node)} | {o.name for o in graph.output}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._node = onnx.NodeProto()
        self._makers = {name: node for node in graph.node for name in node.output}
        self._ends, self._readers = {o.name for o in graph.output}, dict[str, list[onnx.NodeProto]]()
        for node in graph.node:
            for name in outer_reads(node):
                self._readers.setdefault(name, []).append(node)
        self.absorbed: list[onnx.NodeProto] = []
        self.valid: list[dict[str, Array]] = []

    def begin(self, node: onnx.NodeProto) -> None:
        """Makes this the current node, which the following calls replace."""
        self._node, self.nodes, self.constants, self.absorbed, self.valid = node, [], [], [], []

    def dims(self, name: str) -> Dims:
        """Returns the tensor's dims. Raises UnsupportedError if they are unknown."""
        if name in self.initializers:
            return tuple(self.initializers[name].dims)
        if self.is_empty(name):
            raise self.refusal(f"{name!r} has a dim of 0, so no elements. Export the model without it")
        info = self._infos.get(name)
        if info is None or not info.HasField("shape") or any(d.dim_value < 1 for d in info.shape.dim):
            raise self.refusal(f"the shape of {name!r} is not known. Export the model with fixed shapes")
        return tuple(d.dim_value for d in info.shape.dim)

    def is_empty(self, name: str) -> bool:
        """Returns whether the tensor is known to have no elements."""
        if name in self.initializers:
            return 0 in self.initializers[name].dims
        dims = self._infos[name].shape.dim if name in self._infos else ()
        return any(d.HasField("dim_value") and d.dim_value == 0 for d in dims)

    def kind(self, name: str) -> int:
        """Returns ONNX's number of the tensor's element type, 0 if it is unknown."""
        if name in self.initializers:
            return int(self.initializers[name].data_type)
        return int(self._infos[name].elem_type) if name in self._infos else 0

    def value(self, name: str) -> Array | None:
        """Returns the value of an initializer, None for other tensors."""
        return value_of(self.initializers[name]) if name in self.initializers else None

    def is_constant(self, name: str) -> bool:
        """Returns whether the tensor is an initializer, or a DequantizeLinear of initializers computes it."""
        maker = self._makers.get(name)
        return name in self.initializers or (
            maker is not None
            and maker.op_type == "DequantizeLinear"
            and self.initializers.keys() >= set(filter(None, maker.input))
        )

    def is_read(self, at: int) -> bool:
        """Returns whether output number `at` of the current node is used."""
        return len(self._node.output) > at and self._node.output[at] in self.read and bool(self._node.output[at])

    def absorbed_activation(self, node: onnx.NodeProto) -> tuple[str, onnx.NodeProto | None]:
        """Looks for a Relu, or a Clip with constant bounds, between the node and a QuantizeLinear. If there is one,
        marks it as absorbed and returns its output and itself; otherwise returns the node's output and None."""
        name = node.output[0]
        act = self._only_reader(name)
        if (
            act is None
            or act.op_type not in ("Relu", "Clip")
            or not self.initializers.keys() >= {*filter(None, act.input[1:])}
        ):
            return name, None
        reader = self._only_reader(act.output[0])
        if reader is None or reader.op_type != "QuantizeLinear":
            return name, None
        self.absorbed.append(act)
        return act.output[0], act

    def _only_reader(self, name: str) -> onnx.NodeProto | None:
        readers = self._readers.get(name, [])
        return readers[0] if len(readers) == 1 and name not in self._ends else None

    def refusal(self, reason: str) -> UnsupportedError:
        """Returns an error that names the current node."""
        return UnsupportedError(f"{self._node.name or self._node.output[0]} ({self._node.op_type}): {reason}")

    def fresh(self, what: str) -> str:
        """Returns an unused tensor name: OUTPUT/what, where OUTPUT is the current node's output, with `~` appended
        while it is taken."""
        return self.fresh_of(self._node.output[0], what)

    def fresh_of(self, tensor: str, what: str) -> str:
        """Returns an unused tensor name: TENSOR/what, with `~` appended while it is taken."""
        name = f"{tensor}/{what}"
        while name in self._taken:
            name += "~"
        self._taken.add(name)
        return name

    def constant(self, what: str, value: Any) -> str:
        """Adds an initializer named after `what` and returns its name."""
        name, array = self.fresh(what), np.asarray(value)
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        self.initializers[name] = self.constants[-1]
        return name

    def ints(self, what: str, values: Any) -> str:
        """Adds an int64 initializer named after `what` and returns its name."""
        return self.constant(what, np.array(values, np.int64))

    def node(self, kind: str, inputs: list[str], output: str, domain: str = "", **attrs: Any) -> str:
        """Adds a node with one output and returns that output's name.

        output: an output of the replaced node or a name from fresh()."""
        is_replaced_output = output == self._node.output[0] or any(output == a.output[0] for a in self.absorbed)
        name = self._node.name if is_replaced_output else f"{self._node.name}/{output}"
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        self.nodes.append(helper.make_node(kind, inputs, [output], name=name, domain=domain, **attrs))
        return output

    def step(self, kind: str, inputs: list[str], what: str, domain: str = "", **attrs: Any) -> str:
        """Adds a node with one new output, named after `what`, and returns that output's name."""
        return self.node(kind, inputs, self.fresh(what), domain, **attrs)


def _inner_graphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Returns the subgraphs of the node and of the nodes inside them."""
    return [graph for inner in inner_nodes(node) for graph in graphs_of(inner)]


def input_name(node: onnx.NodeProto, at: int) -> str:
    """Returns the name of input number `at`, or "" if the node has none."""
    return str(node.input[at]) if len(node.input) > at else ""


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """Returns the value of an attribute, or the default if the node does not have it."""
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)


def check_known(rewriter: Rewriter, node: onnx.NodeProto, *names: str) -> None:
    """Raises UnsupportedError if the node has an attribute other than these."""
    unknown = [a.name for a in node.attribute if a.name not in names]
    if unknown:
        raise rewriter.refusal(f"its attribute {unknown[0]} is not supported; export without it")
