"""The exponential in exp, sigmoid, tanh, elu, softplus, power, float softmax and lrn is an approximation, or has a
shorter range."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from qverify.triage.altered_kernels.approximate_exponentials import exponentials
from qverify.triage.altered_kernels.float_formats import in_float32
from qverify.triage.altered_kernels.replaced_functions import Functions, kernels_with, uses
from qverify.triage.altered_kernels.replaced_kernels import kernel_variant
from qverify.triage.altered_kernels.row_sample import fitting_rows
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant

NAME = "exponential"
LATE = 1
OPS = ("elementwise_float", "softmax_float", "log_softmax", "lrn")


def variants(case: Case) -> Iterator[FaultVariant]:
    if uses(case, "exp"):
        yield from fitting_rows(case, _faults())


def _faults() -> Iterator[FaultVariant]:
    for phrase, function in exponentials().items():
        yield kernel_variant(f"the exponential is computed {phrase}", kernels_with(Functions(exp=function)))
    for phrase, function in exponentials().items():
        if any(sign in phrase for sign in ("polynomial", "^", "/(")):
            text = f"the exponential is computed {phrase}, in float32"
            yield kernel_variant(text, kernels_with(Functions(exp=partial(in_float32, function=function))))
