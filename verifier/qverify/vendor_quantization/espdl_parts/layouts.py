"""How esp-ppq stores the weights of convolutions and of Gemm.

Dims are stated as HWCN (a depthwise convolution: HWNC; one dimension: WCN). The elements lie in blocks of 16 (int16: 8)
output channels, HWC and the block's channels innermost; the output channels after the last whole block lie as NHWC, or as
HWN in a depthwise convolution. The targets without vector instructions have no blocks: NHWC, depthwise HWCN."""

from __future__ import annotations

import re
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import UnsupportedError

Array = npt.NDArray[Any]
PREFIX = "layout ==> "
PLAIN = ("NHWC", "NWC")
DEPTHWISE = ("HWCN", "WCN")
BLOCKS = re.compile(r"\(N/(8|16)\)H?WC\1(_UNALIGNED)?")


def unpack_weights(values: Array, dims: tuple[int, ...], layout: str, depthwise: bool) -> Array:
    """Returns the weights as ONNX orders them, NCHW or NCW.

    values: the stored elements, one axis. dims: as the file states them. layout: as the file names it. depthwise: whether each
    output channel has one input channel of its own. Raises UnsupportedError for another layout, ValueError for dims of another
    number of elements."""
    if len(dims) not in (3, 4) or values.size != prod(dims):
        raise ValueError(f"weights of the dims {list(dims)} have {values.size} elements")
    places, (a, b) = dims[:-2], dims[-2:]
    outputs, inputs = (a, b) if depthwise else (b, a)
    if depthwise and inputs != 1:
        raise UnsupportedError(f"a convolution in groups of {inputs} channels")
    if layout in PLAIN:
        stored = values.reshape(outputs, *places, inputs)
    elif layout in DEPTHWISE:
        stored = np.moveaxis(values.reshape(*places, inputs, outputs), -1, 0)
    elif found := BLOCKS.fullmatch(layout):
        stored = _without_blocks(values, outputs, (*places, inputs), int(found[1]), depthwise)
    else:
        raise UnsupportedError(f"weights in the layout {layout or 'without a name'}")
    return np.ascontiguousarray(np.moveaxis(stored, -1, 1))


def _without_blocks(values: Array, outputs: int, inner: tuple[int, ...], block: int, depthwise: bool) -> Array:
    """Returns the weights as NHWC."""
    whole, each = outputs // block * block, prod(inner)
    blocks = values[: whole * each].reshape(-1, *inner, block)
    first = np.moveaxis(blocks, -1, 1).reshape(whole, *inner)
    rest = values[whole * each :]
    if depthwise:
        last = np.moveaxis(rest.reshape(*inner, outputs - whole), -1, 0)
    else:
        last = rest.reshape(outputs - whole, *inner)
    return np.concatenate([first, last])
