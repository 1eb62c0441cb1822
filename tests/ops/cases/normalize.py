"""normalize: random nodes."""

from __future__ import annotations

from qverify.compiler.builder import float_word

from tests.ops.random_nodes import RANGE, RandomNodes

NO_REFERENCE = "onnxruntime has no such operator: bytes a chip is fed; tests/ops/test_preprocessing.py holds it"


def random_nodes(r: RandomNodes) -> None:
    dtype, shape = r.type("uint8", "int8", "int16"), (1, 3, r.pick(1, 4, 9), r.pick(1, 6, 11))
    x = r.plain(r.rng.integers(*RANGE[dtype], shape, endpoint=True).astype(dtype))
    words = [float_word(float(v)) for v in r.rng.uniform(-200, 200, 6)]
    r.node("normalize", (x,), r.float_output(shape), tuple(words))
