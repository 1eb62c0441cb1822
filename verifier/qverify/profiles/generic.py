"""Raw files with a manifest, dump.toml or dump.json, which describes each file and is usually written by hand."""

from __future__ import annotations

import tomllib
from typing import Any

from qverify.errors import BadFileError
from qverify.files import parse_json
from qverify.plural import count
from qverify.vendor_files.printed_numbers import PrintedFloat
from qverify.vendor_files.untrusted_files import UntrustedFile, UntrustedFolder
from qverify.vendor_files.vendor_dump import ITEM, ReadingOptions, VendorDump, VendorTensor, count_elements

WANTED = "a folder with dump.toml or dump.json, its [[tensor]] entries with name, file, dtype and shape"
CHECKED = ""
MANIFESTS = ("dump.toml", "dump.json")
KEYS = {
    *("name", "file", "dtype", "shape", "layout", "aligned_shape", "offset", "scale", "zero_point", "channel_axis"),
}
LAYOUTS = ("", "NCHW", "NHWC", "NCW", "NWC", "NC", "NC1HWC2")
SIX_DECIMALS = 0.5001e-6  # largest error of a number with six decimals
THREE_DIGITS = 0.005  # largest error of a number with three digits, relative to it
MAX_MANIFEST_BYTES = 1 << 24


def recognised(folder: UntrustedFolder) -> bool:
    """Returns True for a folder with a manifest; one beside stack.json is msprobe's."""
    held = set() if folder.is_file else set(folder.names())
    return bool(held & set(MANIFESTS)) and "stack.json" not in held


def read(folder: UntrustedFolder, options: ReadingOptions) -> VendorDump:
    """Reads the dump; names are unchanged. Raises BadFileError, which names the wrong entry and key, for a bad
    manifest."""
    if folder.is_file:
        raise BadFileError(f"{folder.path}: a file; wanted {WANTED}")
    manifests = [name for name in MANIFESTS if name in folder.names()]
    if len(manifests) != 1:
        raise BadFileError(f"{folder.path}: {' and '.join(manifests) or 'no manifest'}; wanted {WANTED}")
    file = folder.file(manifests[0])
    entries, missing = _entries(file)
    tensors = [_tensor(folder, entry, f"{file.path}: tensor {at}") for at, entry in enumerate(entries, 1)]
    names = [t.name for t in tensors]
    if len(set(names)) != len(names):
        raise BadFileError(f"{file.path}: two tensors of one name")
    if both := [n for n in names if n in missing]:
        raise BadFileError(f"{file.path}: {both[0][:80]!r} is listed as a tensor and as missing")
    return VendorDump("generic", tensors, missing=missing)


