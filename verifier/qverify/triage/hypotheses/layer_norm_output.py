"""Layer norm divides by an approximate root, rounds intermediate values, or applies gamma and beta in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.approximate_roots import reciprocals, rsqrts, sqrts
from qverify.triage.altered_kernels.bind_last import bind_last
from qverify.triage.altered_kernels.channel_choice import channel_choices
from qverify.triage.altered_kernels.float_formats import FORMATS, Format, exactly, flushed
from qverify.triage.altered_kernels.layer_norm_kernel import (
    NORMS,
    LayerNorm,
    affine,
    layer_norm_variant,
    root_of,
    titled,
)
from qverify.triage.altered_kernels.replaced_kernels import LIKELY, nodes_of
from qverify.triage.altered_kernels.row_sample import fitting_rows
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "layer-norm-output"
LATE = 1
OPS = NORMS
Finish = Callable[[Array, Array, Array], Array]


def _plus(y: Array, beta: Array) -> Array:
    return y + beta if beta.size else y


def _times(y: Array, gamma: Array) -> Array:
    return y * gamma if gamma.size else y


FINISHES: dict[str, Finish] = {
    "gamma is left out": lambda y, g, b: _plus(y, b),
    "beta is left out": lambda y, g, b: _times(y, g),
    "gamma and beta are left out": lambda y, g, b: y,
    "beta is added before gamma multiplies": lambda y, g, b: _times(_plus(y, b), g),
    "gamma multiplies twice": lambda y, g, b: affine(_times(y, g), g, b),
    "beta is added twice": lambda y, g, b: _plus(affine(y, g, b), b),
    "beta is subtracted": lambda y, g, b: affine(y, g, -b),
    "gamma divides": lambda y, g, b: affine(y, 1.0 / g, b),
    "1 + gamma multiplies": lambda y, g, b: affine(y, 1.0 + g, b),
    "gamma and beta are exchanged": lambda y, g, b: affine(y, b, g),
    "gamma is taken for beta, too": lambda y, g, b: affine(y, g, g),
    "beta is taken for gamma, too": lambda y, g, b: affine(y, b, b),
    "gamma's absolute value multiplies": lambda y, g, b: affine(y, np.abs(g), b),
    "results below the float32 normal range are 0": lambda y, g, b: flushed(affine(y, g, b)),
    "gamma and beta in one multiply-add in float32 with one rounding": lambda y, g, b: affine(
        y.astype(np.float32).astype(float), g, b
    ),
}


def _of_row(y: Array, gamma: Array, beta: Array) -> Array:
    """Returns the rows times gamma plus beta, where each row uses the elements of these with the row's number."""
    row = np.arange(len(y))[:, None]
    return affine(y, gamma[row % len(gamma)] if gamma.size else gamma, beta[row % len(beta)] if beta.size else beta)


STAGES = ("rows less mean", "root", "normalized", "times gamma", "result")


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, *NORMS)[:1]:
        if node.op != "group_norm":
            of_row = layer_norm_variant("gamma and beta are those of the row's number", LayerNorm(finish=_of_row))
            yield from titled(node, [of_row])
        depth = 1 if node.op == "group_norm" else node.words[0]  # its channels: group_norm_parameters.py
        yield from fitting_rows(case, titled(node, _faults(depth)))


def _faults(depth: int) -> Iterator[FaultVariant]:
    for text, finish in FINISHES.items():
        yield layer_norm_variant(text, LayerNorm(finish=finish), LIKELY)
    for text, choice in channel_choices(depth).items():
        yield layer_norm_variant(
            f"gamma and beta are those of {text}", LayerNorm(finish=partial(_chosen, gamma_at=choice, beta_at=choice))
        )
        yield layer_norm_variant(f"gamma is that of {text}", LayerNorm(finish=partial(_chosen, gamma_at=choice)))
        yield layer_norm_variant(f"beta is that of {text}", LayerNorm(finish=partial(_chosen, beta_at=choice)))
    for text, narrow in FORMATS.items():
        yield from _rounded(text, narrow)
    for text, rsqrt in rsqrts().items():
        for how, multiply in PRODUCTS.items():
            yield layer_norm_variant(
                f"1/sqrt(variance + epsilon) is computed {text}{how}",
                LayerNorm(root=partial(_variance, rsqrt=rsqrt), normalize=multiply),
            )
    for text, sqrt in sqrts().items():
        yield layer_norm_variant(
            f"sqrt(variance + epsilon) is computed {text}", LayerNorm(root=partial(_approximate, sqrt=sqrt))
        )
    for text, reciprocal in reciprocals().items():
        yield layer_norm_variant(
            f"1/deviation is computed {text}",
            LayerNorm(root=partial(_inverse, reciprocal=reciprocal), normalize=np.multiply),
        )


PRODUCTS: dict[str, Callable[[Array, Array], Array]] = {
    "": np.multiply,
    ", and multiplied in float32": lambda c, r: (c.astype(np.float32) * r.astype(np.float32)).astype(float),
}


def _chosen(y: Array, gamma: Array, beta: Array, gamma_at: Array | None = None, beta_at: Array | None = None) -> Array:
    gamma = gamma[gamma_at] if gamma_at is not None and gamma.size else gamma
    return affine(y, gamma, beta[beta_at] if beta_at is not None and beta.size else beta)


def _variance(variance: Array, eps: float, rsqrt: Callable[[Array], Array]) -> Array:
    return rsqrt(variance + eps)


def _approximate(variance: Array, eps: float, sqrt: Callable[[Array], Array]) -> Array:
    return sqrt(variance + eps)


def _inverse(variance: Array, eps: float, reciprocal: Callable[[Array], Array]) -> Array:
    return reciprocal(root_of(variance, eps))


def _rounded(text: str, narrow: Format) -> Iterator[FaultVariant]:
    for stages in (
        (4,),
        (2,),
        (3,),
        (1,),
        (0,),
        (0, 1, 2, 3, 4),
        (2, 3, 4),
        (2, 3),
        (0, 2, 3, 4),
        (0, 1),
        (1, 2),
        (1, 2, 3, 4),
    ):
        rounds = [narrow if i in stages else exactly for i in range(5)]
        kernel = LayerNorm(
            root=bind_last(lambda v, eps, r: r[1](root_of(v, eps)), rounds),
            normalize=bind_last(lambda c, root, r: r[2](r[0](c) / root), rounds),
            finish=bind_last(lambda y, g, b, r: r[4](_plus(r[3](_times(y, g)), b)), rounds),
        )
        yield layer_norm_variant(
            f"{', '.join(STAGES[i] for i in stages)} {'is' if len(stages) == 1 else 'are'} rounded to {text}", kernel
        )
    yield layer_norm_variant(
        f"gamma and beta are rounded to {text}", LayerNorm(finish=lambda y, g, b: affine(y, narrow(g), narrow(b)))
    )
    yield layer_norm_variant(f"gamma is rounded to {text}", LayerNorm(finish=lambda y, g, b: affine(y, narrow(g), b)))
    yield layer_norm_variant(f"beta is rounded to {text}", LayerNorm(finish=lambda y, g, b: affine(y, g, narrow(b))))
