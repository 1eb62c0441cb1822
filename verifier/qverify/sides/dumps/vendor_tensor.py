"""One tensor of a vendor's dump, read as the other side and the model say where its own file is silent."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from qverify.errors import BadFileError
from qverify.sides.dumps.vendor_axes import Arrangement, Unsettled, arrange_axes, padded_axes
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.vendor_dump import ITEM, VendorTensor, count_elements

NARROW = ("int8", "uint8", "int16", "uint16")


@dataclass(slots=True)
class SettledTensor:
    """spec: under the name of the report, as value() gives it. decimals: known ones, None for all. said: for the report."""

    spec: TensorSpec
    tensor: VendorTensor
    stored: tuple[int, ...]
    dtype: str
    way: Arrangement
    decimals: int | None = None
    said: list[str] = field(default_factory=list)

    def value(self) -> Array:
        """The valid elements, in the other side's axes. BadFileError where the file does not have its bytes any more."""
        data = self.tensor.read()
        if len(data) != self.tensor.size_bytes:
            raise BadFileError(f"{self.tensor.where}: {len(data)} bytes, wanted {self.tensor.size_bytes}")
        raw = np.dtype("uint16" if self.dtype == "bfloat16" else self.dtype).newbyteorder("<")
        whole = np.frombuffer(data, raw).reshape(self.stored)
        valid = whole[tuple(slice(0, n) for n in self.way.cut)]
        if self.dtype == "bfloat16":
            valid = (valid.astype("<u4") << 16).view("<f4")
        return np.ascontiguousarray(valid.transpose(self.way.order)).reshape(self.spec.shape)


def settle_tensor(
    name: str, tensor: VendorTensor, other: TensorSpec | None, model: TensorSpec | None, dtype: str = ""
) -> SettledTensor:
    """other: the same tensor on the other side. model: in -m. dtype: as the command line says. Raises Unsettled."""
    shape, stored, dtype = _stored(tensor, other, model, dtype)
    held = "float32" if dtype == "bfloat16" else dtype
    said = [f"read as {dtype}, as the other side, -m or --dtype says"] if len(tensor.dtypes) > 1 else []
    said += ["shape and order of axes as the other side or -m says: the file does not"] if tensor.shape is None else []
    want = other if other is not None else model
    if want is None:
        way = Arrangement(shape, tuple(range(len(shape))), shape)
    elif tensor.flat and shape != want.shape and count_elements(shape, tensor.where) == want.elements:
        shape, stored = want.shape, want.shape
        way = Arrangement(shape, tuple(range(len(shape))), shape, f"flat, taken as {list(shape)}")
    else:
        layout = want.layout or (model.layout if model is not None and model.shape == want.shape else "")
        way = arrange_axes(shape, want.shape, tensor.layout, layout, tensor.loose_inner)
    said += [way.said] if way.said else []
    moved = [i for i in way.order if way.cut[i] != 1] != [i for i, d in enumerate(way.cut) if d != 1]
    spec = TensorSpec(name, held, way.shape, layout=tensor.layout if not moved else want.layout if want else "")
    found = SettledTensor(spec, tensor, stored, dtype, way, tensor.decimals, said)
    _scale(found, other, model)
    return found


def _stored(
    tensor: VendorTensor, other: TensorSpec | None, model: TensorSpec | None, asked: str
) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """Valid shape, stored shape, dtype: the first that gives size_bytes, of what the dump, the command line, the other
    side and the model say."""
    if asked and asked not in tensor.dtypes:
        raise Unsettled(f"{asked} was asked for; its file can be {', '.join(tensor.dtypes)}")
    wanted = [s for s in (other, model) if s is not None]
    dtypes = [asked] if asked else _dtypes(tensor, wanted)
    if tensor.shape is not None:
        stored = tensor.stored or tensor.shape
        for dtype in dtypes:
            if count_elements(stored, tensor.where) * ITEM[dtype] == tensor.size_bytes:
                return tensor.shape, stored, dtype
        raise Unsettled(f"{tensor.size_bytes} bytes are no {' or '.join(dtypes)}{list(stored)}")
    for dtype in dtypes:
        for spec in wanted:
            if spec.elements * ITEM[dtype] == tensor.size_bytes:
                return spec.shape, spec.shape, dtype
        if model is not None and model.dtype == dtype and model.size_bytes == tensor.size_bytes:
            return model.shape, model.aligned_shape, dtype
    if not wanted:
        raise Unsettled("neither its file nor the other side tells its shape; -m quant.onnx or model.bin does")
    if tensor.inner_bytes is not None and len(dtypes) == 1:
        return (*padded_axes(tensor.size_bytes, ITEM[dtypes[0]], wanted[0].shape, tensor.inner_bytes), dtypes[0])
    hint = "; -m tells what type it is of" if model is None and len(tensor.dtypes) > 1 else ""
    raise Unsettled(f"{tensor.size_bytes} bytes are no {' or '.join(dtypes)}{list(wanted[0].shape)}{hint}")


