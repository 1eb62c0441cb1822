"""Mod -> mod, of integers; fmod=1 (and with it every float) is refused."""

from __future__ import annotations

from typing import Any

from qverify.compiler.attributes import only
from qverify.compiler.float_stream import FloatStream
from qverify.compiler.lowerings.elementwise_integer import INTEGERS, check_divisors
from qverify.errors import UnsupportedError

ONNX_TYPES = {"Mod": {"fmod": only(0)}}


def lower_float(stream: FloatStream, node: Any) -> None:
    dtype = stream.view.dtype(node.output[0])
    if dtype not in INTEGERS:
        raise UnsupportedError(f"{node.name} (Mod): on {dtype}; wanted {' or '.join(INTEGERS)}")
    check_divisors(stream, node)
    stream.builder.node("mod", [stream.source(n) for n in node.input], stream.declare(node))
