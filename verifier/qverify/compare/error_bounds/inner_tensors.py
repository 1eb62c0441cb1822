"""What a side may do with a tensor inside of a region, which it does not give: round it in any way, keep it in a wider
type, and clip it to its range or not (NUMERICS.md section 4)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from qverify.compare.error_bounds.bounded_values import NoBound, Real, Reals
from qverify.tensors.spec import TensorSpec

NEAR_TIE = 2.0**-8  # distance from a tie, in LSB, at which a value may be rounded to either side
ROUNDED_ANEW = 1.0  # LSB by which any rounding of an inner tensor may differ from the exact value


@dataclass(frozen=True, slots=True)
class Steps:
    """A quantized tensor in whole or fractional steps, the zero point included.

    Attributes:
        real: the values with their errors, in steps.
        limits: smallest and largest integer of the node that computes it, or None if the values are already those that
            a later node reads.
        spec: the tensor's spec.
    """

    real: Real
    limits: tuple[int, int] | None
    spec: TensorSpec

    @property
    def type_limits(self) -> tuple[int, int]:
        """The smallest and largest integer of the tensor's type."""
        limits = np.iinfo(self.spec.dtype)
        return int(limits.min), int(limits.max)

    def settled(self, rule: Rule) -> Real:
        """Returns the values that a later node reads, by this rule."""
        if self.limits is None:
            return self.real
        return by_ends(*rule(self.real.value - self.real.error, self.real.value + self.real.error, self))


Rule = Callable[[Reals, Reals, Steps], tuple[Reals, Reals]]  # the ends of the intervals that a node reads


def by_ends(low: Reals, high: Reals) -> Real:
    """Returns the values between these ends. Raises NoBound for values without an end."""
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise NoBound("values without a limit")
    return Real((low + high) / 2, (high - low) / 2)


def allow_any(low: Reals, high: Reals, steps: Steps) -> tuple[Reals, Reals]:
    """Returns the ends of every value that a right side may have: rounded in any way or not at all, clipped to the
    tensor's range or not."""
    low, high = low - ROUNDED_ANEW, high + ROUNDED_ANEW
    clipped = _clip_all(low, high, steps)
    kept = _clip_activation(low, high, steps)
    return np.minimum(clipped[0], kept[0]), np.maximum(clipped[1], kept[1])


def round_as_model(low: Reals, high: Reals, steps: Steps) -> tuple[Reals, Reals]:
    """Returns the ends after rounding to the nearest step and clipping, as the model states it."""
    return _clip_all(np.ceil(low - NEAR_TIE - 0.5), np.floor(high + NEAR_TIE + 0.5), steps)


def round_down(low: Reals, high: Reals, steps: Steps) -> tuple[Reals, Reals]:
    """Returns the ends after rounding down and clipping."""
    return _clip_all(np.floor(low - NEAR_TIE), np.floor(high + NEAR_TIE), steps)


def keep(low: Reals, high: Reals, steps: Steps) -> tuple[Reals, Reals]:
    """Returns the ends without a rounding. Only an activation clips them."""
    return _clip_activation(low, high, steps)


def keep_some(names: Collection[str]) -> Rule:
    """Returns the rule that keeps these tensors, clipped to their range, and rounds the others as the model states."""

    def rule(low: Reals, high: Reals, steps: Steps) -> tuple[Reals, Reals]:
        return (keep_clipped if steps.spec.name in names else round_as_model)(low, high, steps)

    return rule


def keep_clipped(low: Reals, high: Reals, steps: Steps) -> tuple[Reals, Reals]:
    """Returns the ends without a rounding, clipped to the tensor's range."""
    return _clip_all(low, high, steps)


def _clip_all(low: Reals, high: Reals, steps: Steps) -> tuple[Reals, Reals]:
    assert steps.limits is not None
    return np.clip(low, *steps.limits), np.clip(high, *steps.limits)


def _clip_activation(low: Reals, high: Reals, steps: Steps) -> tuple[Reals, Reals]:
    """Clips to the limits that are part of what the node computes: those inside of the tensor's type, and a lower limit
    at the zero point, which is that of a Relu."""
    assert steps.limits is not None
    least, most = steps.type_limits
    bottom = steps.limits[0] if steps.limits[0] > least or steps.limits[0] >= max(steps.spec.zero_point) else -np.inf
    top = steps.limits[1] if steps.limits[1] < most else np.inf
    return np.clip(low, bottom, top), np.clip(high, bottom, top)
