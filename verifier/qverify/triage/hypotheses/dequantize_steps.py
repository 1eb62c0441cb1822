"""Dequantize multiplies in another way (two products, a fused one, another order), rounds scale or result to a narrower
format, or leaves out the zero point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from qverify.arithmetic import float32, functions64
from qverify.model_bin.graph import Graph, Node
from qverify.ops.quantize import as_quantized, parameters
from qverify.tensors.spec import TensorSpec
from qverify.triage.altered_kernels.channel_choice import channel_choices
from qverify.triage.altered_kernels.float_formats import DECIMAL, FIXED, FORMATS, Format, flushed, rarity
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, kernel_variant, nodes_of
from qverify.triage.case import Array, Case, UnitChange
from qverify.triage.hypotheses import FaultVariant

NAME = "dequantize-steps"
COPIES = ("concat", "where")
OPS = ("dequantize", *COPIES)
F = np.float32
Real = Callable[[Array, Array, Array], Array]  # real values of integers, scale (float32) and zero point
WAYS: dict[str, Real] = {
    "as q*scale - zero*scale in float32, both products rounded": lambda q, s, z: q.astype(F) * s - z.astype(F) * s,
    "as q*scale - zero*scale with one product rounded (fused multiply-add of q)": lambda q, s, z: float32.fma32(
        q.astype(F), s, -(z.astype(F) * s)
    ),
    "as q*scale - zero*scale with one product rounded (fused multiply-add of the zero point)": lambda q, s, z: (
        float32.fma32(-z.astype(F), s, q.astype(F) * s)
    ),
    "with scale and zero point in float64": lambda q, s, z: (q - z) * s.astype(float),
    "without the zero point": lambda q, s, z: q.astype(F) * s,
    "with the zero point added": lambda q, s, z: (q + z).astype(F) * s,
    "with the zero point subtracted after the product": lambda q, s, z: q.astype(F) * s - z.astype(F),
    "as (zero - q)*scale": lambda q, s, z: (z - q).astype(F) * s,
    "as (q - zero)/(1/scale) in float32": lambda q, s, z: (q - z).astype(F) / (F(1) / s),
    "as (q - zero)/scale": lambda q, s, z: (q - z).astype(F) / s,
    "without the scale": lambda q, s, z: (q - z).astype(F),
    "with q - zero wrapped to 8 bits": lambda q, s, z: (((q - z + 128) & 255) - 128).astype(F) * s,
    "with q - zero saturated to 8 bits": lambda q, s, z: np.clip(q - z, -128, 127).astype(F) * s,
    "with q - zero saturated to -127..127": lambda q, s, z: np.clip(q - z, -127, 127).astype(F) * s,
    "with q - zero wrapped to 16 bits": lambda q, s, z: (((q - z + 32768) & 65535) - 32768).astype(F) * s,
    "with q - zero saturated to 16 bits": lambda q, s, z: np.clip(q - z, -32768, 32767).astype(F) * s,
    "with subnormal results flushed to zero": lambda q, s, z: flushed((q - z).astype(F) * s),
    "with the scale as the power of two nearest": lambda q, s, z: (
        (q - z) * 2.0 ** np.rint(functions64.log2(s.astype(float)))
    ),
    "with the scale as the power of two below": lambda q, s, z: (
        (q - z) * 2.0 ** np.floor(functions64.log2(s.astype(float)))
    ),
    "plus half a step": lambda q, s, z: (q - z).astype(F) * s + F(0.5) * s,
}


def variants(case: Case) -> Iterator[FaultVariant]:
    nodes = nodes_of(case, "dequantize")
    copied = case.last.op in COPIES and case.spec.quantized and len(case.unit.nodes) == 1
    if not nodes and not copied:
        return
    for text, way, bits in _ways():
        if nodes:
            yield kernel_variant(f"dequantize: computed {text}", {"dequantize": partial(_kernel, way=way)}, bits)
        else:
            yield FaultVariant(
                f"requantizing in {case.last.op}: the real value is computed {text}", partial(_copy, way=way), bits
            )
    for node in nodes[:1]:
        scales = len(case.graph.spec(node.inputs[0] or "").scale)
        for text, choice in (channel_choices(scales) if scales > 1 else {}).items():
            yield kernel_variant(
                f"dequantize: scale and zero point are those of {text}",
                {"dequantize": partial(_with_channel_choice, choice=choice)},
            )
            yield kernel_variant(
                f"dequantize: the scale is that of {text}",
                {"dequantize": partial(_with_channel_choice, choice=choice, zero=False)},
            )


def _ways() -> Iterator[tuple[str, Real, float]]:
    for text, way in WAYS.items():
        yield text, way, LIKELY
    for text, narrow in {**FORMATS, **FIXED, **DECIMAL}.items():
        if text != "float32":
            yield f"with the scale rounded to {text}", partial(_rounded, scale=narrow), 8.0 + rarity(text)
            yield f"with the result rounded to {text}", partial(_rounded, result=narrow), 8.0 + rarity(text)
            yield f"with scale and result rounded to {text}", partial(_rounded, scale=narrow, result=narrow), 9.0
            yield f"with q*scale and zero*scale rounded to {text}", partial(_two, narrow=narrow), 9.0
            yield f"with zero*scale rounded to {text}", partial(_two, narrow=narrow, both=False), 9.0


def _rounded(q: Array, s: Array, z: Array, scale: Format | None = None, result: Format | None = None) -> Array:
    s = s if scale is None else scale(s.astype(float)).astype(F)
    value = (q - z).astype(F) * s
    return value if result is None else result(value.astype(float))


def _two(q: Array, s: Array, z: Array, narrow: Format, both: bool = True) -> Array:
    product, offset = (q * s).astype(float), narrow(z * s.astype(float))
    return (narrow(product) if both else product).astype(F) - offset.astype(F)


def _kernel(node: Node, inputs: list[Array], graph: Graph, way: Real) -> Array:
    scale, zero = parameters(graph.spec(node.inputs[0] or ""))
    return way(inputs[0].astype(np.int64), scale, zero.astype(np.int64))


def _with_channel_choice(node: Node, inputs: list[Array], graph: Graph, choice: Array, zero: bool = True) -> Array:
    x = graph.spec(node.inputs[0] or "")
    of = replace(
        x,
        scale=tuple(x.scale[i] for i in choice),
        zero_point=tuple(x.zero_point[i] for i in choice) if zero else x.zero_point,
    )
    return float32.dequantize(inputs[0], *parameters(of))


def _copy(case: Case, way: Real) -> Array:
    """Returns the output of a copy whose inputs are dequantized in this way and quantized as the output is."""
    inputs, specs, y = dict[str, Array](), dict[str, TensorSpec](), case.spec
    for name in case.unit.inputs:
        x = case.graph.spec(name)
        if x.quantized and as_quantized(case.inputs[name], x, y) is not case.inputs[name]:
            scale, zero = parameters(x)
            real = way(case.inputs[name].astype(np.int64), scale, zero.astype(np.int64)).astype(F)
            inputs[name] = float32.quantize(real, *parameters(y), y.dtype)
            specs[name] = replace(x, scale=y.scale, zero_point=y.zero_point, dtype=y.dtype, channel_axis=y.channel_axis)
    return case.recompute(UnitChange(inputs=inputs, specs=specs))
