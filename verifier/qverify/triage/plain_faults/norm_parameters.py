"""A norm leaves out gamma or beta, or applies them in another way, whatever its other float32 arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

from qverify.triage.altered_kernels.layer_norm_kernel import NORMS, LayerNorm, layer_norm_variant, titled
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, nodes_of
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.hypotheses.layer_norm_output import FINISHES

NAME = "norm-parameters"
OPS = NORMS


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, *NORMS)[:1]:
        faults = (layer_norm_variant(text, LayerNorm(finish=finish), LIKELY) for text, finish in FINISHES.items())
        yield from titled(node, faults)
