"""Writes CumProd as products of copies that are shifted by 1, 2, 4 ..., and BitCast of 8- and 16-bit integers as Cast."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from qverify.onnx_model.rewriter import Array, Rewriter, attribute

EQUAL_BITS = ({"INT8", "UINT8"}, {"INT16", "UINT16"})  # a Cast between these keeps the bits


def running_product(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes, for each element, the product of those up to it along a constant axis. After the step with shift 2^k, an
    element is the product of itself and the 2^(k+1) - 1 before it, as far as there are so many."""
    axis = r.value(node.input[1])
    if axis is None or axis.size != 1:
        raise r.refusal("its axis is not one constant number; make it a constant")
    dims = r.dims(node.input[0])
    at, backwards = int(axis.reshape(())) % len(dims), bool(attribute(node, "reverse", 0))
    ones_of = np.ones(dims, helper.tensor_dtype_to_np_dtype(r.kind(node.input[0])))
    x, shift = node.input[0], 1
    if attribute(node, "exclusive", 0):
        x = _shifted(r, x, ones_of, at, 1, backwards)
    while shift < dims[at]:
        x = r.step("Mul", [x, _shifted(r, x, ones_of, at, shift, backwards)], "product")
        shift *= 2
    r.node("Identity", [x], node.output[0])


def _shifted(r: Rewriter, x: str, ones_of: Array, at: int, shift: int, backwards: bool) -> str:
    """Returns x moved by `shift` places along the axis, with ones in those that become free. ones_of: ones of x's dims and
    type."""
    size = ones_of.shape[at]
    ones = r.constant("ones", ones_of.take(np.arange(min(shift, size)), at))
    if shift >= size:
        return ones
    first, end = (shift, size) if backwards else (0, size - shift)
    kept = r.step("Slice", [x, r.ints("from", [first]), r.ints("to", [end]), r.ints("axis", [at])], "kept")
    return r.step("Concat", [kept, ones] if backwards else [ones, kept], "shifted", axis=at)


def same_bits(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Writes a BitCast between integers of one size as Cast, which keeps the bits."""
    kinds = {onnx.TensorProto.DataType.Name(k) for k in (r.kind(node.input[0]), attribute(node, "to", 0))}
    if not any(kinds <= equal for equal in EQUAL_BITS):
        return False
    r.node("Cast", [node.input[0]], node.output[0], to=attribute(node, "to", 0))
    return None


REPLACED = {("", "CumProd"): running_product, ("", "BitCast"): same_bits}
