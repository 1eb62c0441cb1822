"""yuv_to_rgb: random nodes."""

from __future__ import annotations

from tests.ops.random_nodes import RANGE, RandomNodes

NO_REFERENCE = "onnxruntime has no such operator: bytes a chip is fed; tests/ops/test_preprocessing.py holds it"


def random_nodes(r: RandomNodes) -> None:
    dtype, shape = r.type(), (1, 3, r.pick(1, 4, 9), r.pick(1, 6, 11))
    x = r.plain(r.rng.integers(*RANGE[dtype], shape, endpoint=True).astype(dtype))
    matrix = [int(v) for v in r.rng.integers(-(1 << 24), 1 << 24, 9)]
    words = (r.pick(1, 20, 24), r.pick(-255, 0), 16, r.pick(0, 128), -5, *matrix)
    r.node("yuv_to_rgb", (x,), r.plain_output("uint8", shape), words)
