"""Layer norm adds up only a part of a row, in a narrower accumulator or in another order, or divides the sum by another
number, for the mean, for the variance or for both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from qverify.triage.altered_kernels.layer_norm_kernel import NORMS, LayerNorm, row_length, titled
from qverify.triage.altered_kernels.replaced_kernels import kernel_variant, nodes_of
from qverify.triage.altered_kernels.row_sample import fitting_rows
from qverify.triage.altered_kernels.row_sums import (
    RowSum,
    divisors,
    narrow_sums,
    partial_sums,
    reciprocal_divisors,
    whole,
)
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "layer-norm-sums"
OPS = NORMS
Mean = Callable[[Array], Array]


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, *NORMS)[:1]:
        depth = row_length(node, case.graph.spec(node.inputs[0] or "").shape)
        yield from fitting_rows(case, titled(node, _faults(depth)))


def _faults(depth: int) -> Iterator[FaultVariant]:
    for part in partial_sums(depth):
        yield from _yield_mean_and_variance(
            f"the sum of a row takes part of it: {part.text}",
            partial(_mean, of=part),
            "divided by the whole depth",
            part.bits,
        )
        counted = partial(_mean, of=part, divisor=part.size(depth))
        yield from _yield_mean_and_variance(
            f"the sum of a row takes part of it: {part.text}",
            counted,
            "divided by the number of elements added",
            part.bits + 1,
        )
    for of in narrow_sums(depth):
        yield from _yield_mean_and_variance(f"a row is summed {of.text}", partial(_mean, of=of), "", of.bits)
    for text, divisor in divisors(depth).items():
        yield from _yield_mean_and_variance(
            f"the sum of a row is divided by {text} ({divisor:g}) instead of its depth",
            partial(_divided, divisor=divisor),
            bits=5.0 if text.startswith(("depth - 1", "the power of two below")) else 7.0,
        )
    for text, divisor in reciprocal_divisors(depth).items():
        yield from _yield_mean_and_variance(
            f"the sum of a row is multiplied by {text}", partial(_divided, divisor=divisor), bits=7.0
        )


def _yield_mean_and_variance(text: str, mean: Mean, more: str = "", bits: float = 0.0) -> Iterator[FaultVariant]:
    more = f" ({more})" if more else ""
    for where, kernel in {
        "for the variance": LayerNorm(variance=partial(_variance, mean_of=mean)),
        "for the mean (the variance taken around it)": LayerNorm(mean=mean),
        "for mean and variance": LayerNorm(mean=mean, variance=partial(_variance, mean_of=mean)),
        "for the mean (the variance around the true mean)": LayerNorm(mean=mean, variance=_around_the_true_mean),
    }.items():
        yield kernel_variant(f"layer norm, {where}: {text}{more}", dict.fromkeys(NORMS, kernel), bits)


def _mean(rows: Array, of: RowSum, divisor: float = 0.0) -> Array:
    return of.total(rows)[:, None] / (divisor or rows.shape[1])


def _divided(rows: Array, divisor: float) -> Array:
    return whole(rows)[:, None] / divisor


def _variance(rows: Array, mean: Array, mean_of: Mean) -> Array:
    return mean_of((rows - mean) ** 2)


def _around_the_true_mean(rows: Array, _: Array) -> Array:
    mean = whole(rows)[:, None] / rows.shape[1]
    return whole((rows - mean) ** 2)[:, None] / rows.shape[1]
