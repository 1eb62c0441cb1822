"""Faults that give the recorded output up to the rounding of a runtime that rounds in its own way: every integer within
1 LSB, and nearly all of them exactly; every float within a small part of itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from qverify.arithmetic import functions64
from qverify.triage import evidence
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.one_row import MOST_OFF, is_beyond
from qverify.triage.output_parts import restrict
from qverify.triage.plain_faults import PLAIN

SAMPLE = 512  # elements far from healthy that are compared before all are
MOST_LEFT = 0.2  # share of all elements that a rounding may leave different
FLOATS = 2.0**-16  # of a float itself, and of the largest element times FLOOR, by which float32 may be off
FLOOR = 2.0**-4
MOST_BITS = 16.0  # of evidence of one float
LEAST_GIVEN = 0.5  # share of the elements that differ which a fault must give exactly
MAX_KEPT = 64


@dataclass(frozen=True, slots=True)
class NearFit:
    """A fault that gives every recorded element within 1 LSB. family: NAME of its page. left: number of elements that it
    does not give exactly. gain: bits by which it describes the recorded bytes more briefly than no fault does, without
    those of its own choice."""

    family: str
    variant: FaultVariant
    left: int
    gain: float


@dataclass(slots=True)
class NearFits:
    """Collects the near fits of one case. reach: LSB by which a rounding may differ."""

    case: Case
    reach: int = 1
    found: list[NearFit] = field(default_factory=list)

    def add(self, family: str, variant: FaultVariant, output: Array) -> None:
        """Keeps the fault, or the fault confined to parts of the output, if it fits nearly. output: what it computes."""
        far = self._far
        if far is None or variant.free is not None or variant.copied or len(self.found) >= MAX_KEPT:
            return
        if family not in PLAIN and self.case.recorded.dtype.kind != "f":
            return  # an approximation of the arithmetic comes within 1 LSB of many faults
        flat, recorded = output.reshape(-1), self.case.recorded.reshape(-1)
        if np.mean(self._is_off(flat[far.sample], recorded[far.sample], far)) > far.most_off:
            return
        off = self._is_off(flat, recorded, far)
        given = far.mask & ~off
        if np.count_nonzero(given) < (1 - far.most_off) * np.count_nonzero(far.mask):
            return
        if self._is_given(output, far):
            self._keep(family, variant, output)
            return
        seen = np.where((off & ~far.mask) | given, flat, self.case.healthy.reshape(-1)).reshape(output.shape)
        for part in restrict(self.case, variant, seen, given):
            predicted = part.make(self.case)
            if self._is_given(predicted, far):
                self._keep(family, part, predicted)

    def _is_given(self, output: Array, far: _Far) -> bool:
        """Returns whether no element is farther off than a rounding may be, and only few are off at all."""
        flat, recorded = output.reshape(-1), self.case.recorded.reshape(-1)
        few = np.count_nonzero(self._is_off(flat, recorded, far)) <= far.most_off * np.count_nonzero(far.mask)
        return bool(few) and not self._is_beyond(flat, recorded).any()

    def _is_off(self, a: Array, recorded: Array, far: _Far) -> Array:
        """Returns a mask of the elements that the fault does not give."""
        return self._is_beyond(a, recorded) if not far.most_off else np.asarray(a != recorded)

    def _is_beyond(self, a: Array, recorded: Array) -> Array:
        """Returns a mask of the elements that no rounding explains."""
        if recorded.dtype.kind != "f":
            return is_beyond(a, recorded, self.reach)
        apart = np.abs(a.astype(np.float64) - recorded.astype(np.float64))
        return np.logical_not(apart <= self._allowed(recorded))

    def _allowed(self, recorded: Array) -> Array:
        """Returns the distance by which each of these recorded floats may be off."""
        largest = self.case.compute_once("largest", lambda: float(np.abs(self.case.recorded).max(initial=0.0)))
        return np.asarray(FLOATS * np.maximum(np.abs(recorded.astype(np.float64)), FLOOR * largest))

    def _keep(self, family: str, variant: FaultVariant, output: Array) -> None:
        if output.dtype.kind == "f":
            self.found.append(NearFit(family, variant, 0, self._weigh_floats()))
            return
        left = int(np.count_nonzero(output != self.case.recorded))
        if left > MOST_LEFT * output.size or left > (1 - LEAST_GIVEN) * self.case.differing.size:
            return
        beside = replace(self.case, cache={"healthy": output})
        described = evidence.difference_bits(beside) if left else 0.0
        self.found.append(NearFit(family, variant, left, evidence.difference_bits(self.case) - described))

    def _weigh_floats(self) -> float:
        """Returns the evidence of floats that a fault gives: for each one far from healthy, how many times farther it is
        than a rounding may be, in bits."""
        far = self._far
        assert far is not None
        recorded, healthy = (
            v.reshape(-1)[far.mask].astype(np.float64) for v in (self.case.recorded, self.case.healthy)
        )
        with np.errstate(all="ignore"):
            times = np.abs(recorded - healthy) / self._allowed(recorded)
        return float(np.minimum(functions64.log2(np.maximum(np.nan_to_num(times, nan=1.0), 1.0)), MOST_BITS).sum())

    @property
    def _far(self) -> _Far | None:
        return self.case.compute_once("far from healthy", self._find_far)

    def _find_far(self) -> _Far | None:
        """Returns the elements that no rounding explains; of integers that all differ by no more than a rounding, those
        that differ, of which a fault must give nearly all exactly. None if there are none."""
        case = self.case
        if case.recorded.dtype.kind == "f":
            if not np.isfinite(case.recorded).all():
                return None
        elif case.recorded.dtype.kind not in "iu" or not case.spec.quantized:
            return None
        mask = self._is_beyond(case.healthy.reshape(-1), case.recorded.reshape(-1))
        most_off = 0.0
        if not mask.any() and case.recorded.dtype.kind != "f":
            mask, most_off = (case.healthy != case.recorded).reshape(-1), MOST_OFF
        places = np.flatnonzero(mask)
        return _Far(mask, places[:: max(1, len(places) // SAMPLE)], most_off) if len(places) else None


@dataclass(frozen=True, slots=True)
class _Far:
    """Elements far from healthy. mask: all of them, flat. sample: flat indices of some. most_off: share of them that a
    fault need not give, 0.0 if each must be within a rounding."""

    mask: Array
    sample: Array
    most_off: float
