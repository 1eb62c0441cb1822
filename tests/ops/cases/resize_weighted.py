"""resize_weighted: reference cases and random nodes."""

from __future__ import annotations

import numpy as np

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes

MODES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


@reference(integer=False)
def cubic_of_every_mode(m: Qdq) -> None:
    """Larger and smaller, with both ways at the border and another coefficient."""
    m.opset = max(m.opset, 19)
    x = m.input((1, 3, 5, 7))
    for at, mode in enumerate(MODES):
        scales = m.constant(f"scales{at}", np.array([1, 1, 2.3, 0.6] if at % 2 else [1, 1, 0.5, 1.7], np.float32))
        more = {"exclude_outside": at % 2, "cubic_coeff_a": -0.5 - 0.25 * (at % 2)}
        y = m.op("Resize", [x, "", scales], mode="cubic", coordinate_transformation_mode=mode, **more)
        m.output(m.quantize(y) if at % 2 else y)


@reference(integer=False)
def cubic_by_sizes(m: Qdq) -> None:
    sizes = m.constant("sizes", np.array([1, 2, 11, 6], np.int64))
    m.output(m.quantize(m.op("Resize", [m.op("Tanh", [m.input((1, 2, 4, 6))]), "", "", sizes], mode="cubic")))


@reference(integer=False)
def antialias(m: Qdq) -> None:
    m.opset = max(m.opset, 18)
    x = m.op("Tanh", [m.input((1, 2, 13, 11))])
    for at, mode in enumerate(("linear", "cubic", "linear", "cubic")):
        scales = m.constant(f"scales{at}", np.array([1, 1, 0.3, 0.6] if at < 2 else [1, 1, 1.5, 0.4], np.float32))
        m.output(m.op("Resize", [x, "", scales], mode=mode, antialias=1, exclude_outside=at % 2))


def random_nodes(r: RandomNodes) -> None:
    rows, columns, high, wide, taps_y, taps_x = 5, 7, r.pick(1, 3, 11), r.pick(4, 13), r.pick(1, 4, 6), r.pick(1, 4)
    index = np.concatenate([r.rng.integers(0, n, t * m) for n, t, m in ((rows, taps_y, high), (columns, taps_x, wide))])
    tables = r.constant(index.astype(np.int32)), r.constant(r.rng.normal(size=len(index)).astype(np.float32))
    x = r.floats((2, 3, rows, columns))
    r.node("resize_weighted", (x, *tables), r.float_output((2, 3, high, wide)), (taps_y, taps_x))
    ends = r.plain(r.rng.choice([np.inf, -np.inf, np.nan, 1.0, 3e38], (rows, columns)).astype(np.float32))
    r.node("resize_weighted", (ends, *tables), r.float_output((high, wide)), (taps_y, taps_x))
