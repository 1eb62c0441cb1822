"""Drafts descriptions for inputs that have none, as TOML that a person reads and corrects (INPUTS.md section 8)."""

from __future__ import annotations

import json
import re

import numpy as np

from qverify.inputs.described_inputs import layout_of
from qverify.tensors.spec import TensorSpec

Range = tuple[float, float]
NEAR = 0.25  # largest distance of both ends of the input's range from those of a choice, relative to the choice's width
CHOICES: tuple[tuple[Range, str], ...] = (  # range of the values, and the normalization that produces it
    ((0.0, 255.0), "mean = 0, std = 1"),
    ((0.0, 1.0), "mean = 0, std = 255"),
    ((-1.0, 1.0), "mean = 127.5, std = 127.5"),
    ((-128.0, 127.0), "mean = 128, std = 1"),
    ((-2.118, 2.64), "mean = [123.675, 116.28, 103.53], std = [58.395, 57.12, 57.375]"),
    ((-123.68, 151.06), "mean = [123.68, 116.78, 103.94], std = 1"),
)
RAW_FORMATS = {("float32", 3): "raw_f32", ("uint8", 3): "rgb", ("int8", 3): "rgb_128", ("uint8", 4): "rgba"}


def covered_range(quantized: TensorSpec) -> Range:
    """Returns the smallest and the largest real value that a tensor with one scale can represent."""
    limits = np.iinfo(quantized.dtype)
    scale, zero = quantized.scale[0], quantized.zero_point[0]
    return (limits.min - zero) * scale, (limits.max - zero) * scale


def draft_description(name: str, spec: TensorSpec, quantized: TensorSpec | None) -> str:
    """Returns the draft of a description by which the input can be made from pictures, or "" if the input is no picture
    of 1 or 3 channels or has a type that no format has. quantized: the tensor to which a float input is quantized, or
    None if it is not known."""
    layout, whole = layout_of(spec), spec if spec.quantized and len(spec.scale) == 1 else quantized
    if not layout or spec.dtype not in ("float32", "float16", "uint8", *(("int8", "int16") if spec.quantized else ())):
        return ""
    height, width = spec.shape[2:] if layout == "NCHW" else spec.shape[1:3]
    if min(height, width) == 1:  # a signal
        return ""
    gray = spec.shape[1 if layout == "NCHW" else 3] == 1
    size, fit = f'size = "{width}x{height}"', 'fit = "stretch"  # or "crop", "letterbox"'
    if spec.dtype == "uint8" and not spec.quantized:
        return "\n".join([_header(name), f'format = "{"gray" if gray else "rgb"}"', size, fit])
    format_line = 'format = "featuremap"  # (x - mean) / std of each pixel x, 0..255, computed on this host'
    train = 'train = "gray"' if gray else 'train = "rgb"  # or "bgr": the order of channels in training'
    covered = covered_range(whole) if whole is not None else None
    return "\n".join([_header(name), format_line, size, train, fit, *_draft_normalization(covered, gray)])


def draft_layout(name: str, spec: TensorSpec) -> str:
    """Returns the draft of a description for raw bytes in the layout that is not the input's, or "" if no format
    fits."""
    layout = layout_of(spec)
    channels = spec.shape[1 if layout == "NCHW" else 3] if layout else 0
    raw_format = RAW_FORMATS.get((spec.dtype, channels))
    if raw_format is None:
        return ""
    height, width = spec.shape[2:] if layout == "NCHW" else spec.shape[1:3]
    other = "NHWC" if layout == "NCHW" else "NCHW"
    return "\n".join(
        [
            _header(name),
            f'format = "{raw_format}"',
            f'size = "{width}x{height}"',
            f'layout = "{other}"  # of the bytes; the input is {layout}',
            'train = "rgb"  # or "bgr": the order of channels in training',
        ]
    )


def _header(name: str) -> str:
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", name)
    return f"[inputs.{name if bare else json.dumps(name)}]"


def _draft_normalization(covered: Range | None, gray: bool) -> list[str]:
    """Returns lines of TOML with mean and std: the guess, and the other choices as comments."""
    choices = [(ends, text) for ends, text in CHOICES if not (gray and "[" in text)]
    guess = _find_nearest(covered, [ends for ends, _ in choices])
    if covered is None:
        lines = ["# choose what the network was trained with; without a choice the values are 0..255:"]
    else:
        low, high = (f"{v:.4g}" for v in covered)
        end = "GUESSED from it, check it with the training:" if guess is not None else "choose one:"
        lines = [f"# this input's integers cover {low}..{high}; {end}"]
    for at, ((low_end, high_end), text) in enumerate(choices):
        keys = text.replace(", std", "\nstd").split("\n")
        ends = f"  # {low_end:g}..{high_end:g}"
        mark = "" if at == guess else "# "
        lines += [f"{mark}{keys[0]}{ends}", f"{mark}{keys[1]}"]
    return lines


def _find_nearest(covered: Range | None, choices: list[Range]) -> int | None:
    """Returns the index of the choice whose range is near the covered one, or None if there is none."""
    if covered is None:
        return None
    away = [(abs(covered[0] - low) + abs(covered[1] - high)) / (high - low) for low, high in choices]
    at = int(np.argmin(away))
    return at if away[at] <= NEAR else None