def _dtypes(tensor: VendorTensor, wanted: list[TensorSpec]) -> list[str]:
    if len(tensor.dtypes) == 1:
        return list(tensor.dtypes)
    said = [s.dtype for s in wanted if s.dtype in tensor.dtypes]
    if not said and "bfloat16" in tensor.dtypes and any(s.numpy_dtype.kind == "f" for s in wanted):
        said = ["bfloat16"]
    if not said:
        raise Unsettled(f"its file does not tell which of {', '.join(tensor.dtypes)} it is; give --dtype, or -m")
    return list(dict.fromkeys(said))


def _scale(found: SettledTensor, other: TensorSpec | None, model: TensorSpec | None) -> None:
    """The scale of stored values, from the dump, the model or the other side; and what a scale of few decimals costs."""
    spec, tensor = found.spec, found.tensor
    if spec.dtype not in ITEM or spec.numpy_dtype.kind not in "iu":
        if tensor.form.endswith("text") and tensor.decimals is None and other is not None and other.quantized:
            raise Unsettled("whole numbers: whether they are stored or real values cannot be told")
        _other_has_one(spec, other, model)
        return
    if tensor.scale:
        axis = found.way.axis(tensor.channel_axis) if len(tensor.scale) > 1 else -1
        spec = replace(spec, scale=tensor.scale, zero_point=tensor.zero_point, channel_axis=axis)
    exact = [
        s for s in (model, other) if s is not None and s.quantized and (s.dtype, s.shape) == (spec.dtype, spec.shape)
    ]
    for known in exact:
        if not spec.scale or _same_scale(spec, known, tensor.scale_step):
            if known is model and (other is None or not other.quantized):
                found.said.append("scale and zero point of -m")
            spec = replace(spec, scale=known.scale, zero_point=known.zero_point, channel_axis=known.channel_axis)
            break
    found.spec = spec
    if other is None or (other.dtype == spec.dtype and not (other.quantized and spec.quantized)):
        if other is not None and spec.scale and not other.quantized:
            found.said.append("stored values on both sides: the dump's own scale is taken for both")
        return
    if other.same_meaning(spec):
        return
    if not spec.scale and other.dtype != spec.dtype:
        if spec.dtype in NARROW and not (model is not None and model.dtype == spec.dtype and not model.quantized):
            raise Unsettled(f"{spec.dtype} without a scale, against {other.dtype}: -m quant.onnx or model.bin tells it")
    if spec.scale and other.dtype != spec.dtype:
        found.said.append("dequantized")
    if spec.scale == tensor.scale and tensor.scale_step:
        found.decimals = _least(found.decimals, _decimals_left(found))


def _other_has_one(spec: TensorSpec, other: TensorSpec | None, model: TensorSpec | None) -> None:
    """Real values here: stored ones there need a scale."""
    if other is None or other.quantized or other.dtype not in NARROW:
        return
    if not (model is not None and model.dtype == other.dtype and not model.quantized):
        raise Unsettled(f"{spec.dtype} here, {other.dtype} without a scale on the other side: -m quant.onnx tells it")


def _same_scale(a: TensorSpec, b: TensorSpec, steps: tuple[float, ...]) -> bool:
    """Whether a, whose scales were printed to steps, can be b."""
    if not steps or len(a.scale) != len(b.scale) or (a.zero_point, a.channel_axis) != (b.zero_point, b.channel_axis):
        return False
    return all(abs(x - y) <= step * (1 + 1e-6) for x, y, step in zip(a.scale, b.scale, steps, strict=True))


def _decimals_left(found: SettledTensor) -> int:
    """Decimals of the dequantized values, when a scale is off by up to its step: |q - zero_point| * step at most."""
    off = replace(found.spec, scale=found.tensor.scale_step).dequantized(found.value())
    worst = float(np.abs(off).max(initial=0.0))
    return 15 if worst == 0 else max(0, min(15, math.floor(-math.log10(2 * worst))))


def _least(a: int | None, b: int) -> int:
    return b if a is None else min(a, b)


def loader(found: SettledTensor) -> partial[Array]:
    return partial(SettledTensor.value, found)
