"""Makes scalars of scales and zero points that are rows of one element, as tf2onnx writes them: onnxruntime's operators
on integers take scalars only."""

from __future__ import annotations

import onnx

from qverify.onnx_model.node_order import reads

QUANTIZERS = ("QuantizeLinear", "DequantizeLinear")


def make_parameters_scalar(graph: onnx.GraphProto) -> None:
    """Removes the dim of initializers [1] that are read only as parameters of QuantizeLinear and DequantizeLinear, in
    place."""
    parameters, others = set[str](), {o.name for o in graph.output}
    for node in graph.node:
        if node.op_type in QUANTIZERS and not any(a.name == "block_size" and a.i for a in node.attribute):
            parameters.update(node.input[1:])
            others.add(node.input[0])
        else:
            others.update(reads(node))
    for initializer in graph.initializer:
        if initializer.name in parameters - others and list(initializer.dims) == [1]:
            del initializer.dims[:]
