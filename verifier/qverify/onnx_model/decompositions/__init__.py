"""Decompositions: pages that replace an operator by several simpler ones. Replaced are operators that onnxruntime's
optimizer fuses, Einsum, and spatial operators over three dims.

A page of this folder defines REPLACED: (domain, ONNX type) to a function that writes the nodes that replace a node,
between the same inputs and outputs. The function returns False if the node is to stay, and raises UnsupportedError for
a form of the node that it does not support. New tensors in between are called NAME/what, where NAME is the node's first
output."""
