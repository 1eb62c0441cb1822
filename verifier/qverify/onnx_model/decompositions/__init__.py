"""Operators that stand for several others, written out as these: what onnxruntime's optimizer fuses, Einsum, and spatial
operators of three dims by those of two.

A page of this folder has REPLACED: (domain, ONNX type) to a function that writes the nodes in the place of one, with the
same names of its inputs and outputs. It returns False where the node stays, and raises UnsupportedError for a form that
it does not have. What is made between is new: NAME/what, NAME the node's first output."""
