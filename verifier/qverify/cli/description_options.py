"""The options that describe the bytes of an input, which every command of `qverify inputs` has."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

CHOICES = {
    "format": "format of the bytes: nv12 nv21 i420 yuv444 yuv444_128 rgb bgr rgba bgra rgb_128 bgr_128 gray gray_128 featuremap raw_s16 raw_f32",
    "size": "WIDTHxHEIGHT",
    "train": "what the network was trained on: rgb bgr gray yuv444 featuremap",
    "mode": "colour: opencv, sigmastar, horizon, bt601, bt709",
    "range": "full or limited (bt601, bt709)",
    "siting": "chroma: top-left or mean (bt601, bt709)",
    "colour-rounding": "half-even, half-away, truncate (bt601, bt709)",
    "library": "library of the resize: cv2 or pillow",
    "interpolation": "of the resize: nearest, linear, cubic, area",
    "resize-dtype": "type in which to resize: uint8 or float32",
    "fit": "stretch, crop, letterbox, letterbox-top-left",
    "roi": "X,Y,W,H: the part of the picture that is used",
    "source": "WIDTHxHEIGHT of the camera's frames, for a resizer input",
    "fill": "value of a letterbox's border, 0 to 255",
    "mean": "one number, or one per channel: 123.7,116.3,103.5",
    "scale": "one number, or one per channel; (x - mean) * scale",
    "std": "one number, or one per channel; 1 / scale",
    "resize-order": "before-normalize or after-normalize",
    "quantize": "SCALE,ZERO of an integer featuremap or raw_s16",
    "quantize-dtype": "type of a quantized featuremap: int8, uint8, int16",
    "rounding": "rounding when quantizing: half-even, half-away, truncate",
    "layout": "NHWC or NCHW",
    "stride": "bytes of a stored row of the first plane, instead of width-align",
    "width-align": "pad rows to a multiple of this many elements",
    "height-align": "pad planes to a multiple of this many rows",
    "innermost-align": "pad the last dimension to a multiple of this many elements",
    "buffer-align": "pad the whole to a multiple of this many bytes",
    "profile": "a vendor's defaults and legal formats: horizon-x5, horizon-j6, sigmastar, axera",
}


def description_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options. The command receives them as `description` (a Description, None if nothing describes the input)
    and `name` (of the input)."""

    @wraps(command)
    def wrapper(toml: str | None, model: str | None, name: str | None, **others: Any) -> int:
        from qverify.session.inputs.merge_descriptions import merge_descriptions

        values = {key: others.pop(key) for key in [k.replace("-", "_") for k in CHOICES]}
        description, input_name = merge_descriptions(
            {k: v for k, v in values.items() if v is not None}, toml, model, name
        )
        return command(description=description, name=input_name, **others)

    for key, text in reversed(CHOICES.items()):
        wrapper = click.option(f"--{key}", help=text)(wrapper)
    wrapper = click.option("--name", help="name of the model input")(wrapper)
    wrapper = click.option("-m", "--model", help="a model.bin that describes its inputs; options override it")(wrapper)
    return click.option(
        "--description", "toml", metavar="FILE", help="TOML or JSON with [inputs.NAME]; options override it"
    )(wrapper)
