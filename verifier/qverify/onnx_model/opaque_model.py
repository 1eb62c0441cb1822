"""ONNX models that qverify cannot run itself (a reference engine runs them): inputs, outputs, and what computes
what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx

from qverify.errors import UsageError
from qverify.onnx_model.expose_tensors import expose_tensors
from qverify.onnx_model.load import fix_shapes, parse, read_model, remove_initializers_from_inputs
from qverify.tensors.spec import TensorSpec

Shape = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class OpaqueNode:
    """A node of an OpaqueModel.

    op: operator type with its domain. inputs, outputs: tensor names, without constants and omitted ones."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpaqueModel:
    """An ONNX model that only a reference engine can run.

    Attributes:
        path: path of the file.
        data: the file's bytes with external data embedded.
        inputs: specs of the inputs.
        outputs: names of the final outputs.
        declared: dtype and dims of tensors as far as the file states them; None for a dim, or for all dims, left open.
        nodes: the nodes in the file's order.
        proto: the parsed model.
    """

    path: str
    data: bytes
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...]
    declared: Mapping[str, tuple[str, Shape | None]]
    nodes: tuple[OpaqueNode, ...]
    proto: onnx.ModelProto

    def exposed(self) -> bytes:
        """Returns the serialized model with every node's outputs as additional outputs."""
        names = [name for node in self.nodes for name in node.outputs]
        return bytes(expose_tensors(self.proto, names).SerializeToString())


def read_opaque(path: str, shapes: dict[str, tuple[int, ...]]) -> OpaqueModel:
    """Returns the model in the file.

    shapes: dims of dynamic inputs. Raises BadFileError if the file is not an ONNX or leaves the shape of an input open,
    UsageError if no node computes one of the outputs."""
    data = read_model(path)
    proto = parse(data, path)
    remove_initializers_from_inputs(proto)
    fix_shapes(proto, path, shapes)
    graph = proto.graph
    inputs = tuple(TensorSpec(i.name, *_dtype_and_shape(i)) for i in graph.input)
    computed = {*(i.name for i in graph.input), *(name for node in graph.node for name in node.output)}
    nodes = tuple(
        OpaqueNode(
            f"{n.domain}::{n.op_type}" if n.domain not in ("", "ai.onnx") else n.op_type,
            tuple(name for name in n.input if name in computed and name),
            tuple(filter(None, n.output)),
        )
        for n in graph.node
    )
    outputs = tuple(o.name for o in graph.output)
    node_outputs = {name for node in nodes for name in node.outputs}
    if missing := next((name for name in outputs if name not in node_outputs), None):
        raise UsageError(
            f"{path}: no node computes output {missing!r}, so a reference engine has nothing to give there"
        )
    stated = {v.name: v.type.tensor_type for v in (*graph.value_info, *graph.output)}
    declared = {name: (_dtype(kind), _dims(kind)) for name, kind in stated.items() if kind.elem_type}
    return OpaqueModel(path, data, inputs, outputs, declared, nodes, proto)


def _dtype_and_shape(value: onnx.ValueInfoProto) -> tuple[str, tuple[int, ...]]:
    """Returns the dtype and the fixed shape of an input."""
    kind = value.type.tensor_type
    return _dtype(kind), tuple(d.dim_value for d in kind.shape.dim)


def _dtype(kind: onnx.TypeProto.Tensor) -> str:
    return str(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))


def _dims(kind: onnx.TypeProto.Tensor) -> Shape | None:
    """Returns the dims that the file states, with None for an open dim, or None if it states no dims at all."""
    return tuple(d.dim_value or None for d in kind.shape.dim) if kind.HasField("shape") else None
