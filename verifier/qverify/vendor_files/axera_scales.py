"""Scales of AXera's quantized tensors, from quant_axmodel.json, which lies above the dumps in quant/debug."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from qverify.errors import BadFileError
from qverify.files import parse_json
from qverify.vendor_files.untrusted_files import UntrustedFolder

FILE = "quant_axmodel.json"
MAX_BYTES = 1 << 28
LEVELS = 4  # from debug/numpy/xrun to the folder of the file
Scale = tuple[float, int]


def scales_above(path: str) -> dict[str, Scale]:
    """Returns scale and zero point by the name of a tensor's file, from the nearest FILE in this folder or above it; {} if
    there is none. A name that two tensors with different scales share is left out. Raises BadFileError for another
    content."""
    for _ in range(LEVELS):
        folder = UntrustedFolder(path)
        if not folder.is_file and FILE in folder.names():
            file = folder.file(FILE)
            return _scales(parse_json(file.whole(MAX_BYTES), file.path), file.path)
        path = os.path.dirname(os.path.abspath(path))
    return {}


def _scales(content: Any, where: str) -> dict[str, Scale]:
    configs, values = (content.get(key) if isinstance(content, dict) else None for key in ("tensor_configs", "values"))
    if not isinstance(configs, dict) or not isinstance(values, dict):
        raise BadFileError(f"{where}: wanted an object with tensor_configs and values")
    found: dict[str, set[Scale]] = {}
    for name, entry in _entries(configs):
        if (scale := _scale(entry, values)) is not None:
            found.setdefault(name.replace("/", "_"), set()).add(scale)
    return {name: next(iter(scales)) for name, scales in found.items() if len(scales) == 1}


def _entries(configs: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for tensors in configs.values():
        for name, entry in tensors.items() if isinstance(tensors, dict) else ():
            if isinstance(entry, dict):
                yield name, entry


def _scale(entry: Mapping[str, Any], values: Mapping[str, Any]) -> Scale | None:
    """Returns the scale of one entry: that of its `hash`, else that of its `dominator`, the tensor whose quantization it
    shares."""
    for key in ("hash", "dominator"):
        value = values.get(str(entry.get(key)))
        if not isinstance(value, dict):
            continue
        scale, zero = (_single(value.get(field)) for field in ("scale", "zero_point"))
        if scale is not None and scale > 0 and (zero is None or zero == int(zero)):
            return scale, int(zero or 0)
    return None


def _single(value: Any) -> float | None:
    """Returns a finite number, or that of a list of one; None for anything else."""
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e30
    return float(value) if is_number else None
