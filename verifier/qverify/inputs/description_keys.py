"""Compares two descriptions by the keys that determine the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qverify.inputs.colour import UNVERIFIED
from qverify.inputs.description import Description
from qverify.inputs.formats import REAL, YUV420


def describe_unverified(wanted: Description) -> str:
    """Returns the parts of the description that follow only published facts and were not compared with a vendor's tool,
    or "" if there are none."""
    yuv = wanted.format in YUV420 or wanted.format.startswith("yuv444")
    parts = [f"colour mode {wanted.colour.mode}"] if yuv and wanted.colour.mode in UNVERIFIED else []
    parts += [f"profile {wanted.profile}"] if wanted.profile else []
    return " and ".join([*parts, *(["the resizer"] if wanted.source else [])])


SAME_MATRIX = {"horizon": "bt601"}  # colour modes that have the matrix of another mode


def make_values_key(description: Description) -> dict[str, Any]:
    """Returns the keys that determine how a chip interprets the bytes: format, planes, and how values were converted
    before they were stored. How a picture was fitted matters on the host only, and is left out."""
    key: dict[str, Any] = {
        "format": description.format,
        "planes": description.planes,
        "size_bytes": description.size_bytes,
    }
    if description.format in REAL:
        key |= {**make_normalization_key(description), "quantize": description.quantize}
    elif description.format in YUV420 or description.format.startswith("yuv444"):
        key |= {"mode": (SAME_MATRIX.get(description.colour.mode, description.colour.mode), description.colour.range)}
    return key


def make_normalization_key(description: Description) -> dict[str, Any]:
    """Returns the format that the network was trained on, and mean and scale per channel."""
    channels = 1 if description.gray else 3

    def spread(values: tuple[float, ...]) -> tuple[float, ...]:
        return values * channels if len(values) == 1 else values

    return {"train": description.train, "mean": spread(description.mean), "scale": spread(description.scale)}


def make_fitting_key(description: Description) -> dict[str, Any]:
    """Returns the other keys that determine the bytes of a picture."""
    names = ("library", "interpolation", "resize_dtype", "resize_order", "fit", "roi")
    key: dict[str, Any] = {k: getattr(description, k) for k in names}
    if description.fit.startswith("letterbox"):
        key["fill"] = description.fill
    if description.format in YUV420:
        key |= {"siting": description.colour.siting, "colour_rounding": description.colour.rounding}
    if description.quantize is not None:
        key["rounding"] = description.rounding
    return key


def describe_differences(actual: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Returns a text like `train bgr, wanted rgb` for every key in which the two differ."""
    keys = [k for k in wanted if actual.get(k) != wanted[k]]
    if "format" in keys:  # the planes follow from the format
        keys = [k for k in keys if k not in ("planes", "size_bytes")]
    elif "planes" in keys:
        keys = [k for k in keys if k != "size_bytes"]
    return [f"{k} {_format_value(actual.get(k))}, wanted {_format_value(wanted[k])}" for k in keys]


def _format_value(value: Any) -> str:
    if isinstance(value, tuple | list):
        if value and hasattr(value[0], "aligned_shape"):
            return " ".join(f"{p.name} {list(p.shape)} as {list(p.aligned_shape)}" for p in value)
        return ",".join(f"{v:g}" if isinstance(v, float) else str(v) for v in value)
    return str(value)
