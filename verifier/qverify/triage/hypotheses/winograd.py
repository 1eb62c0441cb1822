"""A convolution of 3 taps and stride 1 uses Winograd's F(2, 3) with integer transformed weights: their halves are
lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.rounding_rules import RULES, Rule
from qverify.triage.altered_kernels.summed_elements import SummedElements, fitting, words_of
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant

NAME = "winograd"
OPS = ("conv",)
LATE = -1
CUTS = (
    "toward zero (truncated)",
    "down (floor)",
    "half up",
    "to nearest (ties to even)",
    "half away from zero",
    "up (ceiling)",
)
WEIGHTS = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
# Coefficients of the input taps, by parity of the output.
INPUT = np.array([[[1, 0, -1], [0, 1, 1], [0, -1, 1]], [[1, 1, 0], [-1, 1, 0], [1, 0, -1]]])
OUTPUT = np.array([[1, 1, 1], [1, -1, -1]])
HALVES = "(g0+g1+g2)/2 and (g0-g1+g2)/2"


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op == "conv":
        yield from fitting(case, _ways(words_of(case)), in_parts=True, bits=0.5)


def _ways(words: dict[str, int]) -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    fits = {a: words[f"kernel_{a}"] == 3 and words[f"stride_{a}"] == 1 for a in "hw"}
    for phrase in CUTS:
        for axis, name in (("w", "width"), ("h", "height")):
            if fits[axis]:
                text = (
                    f"Winograd F(2,3) along the {name} with integer transformed weights: {HALVES} are rounded {phrase}"
                )
                yield text, partial(_transformed, axes=axis, rule=RULES[phrase])
        if all(fits.values()):
            text = f"Winograd F(2x2,3x3) with integer transformed weights: G g G^T is rounded {phrase}"
            yield text, partial(_transformed, axes="hw", rule=RULES[phrase])


def _transformed(e: SummedElements, axes: str, rule: Rule) -> Array:
    s, shape = e.summands, e.case.spec.shape
    at = np.unravel_index(e.places, shape)
    w, x = s.centred_w.astype(np.float64), s.centred_x.astype(np.float64)
    x = np.broadcast_to(x, np.broadcast_shapes(x.shape, w.shape))
    w = np.broadcast_to(w, x.shape)
    for axis in axes:
        w = np.einsum("ug,sckg->scku", WEIGHTS, w) if axis == "w" else np.einsum("ug,scgk->scuk", WEIGHTS, w)
    w = rule(w)
    for axis in axes:
        parity = (at[-1] if axis == "w" else at[2] if len(shape) == 4 else 0 * at[-1]) % 2
        taps = parity[:, None] + np.arange(3)
        if axis == "w":
            x = np.einsum("stg,sckg->sckt", INPUT[parity], x) * OUTPUT[parity][:, None, None, :]
            w = np.take_along_axis(w, np.broadcast_to(taps[:, None, None, :], (*w.shape[:3], 3)), 3)
        else:
            x = np.einsum("stg,scgk->sctk", INPUT[parity], x) * OUTPUT[parity][:, None, :, None]
            w = np.take_along_axis(w, np.broadcast_to(taps[:, None, :, None], (*w.shape[:2], 3, w.shape[3])), 2)
    return e.requantized((x * w).sum((1, 2, 3)).astype(np.int64) + e.bias)
