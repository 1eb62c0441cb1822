"""The options that say what an input's bytes are, the same on every command of `qverify inputs`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

CHOICES = {
    "format": "of the bytes: nv12 nv21 i420 yuv444 yuv444_128 rgb bgr rgba bgra rgb_128 bgr_128 gray gray_128 featuremap raw_s16 raw_f32",
    "size": "WIDTHxHEIGHT",
    "train": "what the network was trained on: rgb bgr gray yuv444 featuremap",
    "mode": "colour: opencv, sigmastar, horizon, bt601, bt709",
    "range": "full or limited (bt601, bt709)",
    "siting": "chroma: top-left or mean (bt601, bt709)",
    "colour-rounding": "half-even, half-away, truncate (bt601, bt709)",
    "library": "of the resize: cv2 or pillow",
    "interpolation": "nearest, linear, cubic, area",
    "resize-dtype": "uint8 or float32",
    "fit": "stretch, crop, letterbox, letterbox-top-left",
    "roi": "X,Y,W,H: the part of the picture that is used",
    "source": "WIDTHxHEIGHT of the camera's frames, for a resizer input",
    "fill": "of a letterbox, 0 to 255",
    "mean": "one number, or one a channel: 123.7,116.3,103.5",
    "scale": "as mean; (x - mean) * scale",
    "std": "as mean; 1 / scale",
    "resize-order": "before-normalize or after-normalize",
    "quantize": "SCALE,ZERO of an integer featuremap or raw_s16",
    "quantize-dtype": "of a quantized featuremap: int8, uint8, int16",
    "rounding": "of quantizing: half-even, half-away, truncate",
    "layout": "NHWC or NCHW",
    "stride": "bytes of a stored row of the first plane, instead of width-align",
    "width-align": "multiple, in elements",
    "height-align": "multiple, in rows",
    "innermost-align": "multiple of the last dimension, in elements",
    "buffer-align": "multiple of the whole, in bytes",
    "profile": "a vendor's defaults and legal formats: horizon-x5, horizon-j6, sigmastar, axera",
}


def describing(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options; the command gets them as `wanted` (Description, None where nothing was said) and `name`."""

    @wraps(command)
    def gathered(toml: str | None, model: str | None, name: str | None, **given: Any) -> int:
        from qverify.session.inputs.merge_descriptions import description

        said = {key: given.pop(key) for key in [k.replace("-", "_") for k in CHOICES]}
        wanted, called = description({k: v for k, v in said.items() if v is not None}, toml, model, name)
        return command(wanted=wanted, name=called, **given)

    for key, text in reversed(CHOICES.items()):
        gathered = click.option(f"--{key}", help=text)(gathered)
    gathered = click.option("--name", help="of the model input")(gathered)
    gathered = click.option("-m", "--model", help="a model.bin that describes its inputs; options win over it")(
        gathered
    )
    return click.option(
        "--description", "toml", metavar="FILE", help="TOML or JSON with [inputs.NAME]; options win over it"
    )(gathered)
