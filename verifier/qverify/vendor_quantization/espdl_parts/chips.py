"""Which chip an .espdl is for, and so how its halves are rounded."""

from __future__ import annotations

import json
from dataclasses import dataclass

from qverify.vendor_quantization.espdl_parts.layouts import BLOCKS
from qverify.vendor_quantization.espdl_parts.read_espdl import EspdlModel

HALF_EVEN, HALF_UP = "half even", "half up"
PLATFORMS = (  # beginnings of the names of esp-ppq's platforms, the longest first
    ("ESPDL_S31", "ESP32-S31", HALF_EVEN),
    ("ESPDL_S3", "ESP32-S3", HALF_UP),
    ("ESPDL_C_H_PRE", "ESP32-C, high precision", HALF_UP),
    ("ESPDL_C", "ESP32-C", HALF_UP),
    ("ESPDL", "ESP32-P4", HALF_EVEN),
)


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip: its name, how it rounds halves, and what tells it."""

    name: str
    rounding: str
    reason: str


def find_chip(model: EspdlModel, text: bytes) -> Chip:
    """Returns the chip of a file. text: of the NAME.json beside it, b"" without one. Without it the weights tell: only the
    ESP32-P4 has a scale for each output channel, only the chips without vector instructions have weights without blocks."""
    try:
        platforms = set(json.loads(text)["dispatchings"].values()) if text else set()
        named = {(name, rounding) for p in platforms for name, rounding in [_of_platform(str(p))] if name}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        named = set()
    if len(named) == 1:
        name, rounding = named.pop()
        return Chip(name, rounding, "the .json beside it states it")
    weights = [t for t in model.tensors.values() if t.layout and t.data is not None and len(t.shape) >= 3]
    if any(len(t.exponents) > 1 for t in weights):
        return Chip("ESP32-P4", HALF_EVEN, "weights have a scale for each channel")
    if any(BLOCKS.fullmatch(t.layout) for t in weights):
        return Chip("ESP32-S3", HALF_UP, "weights lie in blocks, with one scale")
    return Chip("ESP32-C", HALF_UP, "weights do not lie in blocks")


def _of_platform(platform: str) -> tuple[str, str]:
    return next(((name, rounding) for start, name, rounding in PLATFORMS if platform.startswith(start)), ("", ""))
