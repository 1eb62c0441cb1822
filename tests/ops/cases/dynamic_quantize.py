"""dynamic_quantize: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


def _all_outputs(m: Qdq, x: str) -> None:
    y = m.op("DynamicQuantizeLinear", [x], 3)
    for name in (y, f"{y}_1", f"{y}_2"):
        m.output(name)


@reference(integer=False)
def dynamic_quantization_of_both_signs(m: Qdq) -> None:
    _all_outputs(m, m.op("Tanh", [m.input((2, 5, 7))]))


@reference(integer=False)
def dynamic_quantization_of_one_sign(m: Qdq) -> None:
    _all_outputs(m, m.op("Add", [m.input((3, 11)), m.constant("far", np.float32(9.3))]))


@reference(integer=False)
def dynamic_quantization_of_negatives(m: Qdq) -> None:
    _all_outputs(m, m.op("Sub", [m.input((3, 11)), m.constant("far", np.float32(9.3))]))


def random_nodes(r: RandomNodes) -> None:
    """Both signs, one sign, all zero, ties, the smallest and largest floats, NaN and infinities."""
    floats = r.rng.normal(r.pick(0, 2, -2), 1, (5, 7)) * 10.0 ** r.pick(-3, 0, 4)
    ties = r.rng.choice([-127.5, -0.5, 0.5, 1.5, 2.5, 127.5], (3, 11))
    ties[0, :2] = -127.5, 127.5  # the scale is 1, the zero point a tie
    ends = r.rng.choice([-3.4e38, 3.4e38, 1.0], (3, 5))
    special = r.rng.choice([np.nan, np.inf, -np.inf, 0.0, -1.0, 2.0], (3, 5))
    some = r.rng.choice([np.nan, -1.0, 2.0], (3, 5))
    for value in (floats, np.abs(floats), -np.abs(floats), np.zeros((2, 3)), ties, ends, special, some, floats * 1e-42):
        x = r.plain(value.astype(np.float32))
        made = (r.plain_output("uint8", x.shape), r.plain_output("float32", ()), r.plain_output("uint8", ()))
        r.node("dynamic_quantize", (x,), made)
