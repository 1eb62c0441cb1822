"""lrn: reference cases and random nodes."""

from __future__ import annotations

from qverify.compiler.builder import float_word

from tests.ops.qdq import Qdq, reference
from tests.ops.random_nodes import RandomNodes


@reference(integer=False)
def lrn(m: Qdq) -> None:
    m.output(m.quantize(m.op("LRN", [m.input((1, 11, 3, 5))], size=5, alpha=0.01, beta=0.75, bias=1.0)))


def random_nodes(r: RandomNodes) -> None:
    words = (5, float_word(1e-4), float_word(0.75), float_word(1.0))
    r.node("lrn", (r.floats((2, 7, 5, 11)),), r.float_output((2, 7, 5, 11)), words)
