"""Derives the words of preprocessing nodes from a description (NUMERICS.md, unpack, yuv_to_rgb, normalize)."""

from __future__ import annotations

import numpy as np

from qverify.errors import UsageError
from qverify.inputs.description import Description
from qverify.inputs.formats import FORMATS, REAL, SIGNED, YUV420


def channels_of(wanted: Description) -> int:
    """Returns the number of channels of the network's input."""
    return 1 if wanted.gray else 3


def unpack_words(wanted: Description) -> list[int]:
    """Returns the words of unpack: the format, then the offsets of all channels, their row strides, column strides and
    shifts."""
    parts = wanted.planes
    if wanted.format in YUV420:
        y = parts[0]
        rows = [(y.offset, y.strides_bytes[0], 1, 0)]
        if wanted.format == "i420":
            rows += [(p.offset, p.strides_bytes[0], 1, 1) for p in parts[1:]]
        else:
            uv = [(parts[1].offset + k, parts[1].strides_bytes[0], 2, 1) for k in (0, 1)]
            rows += uv if wanted.format == "nv12" else uv[::-1]
    else:
        strides = parts[0].strides_bytes
        channel_axis = 2 if wanted.layout == "NHWC" else 0
        row, column = (k for k in range(3) if k != channel_axis)
        rows = [
            (parts[0].offset + c * strides[channel_axis], strides[row], strides[column], 0)
            for c in _order_channels(wanted)
        ]
    return [FORMATS.index(wanted.format), *(row[k] for k in range(4) for row in rows)]


def _order_channels(wanted: Description) -> list[int]:
    """Returns the index of the stored channel for each channel of the network's input."""
    stored = wanted.format[:3]
    if channels_of(wanted) == 1 or stored not in ("rgb", "bgr") or wanted.train in ("", stored):
        return list(range(channels_of(wanted)))
    return [2, 1, 0]


def convert_words(wanted: Description, where: str) -> list[int] | None:
    """Returns the words of yuv_to_rgb, or None if nothing is converted."""
    yuv = wanted.format in YUV420 or wanted.format.startswith("yuv444")
    if not yuv or wanted.train == "yuv444":
        return None
    if not wanted.train:
        raise UsageError(f"{where}: {wanted.format} needs a training format; give train=rgb, bgr or yuv444")
    words = list(wanted.colour.inverse(wanted.format in YUV420))
    if wanted.format in SIGNED:
        words[2:5] = [w - 128 for w in words[2:5]]
    if wanted.train == "bgr":
        words[5:8], words[11:14] = words[11:14], words[5:8]
    return words


def normalize_words(wanted: Description, dtype: str, where: str) -> list[int] | None:
    """Returns the words of normalize, which computes (x - mean) * scale of the byte before 128 is subtracted, and
    dequantizes raw_s16. Returns None if nothing is normalized. dtype: type of the network's input."""
    if wanted.format == "raw_s16":
        if wanted.quantize is None:
            raise UsageError(f"{where}: raw_s16 needs quantize=SCALE,ZERO")
        mean, scale = [float(wanted.quantize[1])], [wanted.quantize[0]]
    elif wanted.format in REAL or dtype != "float32":
        if dtype != "float32" and any(v != 0 for v in wanted.mean) | any(v != 1 for v in wanted.scale):
            raise UsageError(f"{where} is {dtype}: mean and scale need a float32 input")
        return None
    else:
        less = 128.0 if wanted.format in SIGNED and convert_words(wanted, where) is None else 0.0
        mean, scale = [m - less for m in wanted.mean], list(wanted.scale)
    spread = [np.resize(np.array(v), channels_of(wanted)) for v in (mean, scale)]
    return [int(np.array(v, np.float32).view(np.int32)) for part in spread for v in part]
