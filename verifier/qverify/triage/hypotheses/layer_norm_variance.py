"""Layer norm computes the variance by another formula (in one pass, without subtracting the mean, in a narrow format),
or uses epsilon in another way (left out, in another place, another value)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.float_formats import FIXED, FORMATS, Format, exactly
from qverify.triage.altered_kernels.layer_norm_kernel import (
    NORMS,
    LayerNorm,
    layer_norm_variant,
    mean_of,
    root_of,
    row_length,
    titled,
    variance_of,
)
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, nodes_of
from qverify.triage.altered_kernels.row_sample import fitting_rows
from qverify.triage.altered_kernels.row_sums import narrow_sums, whole
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "layer-norm-variance"
OPS = NORMS
Roots = dict[str, Callable[[Array, float], Array]]
NEGATIVE: dict[str, Callable[[Array], Array]] = {
    "a negative difference counts as 0": lambda v: np.maximum(v, 0.0),
    "a negative difference is taken as it is": exactly,
    "of a negative difference its absolute value": np.abs,
}
ROOTS: Roots = {
    "epsilon is left out": lambda v, eps: np.sqrt(v),
    "epsilon is added after the root": lambda v, eps: np.sqrt(v) + eps,
    "epsilon is added after the root and before it": lambda v, eps: np.sqrt(v + eps) + eps,
    "epsilon's root is added after the root": lambda v, eps: np.sqrt(v) + np.sqrt(eps),
    "epsilon is squared": lambda v, eps: np.sqrt(v + eps * eps),
    "epsilon is subtracted": lambda v, eps: np.sqrt(v - eps),
    "the larger of variance and epsilon instead of their sum": lambda v, eps: np.sqrt(np.maximum(v, eps)),
    "the larger of deviation and epsilon": lambda v, eps: np.maximum(np.sqrt(v), eps),
    "the root is not taken (division by the variance)": lambda v, eps: v + eps,
    "no division by the deviation": lambda v, eps: np.ones_like(v),
    "the rows are multiplied by the deviation instead of divided": lambda v, eps: 1.0 / np.sqrt(v + eps),
    "variance and epsilon are added in float32": lambda v, eps: np.sqrt(v.astype(np.float32) + np.float32(eps)).astype(
        float
    ),
}
LEAST: dict[str, Callable[[Array, float, float], Array]] = {
    "a variance below {0} counts as {0}, and epsilon is not added": lambda v, eps, m: np.sqrt(np.maximum(v, m)),
    "a variance below {0} counts as {0} before epsilon is added": lambda v, eps, m: np.sqrt(np.maximum(v, m) + eps),
    "variance and epsilon below {0} count as {0}": lambda v, eps, m: np.sqrt(np.maximum(v + eps, m)),
    "a deviation below {0} counts as {0}": lambda v, eps, m: np.maximum(np.sqrt(v + eps), m),
    "a variance below {0} counts as 1": lambda v, eps, m: np.where(v < m, 1.0, np.sqrt(v + eps)),
}
FACTORS = (10.0, 0.1, 100.0, 0.01, 1000.0, 0.001, 2.0, 0.5)
VALUES = (1e-3, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-12, 1e-4, 1e-2, 1.0)


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, *NORMS)[:1]:
        depth = row_length(node, case.graph.spec(node.inputs[0] or "").shape)
        yield from fitting_rows(case, titled(node, _faults(depth)))


def _faults(depth: int) -> Iterator[FaultVariant]:
    yield from _throughout()
    yield from _formulas(depth)
    for phrase, root in ROOTS.items():
        yield layer_norm_variant(phrase, LayerNorm(root=root), LIKELY)
    for value in (
        1.0,
        0.1,
        0.01,
        0.001,
        1e-4,
        1e-5,
        1e-6,
        0.5,
        0.25,
        0.125,
        2.0**-8,
        2.0**-10,
        2.0**-12,
        2.0**-14,
        2.0**-16,
    ):
        for phrase, least in LEAST.items():
            yield layer_norm_variant(phrase.format(f"{value:g}"), LayerNorm(root=bind_last(least, value)))
    for power in range(-6, 17):
        text = f"the variance saturates at {2.0**power:g}"
        yield layer_norm_variant(
            text, LayerNorm(root=bind_last(lambda v, eps, m: np.sqrt(np.minimum(v, m) + eps), 2.0**power))
        )
    for factor in FACTORS:
        yield layer_norm_variant(
            f"epsilon is {factor:g} times as large", LayerNorm(root=partial(_scaled, factor=factor))
        )
    for value in VALUES:
        yield layer_norm_variant(f"epsilon is always {value:g}", LayerNorm(root=partial(_fixed, value=value)))
    for phrase, narrow in {**FORMATS, **FIXED}.items():
        yield from _narrow(phrase, narrow)
    yield layer_norm_variant(
        "epsilon is added once for each element (times the depth)",
        LayerNorm(root=partial(_scaled, factor=float(depth))),
    )
    yield layer_norm_variant("epsilon is divided by the depth", LayerNorm(root=partial(_scaled, factor=1.0 / depth)))


def _throughout() -> Iterator[FaultVariant]:
    """Yields layer norms that are computed in a narrower format from the sums to the result."""
    for text, dtype in (("float32", np.float32), ("float16", np.float16)):
        for product, multiply in (("", False), (", by 1/deviation", True)):
            for formula, variance in (("", variance_of), (", the variance as E[x*x] - E[x]*E[x]", _one_pass_of)):
                root = _inverse_root if multiply else root_of
                normalize = np.multiply if multiply else np.divide
                kernel = LayerNorm(root=root, variance=variance, normalize=normalize, dtype=dtype)
                yield layer_norm_variant(f"all of it is computed in {text}{product}{formula}", kernel)


def _inverse_root(variance: Array, eps: float) -> Array:
    return 1 / np.sqrt(variance + eps)


def _one_pass_of(rows: Array, mean: Array) -> Array:
    return np.maximum(mean_of(rows * rows) - mean * mean, 0)


def _one_pass_formulas(depth: int) -> Iterator[FaultVariant]:
    one_pass = "the variance is computed in one pass, as E[x*x] - E[x]*E[x]"
    for phrase, repair in NEGATIVE.items():
        yield layer_norm_variant(
            f"{one_pass}, in float64; {phrase}", LayerNorm(variance=partial(_one_pass, repair=repair))
        )
        for name, narrow in FORMATS.items():
            text = f"{one_pass}, both terms rounded to {name} before they are subtracted; {phrase}"
            yield layer_norm_variant(text, LayerNorm(variance=partial(_one_pass, narrow=narrow, repair=repair)))
            text = f"{one_pass}, E[x*x] and E[x] rounded to {name}; {phrase}"
            kept = partial(_one_pass, narrow=narrow, mean=narrow, product=exactly, repair=repair)
            yield layer_norm_variant(text, LayerNorm(variance=kept))
            text = f"{one_pass}, E[x*x] and E[x] and its square rounded to {name}; {phrase}"
            yield layer_norm_variant(
                text, LayerNorm(variance=partial(_one_pass, narrow=narrow, mean=narrow, repair=repair))
            )
            text = f"{one_pass}, E[x*x], E[x], its square and the difference rounded to {name}; {phrase}"
            after = bind_last(lambda v, f, r: r(f(v)), narrow, repair)
            yield layer_norm_variant(
                text, LayerNorm(variance=partial(_one_pass, narrow=narrow, mean=narrow, repair=after))
            )
            text = f"{one_pass}, E[x*x] and E[x] and its square rounded to {name}, the rows taken less the rounded mean; {phrase}"
            yield layer_norm_variant(
                text,
                LayerNorm(
                    mean=partial(_rounded_mean, narrow=narrow),
                    variance=partial(_one_pass, narrow=narrow, mean=narrow, repair=repair),
                ),
            )
        for of in narrow_sums(depth):
            mean = partial(_by, total=of.total)
            text = f"{one_pass}, the sums formed {of.text}; {phrase}"
            yield layer_norm_variant(
                text, LayerNorm(mean=mean, variance=partial(_one_pass, mean_of=mean, repair=repair))
            )
            text = f"{one_pass}, the sums for it formed {of.text}; {phrase}"
            yield layer_norm_variant(text, LayerNorm(variance=partial(_one_pass, mean_of=mean, repair=repair)))
        for format_, dtype in (("float32", np.float32), ("float16", np.float16)):
            for lanes in (1, 4, 8, 2, 16):
                by = f" in {lanes} partial sums" if lanes > 1 else ""
                text = f"{one_pass}, all of it in {format_}{by} (squares, sums, means, their difference); {phrase}"
                variance = partial(_one_pass_in, dtype=dtype, lanes=lanes, repair=repair)
                yield layer_norm_variant(text, LayerNorm(variance=variance), LIKELY)
                mean = partial(_mean_in, dtype=dtype, lanes=lanes)
                text = f"{text}; the rows are taken less the mean in {format_}"
                yield layer_norm_variant(text, LayerNorm(mean=mean, variance=variance), LIKELY)


def _formulas(depth: int) -> Iterator[FaultVariant]:
    yield from _one_pass_formulas(depth)
    yield layer_norm_variant(
        "the mean is not subtracted, in variance nor result (root mean square)", LayerNorm(mean=_zero)
    )
    yield layer_norm_variant(
        "the mean is subtracted, from the result and for the variance", LayerNorm(mean=partial(_by, total=whole))
    )
    yield layer_norm_variant(
        "the mean is subtracted from the result, not for the variance",
        LayerNorm(mean=partial(_by, total=whole), variance=lambda r, m: mean_of(r * r)),
    )
    yield layer_norm_variant(
        "the mean is subtracted for the variance only",
        LayerNorm(mean=_zero, variance=lambda r, m: variance_of(r, mean_of(r))),
    )
    yield layer_norm_variant(
        "the mean of the values, not of their squares, is taken for the variance",
        LayerNorm(variance=lambda r, m: mean_of(r) ** 2),
    )
    yield layer_norm_variant(
        "the sum of squares is not divided by the depth",
        LayerNorm(variance=lambda r, m: mean_of((r - m) ** 2) * r.shape[1]),
    )
    yield layer_norm_variant(
        "the mean is not subtracted for the variance", LayerNorm(variance=lambda r, m: mean_of(r * r))
    )
    yield layer_norm_variant(
        "the mean is subtracted for the variance, not from the result",
        LayerNorm(variance=lambda r, m: variance_of(r, mean_of(r)), mean=_zero),
    )
    yield layer_norm_variant(
        "the mean absolute deviation instead of the deviation",
        LayerNorm(root=lambda v, eps: v + eps, variance=lambda r, m: mean_of(np.abs(r - m))),
    )
    yield layer_norm_variant(
        "the largest absolute deviation instead of the deviation",
        LayerNorm(root=lambda v, eps: v, variance=lambda r, m: np.abs(r - m).max(1, keepdims=True)),
    )


def _by(rows: Array, total: Callable[[Array], Array]) -> Array:
    return total(rows)[:, None] / rows.shape[1]


def _one_pass(
    rows: Array,
    _: Array,
    narrow: Format = exactly,
    mean: Format = exactly,
    repair: Format = exactly,
    mean_of: Callable[[Array], Array] = mean_of,
    product: Format | None = None,
) -> Array:
    first, squares = mean(mean_of(rows)), mean_of(rows * rows)
    return repair(narrow(squares) - (narrow if product is None else product)(first * first))


def _total_in(rows: Array, lanes: int) -> Array:
    """Returns the sum of each row in the dtype of the rows, [rows, 1], computed from partial sums that are added in
    order."""
    total = whole(rows[:, ::lanes])
    for k in range(1, min(lanes, rows.shape[1])):
        total = total + whole(rows[:, k::lanes])
    return total[:, None]


def _mean_in(rows: Array, dtype: type, lanes: int) -> Array:
    return (_total_in(rows.astype(dtype), lanes) / dtype(rows.shape[1])).astype(np.float64)


def _one_pass_in(rows: Array, _: Array, dtype: type, lanes: int, repair: Format) -> Array:
    narrow: Array = rows.astype(dtype)
    size = dtype(rows.shape[1])
    mean, squares = _total_in(narrow, lanes) / size, _total_in(narrow * narrow, lanes) / size
    return repair((squares - mean * mean).astype(np.float64))


def _zero(rows: Array) -> Array:
    return np.zeros((len(rows), 1))


def _scaled(variance: Array, eps: float, factor: float) -> Array:
    return root_of(variance, eps * factor)


def _fixed(variance: Array, eps: float, value: float) -> Array:
    return root_of(variance, value)


def _narrow(text: str, narrow: Format) -> Iterator[FaultVariant]:
    for what, kernel in {
        "the mean": LayerNorm(mean=partial(_rounded_mean, narrow=narrow)),
        "the mean, for the result only,": LayerNorm(
            mean=partial(_rounded_mean, narrow=narrow), variance=lambda r, m: variance_of(r, mean_of(r))
        ),
        "the variance": LayerNorm(variance=lambda r, m: narrow(variance_of(r, m))),
        "mean and variance": LayerNorm(
            mean=partial(_rounded_mean, narrow=narrow), variance=lambda r, m: narrow(variance_of(r, m))
        ),
        "every deviation, for the variance,": LayerNorm(variance=lambda r, m: mean_of(narrow(r - m) ** 2)),
        "every squared deviation": LayerNorm(variance=lambda r, m: mean_of(narrow((r - m) ** 2))),
        "epsilon": LayerNorm(root=lambda v, eps: np.sqrt(v + narrow(np.array(eps)))),
        "the sum of variance and epsilon": LayerNorm(root=lambda v, eps: np.sqrt(narrow(v + eps))),
    }.items():
        yield layer_norm_variant(f"{what} is rounded to {text}", kernel)


def _rounded_mean(rows: Array, narrow: Format) -> Array:
    return narrow(mean_of(rows))
