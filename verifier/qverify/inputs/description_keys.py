"""Compares two descriptions in the keys that decide the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qverify.inputs.colour import UNVERIFIED
from qverify.inputs.description import Description
from qverify.inputs.formats import REAL, YUV420


def describe_unverified(wanted: Description) -> str:
    """Returns which parts of it follow published facts only, not compared with a vendor's tool; "" where none does."""
    yuv = wanted.format in YUV420 or wanted.format.startswith("yuv444")
    parts = [f"colour mode {wanted.colour.mode}"] if yuv and wanted.colour.mode in UNVERIFIED else []
    parts += [f"profile {wanted.profile}"] if wanted.profile else []
    return " and ".join([*parts, *(["the resizer"] if wanted.source else [])])


WEIGHT_OF = {"horizon": "bt601"}  # the same matrix by another name


def make_values_key(one: Description) -> dict[str, Any]:
    """Returns what decides how a chip interprets the bytes: format, planes, and how the values were converted before
    they were stored; not how a picture was fitted, which matters on the host only."""
    key: dict[str, Any] = {"format": one.format, "planes": one.planes, "size_bytes": one.size_bytes}
    if one.format in REAL:
        key |= {**make_normalization_key(one), "quantize": one.quantize}
    elif one.format in YUV420 or one.format.startswith("yuv444"):
        key |= {"mode": (WEIGHT_OF.get(one.colour.mode, one.colour.mode), one.colour.range)}
    return key


def make_normalization_key(one: Description) -> dict[str, Any]:
    """Returns what a network was trained on, and mean and scale per channel."""
    channels = 1 if one.gray else 3

    def spread(values: tuple[float, ...]) -> tuple[float, ...]:
        return values * channels if len(values) == 1 else values

    return {"train": one.train, "mean": spread(one.mean), "scale": spread(one.scale)}


def make_fitting_key(one: Description) -> dict[str, Any]:
    """Returns the other keys that decide the bytes of a picture."""
    names = ("library", "interpolation", "resize_dtype", "resize_order", "fit", "roi")
    key: dict[str, Any] = {k: getattr(one, k) for k in names}
    if one.fit.startswith("letterbox"):
        key["fill"] = one.fill
    if one.format in YUV420:
        key |= {"siting": one.colour.siting, "colour_rounding": one.colour.rounding}
    if one.quantize is not None:
        key["rounding"] = one.rounding
    return key


def differences(got: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Returns a text like `train bgr, wanted rgb` for every key in which they differ."""
    keys = [k for k in wanted if got.get(k) != wanted[k]]
    if "format" in keys:  # which decides the planes
        keys = [k for k in keys if k not in ("planes", "size_bytes")]
    elif "planes" in keys:
        keys = [k for k in keys if k != "size_bytes"]
    return [f"{k} {_text(got.get(k))}, wanted {_text(wanted[k])}" for k in keys]


def _text(value: Any) -> str:
    if isinstance(value, tuple | list):
        if value and hasattr(value[0], "aligned_shape"):
            return " ".join(f"{p.name} {list(p.shape)} as {list(p.aligned_shape)}" for p in value)
        return ",".join(f"{v:g}" if isinstance(v, float) else str(v) for v in value)
    return str(value)
