"""Layer norm keeps an intermediate value (rows without their mean, deviation, normalized value, its product with gamma)
in fixed point that saturates, or gamma and beta as 8-bit or fixed-point numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.layer_norm_kernel import NORMS, LayerNorm, affine, root_of, titled
from qverify.triage.altered_kernels.replaced_kernels import kernel_variant, nodes_of
from qverify.triage.altered_kernels.rounding_rules import half_up
from qverify.triage.altered_kernels.row_sample import fitting_rows
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "layer-norm-fixed"
OPS = NORMS
Stage = Callable[[Array], Array]
RULES: dict[str, Stage] = {
    "rounded down": np.floor,
    "rounded to the nearest": np.rint,
    "rounded half up": half_up,
    "truncated toward zero": np.trunc,
}
BITS = (16, 8)


def variants(case: Case) -> Iterator[FaultVariant]:
    for node in nodes_of(case, *NORMS)[:1]:
        ways = (kernel_variant(f"layer norm: {s}", dict.fromkeys(NORMS, k), b) for s, k, b in _ways())
        yield from fitting_rows(case, titled(node, ways))


def _ways() -> Iterator[tuple[str, LayerNorm, float]]:
    for bits in BITS:
        for fraction in range(2, bits):
            for rule, rounded in RULES.items():
                most = 2.0 ** (bits - 1 - fraction)
                low, high = -most, most - 2.0**-fraction
                stage = partial(_fixed, fraction=fraction, rule=rounded, low=low, high=high)
                text = f"kept in {bits} bits with {fraction} fraction bits ({rule} to a multiple of 2^-{fraction}, saturating at {low:g} and {high:g})"
                for what, kernel in _kernels(stage).items():
                    yield f"{what} {text}", kernel, 12.0
    for most in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 16.0):
        stage = partial(np.clip, a_min=-most, a_max=most)
        for what, kernel in _kernels(stage).items():
            yield f"{what} limited to -{most:g} and {most:g}", kernel, 8.0
    for fraction in range(2, 21):
        for rule, rounded in RULES.items():
            stage = partial(_fixed, fraction=fraction, rule=rounded, low=-np.inf, high=np.inf)
            text = f"{rule} to a multiple of 2^-{fraction} (1/{2**fraction})"
            for what, kernel in (_kernels(stage) | _parameters(stage)).items():
                yield f"{what} {text}", kernel, 12.0
    for most in (127.0, 128.0, 255.0, 32767.0):
        for rule, rounded in RULES.items():
            stage = partial(_steps, most=most, rule=rounded)
            for what, kernel in _parameters(stage).items():
                yield f"{what} {rule} to a multiple of its largest absolute value/{most:g}", kernel, 12.0


def _fixed(values: Array, fraction: int, rule: Stage, low: float, high: float) -> Array:
    return np.clip(rule(values * 2.0**fraction) / 2.0**fraction, low, high)


def _steps(values: Array, most: float, rule: Stage) -> Array:
    step = np.abs(values).max(initial=0.0) / most
    return rule(values / step) * step if step else values


def _kernels(stage: Stage) -> dict[str, LayerNorm]:
    return {
        "the normalized value (before gamma and beta) is": LayerNorm(normalize=lambda c, root: stage(c / root)),
        "the rows less their mean are": LayerNorm(normalize=lambda c, root: stage(c) / root),
        "the deviation is": LayerNorm(root=lambda v, eps: stage(root_of(v, eps))),
        "1/deviation is": LayerNorm(root=lambda v, eps: stage(1.0 / root_of(v, eps)), normalize=np.multiply),
        "the normalized value times gamma is": LayerNorm(finish=partial(_of_product, stage=stage)),
        "the result is": LayerNorm(finish=lambda y, g, b: stage(affine(y, g, b))),
    }


def _parameters(stage: Stage) -> dict[str, LayerNorm]:
    return {
        "gamma and beta are": LayerNorm(finish=lambda y, g, b: affine(y, stage(g), stage(b))),
        "gamma is": LayerNorm(finish=lambda y, g, b: affine(y, stage(g), b)),
        "beta is": LayerNorm(finish=lambda y, g, b: affine(y, g, stage(b))),
    }


def _of_product(y: Array, gamma: Array, beta: Array, stage: Stage) -> Array:
    product = stage(y * gamma if gamma.size else y)
    return product + beta if beta.size else product
