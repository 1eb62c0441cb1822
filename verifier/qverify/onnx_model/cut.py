"""Part of an ONNX model as a model of its own: between chosen tensors."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import onnx

from qverify.tensors.spec import TensorSpec


def cut(
    model: onnx.ModelProto, specs: Mapping[str, TensorSpec], given: Collection[str], outputs: Collection[str]
) -> onnx.ModelProto:
    """The nodes that make `outputs` of `given`. specs: of these tensors. Valid alone; unused inputs are left out."""
    source = model.graph
    producer = {o: node for node in source.node for o in node.output}
    constants = {i.name: i for i in source.initializer}
    wanted, todo, used = set(), list(outputs), set()
    while todo:
        name = todo.pop()
        if name in given or name in constants or name not in producer:
            used.add(name)
            continue
        node = producer[name]
        if id(node) not in wanted:
            wanted.add(id(node))
            todo += [n for n in node.input if n]
            used.update(node.input)

    def info(name: str) -> onnx.ValueInfoProto:
        element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(specs[name].dtype))
        return onnx.helper.make_tensor_value_info(name, element, specs[name].shape)

    ends = {*given, *outputs}
    inside = [o for n in source.node if id(n) in wanted for o in n.output if o not in ends]
    graph = onnx.helper.make_graph(
        [n for n in source.node if id(n) in wanted],
        "cut",
        [info(n) for n in given if n in used],
        [info(n) for n in outputs],
        [constants[n] for n in sorted(used) if n in constants],
        value_info=[info(n) for n in inside if n in specs],  # operators whose shapes nothing infers
    )
    made = onnx.helper.make_model(graph, opset_imports=list(model.opset_import))
    made.ir_version = model.ir_version
    return made
