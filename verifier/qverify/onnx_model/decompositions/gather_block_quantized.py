"""Writes GatherBlockQuantized, whose table has blocks of 2, 4 or 8 bits, as a Gather of the float32 table that the blocks
represent."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from qverify.onnx_model.packed_bits import unpack
from qverify.onnx_model.rewriter import MICROSOFT, Rewriter, attribute, check_known, input_name

Array = npt.NDArray[Any]
UINT8, UINT4, INT4 = onnx.TensorProto.UINT8, onnx.TensorProto.UINT4, onnx.TensorProto.INT4
BITS = (2, 4, 8)


def gather_block_quantized(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes the node. Each element of the table is fl32(q - z) * s with the zero point and scale of its block, rounded
    once."""
    check_known(r, node, "bits", "block_size", "gather_axis", "quantize_axis")
    table = r.constant("table", _table(r, node))
    r.node("Gather", [table, node.input[1]], node.output[0], axis=attribute(node, "gather_axis", 0))


def _table(r: Rewriter, node: onnx.NodeProto) -> Array:
    """Returns the float32 table. Raises UnsupportedError unless its inputs are constants, integers in blocks with float32
    scales."""
    bits, size = attribute(node, "bits", 4), attribute(node, "block_size", 128)
    kind = r.kind(node.input[0])
    stored, scales = r.value(node.input[0]), r.value(node.input[2])
    zeros = r.value(input_name(node, 3)) if input_name(node, 3) else None
    if stored is None or scales is None or (zeros is None and input_name(node, 3)):
        raise r.refusal("its data, scales or zero_points are computed at run time; only constants can be compiled")
    if kind not in (UINT8, UINT4, INT4) or scales.dtype != np.float32 or bits not in BITS or size < 16:
        name = onnx.TensorProto.DataType.Name(kind).lower()
        raise r.refusal(
            f"data of {name}, bits={bits}, block_size={size}, scales of {scales.dtype} is not supported; wanted uint8, uint4 "
            "or int4 in blocks of 16 or more, with scales of float32"
        )
    packed = kind == UINT8 and bits < 8
    whole = unpack(stored, bits) if packed else stored
    axis = attribute(node, "quantize_axis", 1) % whole.ndim
    blocks = -(-whole.shape[axis] // size)
    if scales.shape != (*whole.shape[:axis], blocks, *whole.shape[axis + 1 :]):
        raise r.refusal(
            f"scales of shape {list(scales.shape)} do not fit data of {list(whole.shape)} in blocks of {size}"
        )
    if zeros is None:
        zeros = np.full(scales.shape, 1 << (bits - 1) if kind == UINT8 else 0, np.uint8)
    elif packed:
        zeros = unpack(zeros, bits)[..., : scales.shape[-1]]
    if zeros.shape != scales.shape:
        raise r.refusal(f"zero_points of shape {list(zeros.shape)} do not fit scales of {list(scales.shape)}")
    zero, scale = (
        _repeat_for_elements(part.astype(np.float32), axis, size, whole.shape[axis]) for part in (zeros, scales)
    )
    return (whole.astype(np.float32) - zero) * scale


def _repeat_for_elements(of_blocks: Array, axis: int, size: int, elements: int) -> Array:
    """Returns, for each element along the axis, the value of its block."""
    return np.repeat(of_blocks, size, axis).take(np.arange(elements), axis)


REPLACED = {(MICROSOFT, "GatherBlockQuantized"): gather_block_quantized}
