"""Profiles of vendors' inputs: defaults for a description, and the pairs of formats that the vendor's converter
accepts."""

from __future__ import annotations

from typing import Any

from qverify.inputs.formats import LEGAL, YUV420

HORIZON = {
    "yuv444": ("nv12", "yuv444", "yuv444_128"),
    **dict.fromkeys(("rgb", "bgr"), ("nv12", "yuv444", "yuv444_128", "rgb", "bgr", "rgb_128", "bgr_128")),
    "gray": ("gray", "gray_128"),
    "featuremap": ("featuremap",),
}
SIGMASTAR = {
    **dict.fromkeys(("rgb", "bgr"), ("nv12", "rgb", "bgr", "rgba", "bgra", "gray", "raw_f32", "raw_s16")),
    "gray": ("gray", "raw_f32", "raw_s16"),
}
# Published facts that were not compared with a vendor's tool. Under "yuv420" are the defaults of 4:2:0 formats only,
# under "raw_s16" those of that format.
PROFILES: dict[str, dict[str, Any]] = {
    "horizon-x5": {"mode": "horizon", "yuv420": {"width_align": 16}},
    "horizon-j6": {"mode": "horizon", "yuv420": {"width_align": 32}},
    "sigmastar": {"mode": "sigmastar", "rounding": "truncate", "raw_s16": {"innermost_align": 8}},
    "axera": {"layout": "NHWC"},
}


def legal(profile: str) -> dict[str, tuple[str, ...]]:
    """Returns the allowed formats of the bytes, by training format."""
    return HORIZON if profile.startswith("horizon") else SIGMASTAR if profile == "sigmastar" else LEGAL


def defaults(profile: str, format_: str) -> dict[str, Any]:
    """Returns a profile's defaults for this format. Raises KeyError for an unknown profile."""
    table = dict(PROFILES[profile])
    yuv, raw = table.pop("yuv420", {}), table.pop("raw_s16", {})
    return table | (yuv if format_ in YUV420 else raw if format_ == "raw_s16" else {})
