"""What a vendor's inputs are like unless said otherwise: defaults of a description, and the pairs its converter takes."""

from __future__ import annotations

from typing import Any

from qverify.inputs.description import LEGAL, REAL, YUV420

HORIZON = {
    "yuv444": (*YUV420, "yuv444", "yuv444_128"),
    "rgb": (*YUV420, "yuv444", "yuv444_128", "rgb", "bgr", "rgb_128", "bgr_128"),
    "bgr": (*YUV420, "yuv444", "yuv444_128", "rgb", "bgr", "rgb_128", "bgr_128"),
    "gray": ("gray", "gray_128"),
    "featuremap": REAL,
}
SIGMASTAR = {
    **{train: ("nv12", "rgb", "bgr", "rgba", "bgra", "raw_f32", "raw_s16") for train in ("rgb", "bgr")},
    "gray": ("gray", "raw_f32", "raw_s16"),
}
# Published facts; none was compared with a vendor's tool. Defaults of a 4:2:0 format stand under its name.
PROFILES: dict[str, dict[str, Any]] = {
    "horizon-x5": {"mode": "horizon", "yuv420": {"width_align": 16}},
    "horizon-j6": {"mode": "horizon", "yuv420": {"width_align": 32}},
    "sigmastar": {"mode": "sigmastar", "rounding": "truncate"},
    "axera": {"layout": "NHWC"},
}


def legal(profile: str) -> dict[str, tuple[str, ...]]:
    """Training format to the formats of the bytes."""
    return HORIZON if profile.startswith("horizon") else SIGMASTAR if profile == "sigmastar" else LEGAL


def defaults(profile: str, format_: str) -> dict[str, Any]:
    """KeyError for a profile that is not known."""
    held = dict(PROFILES[profile])
    more = held.pop("yuv420", {})
    return held | (more if format_ in YUV420 else {})
