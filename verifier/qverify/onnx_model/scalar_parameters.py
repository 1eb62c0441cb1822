"""Makes scalars of scales and zero points that are rows of one element, as tf2onnx writes them: onnxruntime's operators
on integers take scalars only."""

from __future__ import annotations

import onnx

from qverify.onnx_model.node_order import reads

QUANTIZERS = ("QuantizeLinear", "DequantizeLinear")


def make_parameters_scalar(graph: onnx.GraphProto) -> None:
    """Removes the dim of initializers [1] that are parameters of QuantizeLinear and DequantizeLinear, in place. If
    anything else reads one, too, the quantizers read a scalar copy of it."""
    quantizers = [node for node in graph.node if _is_quantizer(node)]
    parameters = {name for node in quantizers for name in node.input[1:]}
    rows = [i for i in graph.initializer if i.name in parameters and list(i.dims) == [1]]
    if not rows:
        return
    others = {o.name for o in graph.output} | {node.input[0] for node in quantizers}
    others |= {name for node in graph.node if not _is_quantizer(node) for name in reads(node)}
    taken, copies = (
        {i.name for i in graph.initializer} | {o for node in graph.node for o in node.output},
        dict[str, str](),
    )
    for row in rows:
        scalar = row
        if row.name in others:
            scalar = graph.initializer.add()
            scalar.CopyFrom(row)
            scalar.name += "/scalar"
            while scalar.name in taken:
                scalar.name += "~"
            copies[row.name] = scalar.name
        del scalar.dims[:]
    for node in quantizers:
        node.input[1:] = [copies.get(name, name) for name in node.input[1:]]


def _is_quantizer(node: onnx.NodeProto) -> bool:
    """Returns whether the node quantizes or dequantizes with one scale, or with one for each index of an axis."""
    return node.op_type in QUANTIZERS and not any(a.name == "block_size" and a.i for a in node.attribute)
