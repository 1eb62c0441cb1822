"""What two descriptions have to agree in, and where they do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qverify.inputs.colour import UNVERIFIED
from qverify.inputs.description import Description
from qverify.inputs.formats import REAL, YUV420


def unverified(wanted: Description) -> str:
    """What of it follows published facts alone and was compared with no vendor's tool; "" where nothing does."""
    yuv = wanted.format in YUV420 or wanted.format.startswith("yuv444")
    found = [f"colour mode {wanted.colour.mode}"] if yuv and wanted.colour.mode in UNVERIFIED else []
    found += [f"profile {wanted.profile}"] if wanted.profile else []
    return " and ".join([*found, *(["the resizer"] if wanted.source else [])])


WEIGHT_OF = {"horizon": "bt601"}  # the same matrix by another name


def values_key(one: Description) -> dict[str, Any]:
    """What decides what a chip takes the bytes for: format, planes, and what was done to the values before they were stored.
    How a picture was fitted is the host's own affair."""
    found: dict[str, Any] = {"format": one.format, "planes": one.planes, "size_bytes": one.size_bytes}
    if one.format in REAL:
        found |= {**normalization_key(one), "quantize": one.quantize}
    elif one.format in YUV420 or one.format.startswith("yuv444"):
        found |= {"mode": (WEIGHT_OF.get(one.colour.mode, one.colour.mode), one.colour.range)}
    return found


def normalization_key(one: Description) -> dict[str, Any]:
    """What a network was trained on, and the numbers a channel."""
    channels = 1 if one.gray else 3

    def spread(values: tuple[float, ...]) -> tuple[float, ...]:
        return values * channels if len(values) == 1 else values

    return {"train": one.train, "mean": spread(one.mean), "scale": spread(one.scale)}


def fitting_key(one: Description) -> dict[str, Any]:
    """The rest of what decides the bytes of a picture."""
    names = ("library", "interpolation", "resize_dtype", "resize_order", "fit", "roi")
    found: dict[str, Any] = {k: getattr(one, k) for k in names}
    if one.fit.startswith("letterbox"):
        found["fill"] = one.fill
    if one.format in YUV420:
        found |= {"siting": one.colour.siting, "colour_rounding": one.colour.rounding}
    if one.quantize is not None:
        found["rounding"] = one.rounding
    return found


def differences(got: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """`train bgr, wanted rgb` for every key in which they differ."""
    keys = [k for k in wanted if got.get(k) != wanted[k]]
    if "format" in keys:  # which decides the planes
        keys = [k for k in keys if k not in ("planes", "size_bytes")]
    elif "planes" in keys:
        keys = [k for k in keys if k != "size_bytes"]
    return [f"{k} {_said(got.get(k))}, wanted {_said(wanted[k])}" for k in keys]


def _said(value: Any) -> str:
    if isinstance(value, tuple | list):
        if value and hasattr(value[0], "aligned_shape"):
            return " ".join(f"{p.name} {list(p.shape)} as {list(p.aligned_shape)}" for p in value)
        return ",".join(f"{v:g}" if isinstance(v, float) else str(v) for v in value)
    return str(value)
