"""Reads one tensor of a vendor's dump. Facts that its file does not state are taken from the other side and the
model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from qverify.arithmetic.functions64 import log10_of
from qverify.errors import BadFileError
from qverify.sides.dumps.vendor_axes import ORDERS, Arrangement, Unsettled, arrange_axes, describe_blocks, padded_axes
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.vendor_dump import ITEM, VendorTensor, count_elements

FLOAT32_ROUNDING = 2.0**-24  # relative; a scale of float64 whose float32 an ONNX has
DEQUANTIZED = "dequantized"  # a note; the scale follows the name
NARROW = ("int8", "uint8", "int16", "uint16")


@dataclass(slots=True)
class SettledTensor:
    """A tensor with known shape, axes and dtype.

    Attributes:
        spec: spec of value(), with the name that the report uses.
        tensor: the tensor as the dump contains it.
        stored: shape of the stored elements, with padding.
        dtype: type of the stored elements.
        arrangement: how to get from the stored elements to the valid ones, in the other side's axes.
        decimals: number of known decimals, or None if the values are exact.
        notes: notes for the report.
    """

    spec: TensorSpec
    tensor: VendorTensor
    stored: tuple[int, ...]
    dtype: str
    arrangement: Arrangement
    decimals: int | None = None
    notes: list[str] = field(default_factory=list)

    def value(self) -> Array:
        """Returns the valid elements in the other side's axes. Raises BadFileError if the size of the file has
        changed."""
        data = self.tensor.read()
        if len(data) != self.tensor.size_bytes:
            raise BadFileError(f"{self.tensor.where}: {len(data)} bytes, wanted {self.tensor.size_bytes}")
        raw = np.dtype("uint16" if self.dtype == "bfloat16" else self.dtype).newbyteorder("<")
        whole = np.frombuffer(data, raw).reshape(self.stored)
        if self.dtype == "bfloat16":
            whole = (whole.astype("<u4") << 16).view("<f4")
        return self.arrangement.apply(whole)


def state_layout(tensor: VendorTensor, layout: str, known: TensorSpec | None) -> VendorTensor:
    """Returns a tensor of four axes with the layout that the user states for its dump, unless its file states one. known: its
    spec on the other side or in the model, whose shape it has in that layout if its file states no shape."""
    if not layout or tensor.layout or tensor.inner_bytes is not None:
        return tensor
    if tensor.shape is not None:
        return replace(tensor, layout=layout) if len(tensor.shape) == 4 else tensor
    if known is None or len(known.shape) != 4:
        return tensor
    order = ORDERS[4].get(f"{known.layout or 'NCHW'} to {layout}", (0, 1, 2, 3))
    return replace(tensor, layout=layout, shape=tuple(known.shape[i] for i in order))


def settle_tensor(
    name: str, tensor: VendorTensor, other: TensorSpec | None, model: TensorSpec | None, dtype: str = ""
) -> SettledTensor:
    """Determines shape, axes, dtype and scale of a tensor. other: spec of the tensor on the other side. model: its spec
    in the model of -m. dtype: from the command line, or "". Raises Unsettled if they are not certain."""
    shape, stored, dtype = _stored(tensor, other, model, dtype)
    numpy_type = "float32" if dtype == "bfloat16" else dtype
    notes = [f"read as {dtype}, according to the other side, -m or --dtype"] if len(tensor.dtypes) > 1 else []
    notes += (
        ["shape and order of axes according to the other side or -m: the file does not state them"]
        if tensor.shape is None
        else []
    )
    wanted = other if other is not None else model
    if wanted is None:
        arrangement = Arrangement(shape, tuple(range(len(shape))), shape)
    elif tensor.flat and shape != wanted.shape and count_elements(shape, tensor.where) == wanted.elements:
        shape, stored = wanted.shape, wanted.shape
        arrangement = Arrangement(shape, tuple(range(len(shape))), shape, f"flat, taken as {list(shape)}")
    else:
        layout = wanted.layout or (model.layout if model is not None and model.shape == wanted.shape else "")
        arrangement = arrange_axes(shape, wanted.shape, tensor.layout, layout, tensor.loose_inner)
    notes += [arrangement.note] if arrangement.note else []
    moved = [i for i in arrangement.order if arrangement.cut[i] != 1] != [
        i for i, d in enumerate(arrangement.cut) if d != 1
    ]
    spec = TensorSpec(
        name, numpy_type, arrangement.shape, layout=tensor.layout if not moved else wanted.layout if wanted else ""
    )
    settled = SettledTensor(spec, tensor, stored, dtype, arrangement, tensor.decimals, notes)
    _set_scale(settled, other, model)
    return settled


def _stored(
    tensor: VendorTensor, other: TensorSpec | None, model: TensorSpec | None, requested: str
) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """Returns valid shape, stored shape and dtype: the first combination that fits size_bytes, of those that the dump,
    the command line, the other side and the model allow."""
    if requested and requested not in tensor.dtypes:
        raise Unsettled(f"{requested} was asked for; its file can only be {', '.join(tensor.dtypes)}")
    specs = [s for s in (other, model) if s is not None]
    dtypes = [requested] if requested else _dtypes(tensor, specs)
    if tensor.shape is not None:
        stored = tensor.stored or tensor.shape
        for dtype in dtypes:
            if count_elements(stored, tensor.where) * ITEM[dtype] == tensor.size_bytes:
                return tensor.shape, stored, dtype
        raise Unsettled(f"{tensor.size_bytes} bytes do not fit {' or '.join(dtypes)}{list(stored)}")
    for dtype in dtypes:
        for spec in specs:
            if spec.elements * ITEM[dtype] == tensor.size_bytes:
                return spec.shape, spec.shape, dtype
        if model is not None and model.dtype == dtype and model.size_bytes == tensor.size_bytes:
            return model.shape, model.aligned_shape, dtype
    if not specs:
        raise Unsettled("neither its file nor the other side states its shape; give -m quant.onnx or model.bin")
    if tensor.inner_bytes is not None and len(dtypes) == 1:
        return (*padded_axes(tensor.size_bytes, ITEM[dtypes[0]], specs[0].shape, tensor.inner_bytes), dtypes[0])
    hint = "; -m states its type" if model is None and len(tensor.dtypes) > 1 else ""
    blocks = describe_blocks(tensor.size_bytes // ITEM[dtypes[0]], specs[0].shape) if len(dtypes) == 1 else ""
    raise Unsettled(f"{tensor.size_bytes} bytes do not fit {' or '.join(dtypes)}{list(specs[0].shape)}{hint}{blocks}")


def _dtypes(tensor: VendorTensor, specs: list[TensorSpec]) -> list[str]:
    if len(tensor.dtypes) == 1:
        return list(tensor.dtypes)
    dtypes = [s.dtype for s in specs if s.dtype in tensor.dtypes]
    if not dtypes and "bfloat16" in tensor.dtypes and any(s.numpy_dtype.kind == "f" for s in specs):
        dtypes = ["bfloat16"]
    if not dtypes:
        raise Unsettled(f"its file does not state which of {', '.join(tensor.dtypes)} it is; give --dtype, or -m")
    return list(dict.fromkeys(dtypes))


def _set_scale(settled: SettledTensor, other: TensorSpec | None, model: TensorSpec | None) -> None:
    """Sets the scale of stored values from the dump, the model or the other side, and the number of decimals that are
    known if the scale has few digits."""
    spec, tensor = settled.spec, settled.tensor
    if spec.dtype not in ITEM or spec.numpy_dtype.kind not in "iu":
        if tensor.form.endswith("text") and tensor.decimals is None and other is not None and other.quantized:
            raise Unsettled("whole numbers, which may be stored or real values")
        _check_other_scale(spec, other, model)
        return
    if tensor.scale:
        axis = settled.arrangement.axis(tensor.channel_axis) if len(tensor.scale) > 1 else -1
        spec = replace(spec, scale=tensor.scale, zero_point=tensor.zero_point, channel_axis=axis)
    exact = [
        s for s in (model, other) if s is not None and s.quantized and (s.dtype, s.shape) == (spec.dtype, spec.shape)
    ]
    for source in exact:
        if not spec.scale or _same_scale(spec, source, tensor.scale_step):
            if source is model and (other is None or not other.quantized):
                settled.notes.append("scale and zero point of -m")
            spec = replace(spec, scale=source.scale, zero_point=source.zero_point, channel_axis=source.channel_axis)
            break
    settled.spec = spec
    if other is None or (other.dtype == spec.dtype and not (other.quantized and spec.quantized)):
        if other is not None and spec.scale and not other.quantized:
            settled.notes.append("stored values on both sides: the dump's own scale is used for both")
        return
    if other.same_meaning(spec):
        return
    if not spec.scale and other.dtype != spec.dtype:
        if spec.dtype in NARROW and not (model is not None and model.dtype == spec.dtype and not model.quantized):
            raise Unsettled(
                f"{spec.dtype} without a scale, compared with {other.dtype}: give -m quant.onnx or model.bin, which states it"
            )
    if spec.scale and other.dtype != spec.dtype:
        settled.notes.append(DEQUANTIZED)
    if spec.scale == tensor.scale and tensor.scale_step and not tensor.is_exact:
        settled.decimals = _least(settled.decimals, _decimals_left(settled))


def _check_other_scale(spec: TensorSpec, other: TensorSpec | None, model: TensorSpec | None) -> None:
    """Raises Unsettled if this side has real values, and the other one stored values without a scale."""
    if other is None or other.quantized or other.dtype not in NARROW:
        return
    if not (model is not None and model.dtype == other.dtype and not model.quantized):
        raise Unsettled(
            f"{spec.dtype} here, {other.dtype} without a scale on the other side: give -m quant.onnx, which states it"
        )


def may_store(tensor: VendorTensor, spec: TensorSpec) -> bool:
    """Returns whether a file may have the integers of a quantized tensor: its type is possible, and the scale and zero point that the
    file states, if it does, can be a rounding of those of the tensor."""
    stated = replace(spec, scale=tensor.scale, zero_point=tensor.zero_point)
    return spec.dtype in tensor.dtypes and (not tensor.scale or _same_scale(stated, spec, tensor.scale_step))


def _same_scale(a: TensorSpec, b: TensorSpec, steps: tuple[float, ...]) -> bool:
    """Returns True if the scales of a, which were rounded by at most `steps` and perhaps not to float32, can be those
    of b."""
    if len(a.scale) != len(b.scale) or (a.zero_point, a.channel_axis) != (b.zero_point, b.channel_axis):
        return False
    errors = steps or (0.0,) * len(a.scale)
    return all(
        abs(x - y) <= max(step * (1 + 1e-6), y * FLOAT32_ROUNDING)
        for x, y, step in zip(a.scale, b.scale, errors, strict=True)
    )


def _decimals_left(settled: SettledTensor) -> int:
    """Returns the number of known decimals of dequantized values. An error of the scale of up to scale_step gives an
    error of up to |q - zero_point| * scale_step."""
    errors = replace(settled.spec, scale=settled.tensor.scale_step).dequantized(settled.value())
    largest_error = float(np.abs(errors).max(initial=0.0))
    return 15 if largest_error == 0 else max(0, min(15, math.floor(-log10_of(2 * largest_error))))


def _least(a: int | None, b: int) -> int:
    return b if a is None else min(a, b)


def loader(settled: SettledTensor) -> partial[Array]:
    """Returns a function without arguments that reads the tensor's values."""
    return partial(SettledTensor.value, settled)
