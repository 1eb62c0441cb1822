"""Converts pixels to the aligned bytes of a runtime format: all steps of INPUTS.md after reading the file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy.typing as npt

from qverify.inputs.buffers import arrange_planes, pack
from qverify.inputs.description import Description
from qverify.inputs.pixel_values import make_elements, normalize, quantize
from qverify.inputs.resize import fit_picture

Array = npt.NDArray[Any]


def encode_picture(pixels: Array, wanted: Description) -> bytes:
    """Returns the buffer of a picture, with zero padding. pixels: uint8 (H, W, C) as they were read, of any size."""
    if wanted.resize_order == "before-normalize":
        values = make_elements(fit_picture(pixels, wanted), wanted)
    else:
        real = fit_picture(normalize(pixels, wanted), replace(wanted, resize_dtype="float32"))
        values = [quantize(real, wanted)]
    return pack(arrange_planes(values, wanted), wanted)


def encode_fitted(pixels: Array, wanted: Description) -> bytes:
    """Returns the buffer of fitted pixels, RGB or gray, with zero padding."""
    return pack(arrange_planes(make_elements(pixels, wanted), wanted), wanted)
