"""Mod -> mod, of int64 or int32 by a constant; fmod=1 (and with it every float) is refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.compiler.attributes import only
from qverify.compiler.float_stream import FloatStream
from qverify.errors import UnsupportedError

ONNX_TYPES = {"Mod": {"fmod": only(0)}}


def lower_float(stream: FloatStream, node: Any) -> None:
    dtype, divisor = stream.view.dtype(node.output[0]), stream.view.constants.get(node.input[1])
    if dtype not in ("int32", "int64"):
        raise UnsupportedError(f"{node.name} (Mod): on {dtype}; only int32 and int64 are supported")
    if divisor is None or np.isin(divisor, (0, -1)).any():
        raise UnsupportedError(
            f"{node.name} (Mod): wanted a constant divisor without 0 and -1, by which no kernel traps"
        )
    stream.builder.node("mod", [stream.source(n) for n in node.input], stream.declare(node))
