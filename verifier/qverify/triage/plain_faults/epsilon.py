"""A norm adds another epsilon to the variance."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.layer_norm_kernel import NORMS, TITLES, LayerNorm
from qverify.triage.altered_kernels.replaced_kernels import kernel_variant, nodes_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "epsilon"
OPS = NORMS
VALUES = (0.0, *(float(f"{digit}e{power}") for power in range(-12, 1) for digit in (1, 2, 5)))


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, *NORMS)[:1]:
        for value in VALUES:
            kernel = LayerNorm(root=partial(_root, value=value))
            yield kernel_variant(f"{TITLES[node.op]}: epsilon is {value:g}", dict.fromkeys(NORMS, kernel), 6.0)


def _root(variance: Array, eps: float, value: float) -> Array:
    return np.sqrt(variance + value)
