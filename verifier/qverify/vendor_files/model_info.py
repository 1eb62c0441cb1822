"""Parses the text of `hrt_model_exec model_info` into TensorSpecs of the outputs. It was developed with 15 real
logs."""

from __future__ import annotations

import re
from itertools import pairwise

from qverify.errors import BadFileError
from qverify.plural import count
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.untrusted_files import UntrustedFile
from qverify.vendor_files.vendor_dump import ITEM, count_elements, real_number, whole_number

TYPES = {f"S{n}": f"int{n}" for n in (8, 16, 32, 64)} | {f"U{n}": f"uint{n}" for n in (8, 16, 32, 64)}
TYPES |= {f"F{n}": f"float{n}" for n in (16, 32, 64)}
LAYOUTS = ("NHWC", "NCHW")
MAX_TEXT_BYTES = 1 << 24
_SECTION = re.compile(r"(input|output)\[(\d{1,6})\]:\s*")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def outputs_of(file: UntrustedFile) -> dict[int, TensorSpec]:
    """Returns the outputs by index. Their aligned_shape is computed from the strides; their layout is that of
    four dims, "" if none is stated. Raises BadFileError for any other
    text, or for several models."""
    text = _COLOUR.sub("", file.whole(MAX_TEXT_BYTES).decode("utf-8", "replace"))
    if text.count("[model name]:") != 1:
        raise BadFileError(f"{file.path}: {count(text.count('[model name]:'), 'model')} in it, wanted one")
    outputs: dict[int, TensorSpec] = {}
    section, fields = "", dict[str, str]()
    for line in [*text.splitlines(), "output[0]:"]:
        if (match := _SECTION.fullmatch(line.strip())) is not None:
            if section.startswith("output"):
                index = int(section.split()[1])
                if index in outputs:
                    raise BadFileError(f"{file.path}: output[{index}] twice")
                outputs[index] = _spec(fields, f"{file.path}: output[{index}]")
            section, fields = f"{match[1]} {match[2]}", {}
        elif section and ":" in line:
            key, _, value = line.partition(":")
            fields.setdefault(key.strip().replace("_", " "), value.strip())  # zero_point data and zero point data
    if not outputs or sorted(outputs) != list(range(len(outputs))):
        raise BadFileError(f"{file.path}: outputs {sorted(outputs)[:5]}; wanted output[0], output[1] ...")
    return outputs


def _spec(fields: dict[str, str], where: str) -> TensorSpec:
    shape = _tuple(fields.get("valid shape", ""), where)
    dtype = TYPES.get(fields.get("tensor type", "").removeprefix("HB_DNN_TENSOR_TYPE_"), "")
    if not shape or not dtype or not fields.get("name"):
        raise BadFileError(f"{where}: wanted a name, a valid shape and a known tensor type")
    aligned = _tuple(fields["aligned shape"], where) if "aligned shape" in fields else shape
    strides = _tuple(fields["stride"], where) if "stride" in fields and "-" not in fields["stride"] else ()
    stored = _strided(shape, strides, fields.get("aligned byte size", ""), ITEM[dtype], where) or aligned
    if len(stored) != len(shape) or any(s < v for s, v in zip(stored, shape, strict=True)):
        raise BadFileError(f"{where}: the stored shape {list(stored)} does not contain the valid shape {list(shape)}")
    count_elements(shape, where), count_elements(stored, where)
    scale: tuple[float, ...] = ()
    if fields.get("quanti type") == "SCALE" and "int" in dtype:
        scale = tuple(real_number(v, where) for v in fields.get("scale data", "").split(",") if v.strip())
    zeros = tuple(int(real_number(v, where)) for v in fields.get("zero point data", "").split(",") if v.strip())
    zeros = zeros or (0,) * len(scale)
    text = fields.get("quantizeAxis", "-1")
    axis = whole_number(text, where) if not text.startswith("-") else -1
    per_channel = len(scale) > 1
    if any(s <= 0 for s in scale) or (scale and len(zeros) != len(scale)):
        raise BadFileError(
            f"{where}: {count(len(scale), 'scale')} and {count(len(zeros), 'zero point')}; wanted positive scales, and as many zero points"
        )
    if per_channel and (axis >= len(shape) or axis < 0 or shape[axis] != len(scale)):
        raise BadFileError(f"{where}: {count(len(scale), 'scale')} do not fit quantizeAxis {axis} of {list(shape)}")
    layout = fields.get("tensor layout", "").removeprefix("HB_DNN_LAYOUT_")
    layout = layout if layout in LAYOUTS and len(shape) == 4 else ""
    zeros, axis = zeros if scale else (), axis if per_channel else -1
    return TensorSpec(fields["name"], dtype, shape, stored, scale, zeros, axis, layout=layout)


def _tuple(text: str, where: str) -> tuple[int, ...]:
    return tuple(whole_number(d.strip(), where, 1 << 40) for d in text.strip("() ").split(",") if d.strip())


def _strided(shape: tuple[int, ...], strides: tuple[int, ...], size: str, item: int, where: str) -> tuple[int, ...]:
    """Returns the shape with these row-major strides in bytes, or () if they are dynamic or absent."""
    if len(strides) != len(shape) or not all(strides) or not size.isdigit():
        return ()
    whole = (whole_number(size, where, 1 << 40), *strides)
    if strides[-1] != item or any(a % b for a, b in pairwise(whole)):
        raise BadFileError(f"{where}: strides {list(strides)} of {size} bytes fit no aligned shape")
    return tuple(a // b for a, b in pairwise(whole))
