"""half_float: reference cases and random nodes."""

from __future__ import annotations

import numpy as np
from onnx import helper

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes

FLOAT, FLOAT16 = 1, 10


@reference(integer=False)
def casts_to_float16_and_back(m: Qdq) -> None:
    x = m.op("Sub", [m.input((3, 5, 7)), m.input((5, 7))])
    m.output(m.op("Cast", [m.op("Cast", [x], to=FLOAT16)], to=FLOAT))


@reference(integer=False)
def products_of_float16(m: Qdq) -> None:
    w = m.constant("w", m.rng.normal(size=(7, 4)).astype(np.float16))
    y = m.op("MatMul", [m.op("Cast", [m.input((5, 7))], to=FLOAT16), w])
    m.output(m.quantize(m.op("Cast", [m.op("Sigmoid", [y])], to=FLOAT)))


@reference(integer=False)
def ends_of_float16(m: Qdq) -> None:
    """A float16 input, and an output that is quantized by a float16 scale."""
    m.inputs.append(helper.make_tensor_value_info("half", FLOAT16, (5, 7)))
    m.feed["half"] = m.rng.normal(size=(5, 7)).astype(np.float16)
    y = m.op("Add", [m.input((5, 7)), m.op("Cast", ["half"], to=FLOAT)])
    m.output(m.op("Cast", [m.quantize(y)], to=FLOAT16))


def random_nodes(r: RandomNodes) -> None:
    """Normal, subnormal and overflowing values, every tie there is, and every float16 with all its NaNs."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = ((halves[1:] + halves[:-1]) / 2).astype(np.float32)
    picked = r.rng.choice(ties, 999) * r.rng.choice([-1, 1], 999).astype(np.float32)
    near = np.nextafter(picked, r.rng.choice([np.inf, -np.inf], 999).astype(np.float32))
    ends = np.array([0, -0.0, np.inf, -np.inf, np.nan, 65519.996, 65520, -65520, 2**-25, 2**-26, 1e-45], np.float32)
    for values in (picked, near, ends, r.rng.normal(0, 100, 999).astype(np.float32)):
        for dtype in ("float32", "float16"):
            r.node("half_float", (r.plain(values.astype(np.float32)),), r.plain_output(dtype, (len(values),)), ())
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    r.node("half_float", (r.plain(every),), r.float_output(every.shape), ())
