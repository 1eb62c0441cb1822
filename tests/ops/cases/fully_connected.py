"""fully_connected: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference()
def gemm_transposed_weight(m: Qdq) -> None:
    x, w = m.input((3, 17)), m.weight((11, 17))
    m.output(m.quantize(m.op("Gemm", [x, w, m.bias(x, w, 11)], transB=1), crop=0.8))


@reference()
def gemm_plain_weight(m: Qdq) -> None:
    m.output(m.quantize(m.op("Gemm", [m.input((1, 17)), m.weight((17, 5))])))


@reference(integer=False)
def gemm_to_float(m: Qdq) -> None:
    x, w = m.input((3, 17)), m.weight((17, 11), axis=1)
    m.output(m.op("Gemm", [x, w, m.bias(x, w, 11)], alpha=0.7))


@reference(integer=False)
def gemm_to_float_scaled_bias(m: Qdq) -> None:
    """One float for all columns, times beta."""
    x, w = m.input((3, 17)), m.weight((11, 17), axis=0)
    m.output(m.op("Gemm", [x, w, m.constant("b", np.full((1, 1), 0.7, np.float32))], transB=1, beta=0.3))


@reference(integer=False)
def qgemm_to_float(m: Qdq) -> None:
    """A QGemm that leaves out the parameters of its output."""
    if "16" in m.act:
        return gemm_to_float(m)
    x, w = m.input((3, 17)), m.weight((17, 11))
    base, weight = x.removesuffix("_dq"), w.removesuffix("_dq")
    bias = m.constant("b", m.rng.integers(-3000, 3000, 11).astype(np.int32))
    names = [f"{base}_q", f"{base}_scale", f"{base}_zp", f"{weight}_i8", f"{weight}_scale", f"{weight}_zp", bias]
    m.output(m.op("QGemm", names, domain="com.microsoft", transB=0))
    m.kinds[m.outputs[-1]] = (3, 11)


def _float_nodes(r: RandomNodes, wide: bool) -> None:
    rows, depth, columns = r.pick(1, 3, 9), r.pick(1, 7, 64, 129), r.pick(1, 5, 67, 130)
    x = r.input(r.type("uint16", "int16") if wide else r.type(), (rows, depth))
    channels = r.pick(1, columns)
    whole = r.constant(r.rng.integers(-9000, 9000, columns).astype(np.int64 if wide else np.int32))
    bias = (whole, r.float_bias(columns), None)[r.pick(0, 1, 2)]
    inputs = (x, r.weights(r.type(), (columns, depth), channels), bias, r.real_scales(channels))
    r.node("fully_connected", inputs, r.float_output((rows, columns)), (0, 0))


def random_nodes(r: RandomNodes) -> None:
    _float_nodes(r, wide=False)
    _float_nodes(r, wide=True)
    rows, depth, columns = r.pick(1, 3, 9), r.pick(1, 7, 64, 129), r.pick(1, 5, 67, 130)
    x, weight = r.input(r.type(), (rows, depth)), r.weights(r.type(), (columns, depth), columns)
    bias = r.constant(r.rng.integers(-9000, 9000, columns).astype(np.int32))
    y = r.output(r.type(), (rows, columns))
    r.node("fully_connected", (x, weight, bias, r.rq(depth, columns)), y, r.limits(y.dtype))