def _entries(file: UntrustedFile) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Returns the entries of the tensors, and the reasons for the tensors that the dump lists as missing."""
    try:
        text = file.whole(MAX_MANIFEST_BYTES).decode()
        content = (
            parse_json(text, file.path, PrintedFloat)
            if file.path.endswith(".json")
            else tomllib.loads(text, parse_float=PrintedFloat)
        )
        if not isinstance(content, dict) or "tensor" not in content:
            raise ValueError("no entries called tensor")
        entries, missing = content["tensor"], content.get("missing", {})
        if not isinstance(missing, dict):
            raise ValueError("missing is not a table of tensors")
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise ValueError("tensor is not a list of entries")
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{file.path}: {' '.join(str(error).split())[:120]}; wanted {WANTED}") from error
    return entries, {str(name): str(why) for name, why in missing.items()}


def _tensor(folder: UntrustedFolder, entry: dict[str, Any], where: str) -> VendorTensor:
    for key in entry.keys() - KEYS:
        raise BadFileError(f"{where}: key {key[:40]!r} is not known; there are: {', '.join(sorted(KEYS))}")
    name, path, dtype = (_text(entry, key, where) for key in ("name", "file", "dtype"))
    if dtype not in ITEM or not name or not path:
        raise BadFileError(f"{where}: name {name[:40]!r}, dtype {dtype[:20]!r}; wanted one of {', '.join(ITEM)}")
    layout = _text(entry, "layout", where) if "layout" in entry else ""
    if layout not in LAYOUTS:
        raise BadFileError(f"{where}: layout {layout[:20]!r}, wanted one of {', '.join(LAYOUTS[1:])}")
    shape = _shape(entry["shape"], where) if "shape" in entry else None
    stored = _shape(entry["aligned_shape"], where) if "aligned_shape" in entry else shape or ()
    if shape is not None and (len(stored) != len(shape) or any(s < v for s, v in zip(stored, shape, strict=True))):
        raise BadFileError(f"{where}: aligned_shape {list(stored)} does not contain shape {list(shape)}")
    if shape is None and stored:
        raise BadFileError(f"{where}: aligned_shape without shape")
    if layout == "NC1HWC2" and (shape is None or len(shape) != 5 or "channel_axis" in entry):
        raise BadFileError(
            f"{where}: layout NC1HWC2; wanted shape = [N, blocks, H, W, channels of a block], and no channel_axis"
        )
    file, offset = folder.file(path), _number(entry.get("offset", 0), "offset", where)
    size = count_elements(stored, where) * ITEM[dtype] if shape is not None else max(file.size_bytes - offset, 0)
    if offset + size > file.size_bytes or ("offset" not in entry and size != file.size_bytes):
        raise BadFileError(
            f"{where}: {file.path} has {file.size_bytes} bytes, {dtype}{list(stored)} at {offset} has {size}"
        )
    scale, zero_point, axis = _quantization(entry, dtype, shape, where)
    padded_shape = stored if shape is not None and stored != shape else ()
    return VendorTensor(
        name,
        file.path,
        (dtype,),
        size,
        lambda: file.read(offset, size),
        shape,
        padded_shape,
        scale,
        zero_point,
        axis,
        layout,
        scale_step=_rounding(entry.get("scale", ())),
        is_exact=True,
    )


def _rounding(stated: Any) -> tuple[float, ...]:
    """Returns the largest error of each stated scale if it may have been rounded when it was printed: with six decimals
    (`%f`), or three digits and more, so that it is no number that somebody chose; else ()."""
    scales = stated if isinstance(stated, list) else [stated]
    errors = tuple(s.error if isinstance(s, PrintedFloat) else 0.0 for s in scales)
    few = any(e > SIX_DECIMALS and e > THREE_DIGITS * s for s, e in zip(scales, errors, strict=True))
    return () if few or not all(errors) else errors


def _quantization(
    entry: dict[str, Any], dtype: str, shape: tuple[int, ...] | None, where: str
) -> tuple[tuple[float, ...], tuple[int, ...], int]:
    """Returns scales, zero points and the axis of the channels. Scales and zero points are () if the tensor is not
    quantized; the axis is -1 if they are not per channel."""
    if "scale" not in entry:
        if entry.keys() & {"zero_point", "channel_axis"}:
            raise BadFileError(f"{where}: zero_point or channel_axis without scale")
        return (), (), -1
    scales, zeros = (v if isinstance(v, list) else [v] for v in (entry["scale"], entry.get("zero_point", 0)))
    good = all(isinstance(s, (int, float)) and not isinstance(s, bool) and 0 < s < 1e38 for s in scales)
    if not good or not scales or "float" in dtype or dtype == "bool":
        raise BadFileError(
            f"{where}: scale {str(entry['scale'])[:40]} of {dtype}; wanted positive numbers and an integer dtype"
        )
    zeros = zeros * len(scales) if len(zeros) == 1 else zeros
    limit = 1 << 31
    if len(zeros) != len(scales) or not all(type(z) is int and -limit <= z < limit for z in zeros):
        raise BadFileError(
            f"{where}: {count(len(scales), 'scale')}, zero_point {str(entry.get('zero_point'))[:40]}; wanted as many int32"
        )
    axis = _number(entry.get("channel_axis", -1), "channel_axis", where, -1)
    if len(scales) > 1 and (shape is None or not 0 <= axis < len(shape) or shape[axis] != len(scales)):
        raise BadFileError(
            f"{where}: {count(len(scales), 'scale')} do not fit channel_axis {axis} of {list(shape or ())}"
        )
    return tuple(float(s) for s in scales), tuple(zeros), axis if len(scales) > 1 else -1


def _text(entry: dict[str, Any], key: str, where: str) -> str:
    if not isinstance(entry.get(key), str):
        raise BadFileError(f"{where}: {key} {'is not text' if key in entry else 'is missing'}")
    return str(entry[key])


def _number(value: Any, key: str, where: str, least: int = 0) -> int:
    if type(value) is not int or not least <= value < 1 << 62:
        raise BadFileError(f"{where}: {key} {str(value)[:40]}; wanted a whole number of at least {least}")
    return value


def _shape(value: Any, where: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise BadFileError(f"{where}: wanted a list of whole numbers as shape")
    shape = tuple(_number(d, "dim", where) for d in value)
    count_elements(shape, where)
    return shape
