"""The layouts of tensors that model.bin does not state: a convolution reads and writes NCHW, and what works element by
element, on planes, or joins tensors keeps the order of the axes."""

from __future__ import annotations

from dataclasses import replace

from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec

ON_PLANES = {
    *("conv", "conv_transpose", "conv_float", "conv_integer", "conv_transpose_float"),
    *("max_pool", "average_pool", "average_pool_float", "global_average_pool", "depth_to_space"),
    *("resize_linear", "resize_nearest", "resize_weighted", "batch_norm", "lrn", "group_norm"),
}
KEEP_ORDER = {
    *(
        "lookup",
        "quantize",
        "dequantize",
        "cast",
        "half_float",
        "add",
        "mul",
        "elementwise_float",
        "elementwise_integer",
    ),
    *("variadic_float", "where", "concat", "pad", "split", "slice", "softmax", "softmax_float", "log_softmax"),
}
PLANES = "NCHW"


def infer_layouts(graph: Graph) -> dict[str, TensorSpec]:
    """Returns the specs of all tensors by name, with the layout NCHW where nodes show it of a tensor of four axes that
    states none."""
    found = dict(graph.tensors)
    nodes = [n for n in graph.nodes if n.op in ON_PLANES or n.op in KEEP_ORDER]
    for node in (*nodes, *reversed(nodes)):  # from a convolution to what follows it, and to what comes before it
        activations = [n for n in (*node.inputs, *node.outputs) if n is not None and _has_planes(graph, node, n)]
        if node.op in ON_PLANES or any(found[n].layout == PLANES for n in activations):
            found |= {n: replace(found[n], layout=PLANES) for n in activations if not found[n].layout}
    return found


def _has_planes(graph: Graph, node: Node, name: str) -> bool:
    """Returns whether a node reads or writes this tensor as one of four axes, which it has in common with the output."""
    spec, y = graph.spec(name), graph.spec(node.outputs[0])
    if name in graph.constants or len(spec.shape) != 4 or len(y.shape) != 4:
        return False
    return node.op in ON_PLANES or node.op not in ("add", "mul") or spec.shape == y.shape
