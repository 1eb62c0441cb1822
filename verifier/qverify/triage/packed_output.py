"""The output of a probe as text, so that a report or a capture can contain it."""

from __future__ import annotations

import base64
import zlib

import numpy as np

from qverify.triage.case import Array


def pack_output(output: Array) -> str:
    """Returns a probe's output as text: base64 of its zlib-compressed little-endian bytes."""
    little = np.ascontiguousarray(output, output.dtype.newbyteorder("<"))
    return base64.b64encode(zlib.compress(little.tobytes(), 9)).decode()


def unpack_output(text: str, like: Array) -> Array:
    """Returns the output in the shape and dtype of `like`. Raises ValueError if the text is not such an output."""
    try:
        data = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), like.nbytes + 1)
    except zlib.error as error:
        raise ValueError(f"an output that cannot be read: {error}") from error
    if len(data) != like.nbytes:
        raise ValueError(f"an output of {len(data)} bytes, wanted {like.nbytes}")
    return np.frombuffer(data, like.dtype.newbyteorder("<")).reshape(like.shape).astype(like.dtype)
