"""Keeps forced verdicts for the pairs of one comparison that ask the same question."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from operator import is_
from typing import TYPE_CHECKING

from qverify.report.document import Forced
from qverify.tensors.recording import Array

if TYPE_CHECKING:
    from qverify.compare.foreign import ForeignUnit


class SameArrays:
    """A cache of forced verdicts. A verdict is used again for a pair in which the same side runs the same unit, and
    inputs and recorded outputs are the very same array objects. Of three sides, two often have the same bytes, which
    are then stored as one array."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Hashable, ...], tuple[list[Array], dict[str, Forced]]] = {}
        self._judged: dict[str, tuple[ForeignUnit, Forced, Forced]] = {}

    def find(self, key: tuple[Hashable, ...], arrays: list[Array]) -> dict[str, Forced] | None:
        """Returns the verdicts that were kept under this key for these arrays, or None if there are none."""
        kept_arrays, verdicts = self._kept.get(key, ([], {}))
        identical = len(kept_arrays) == len(arrays) and all(map(is_, kept_arrays, arrays))
        return verdicts if verdicts and identical else None

    def keep(self, key: tuple[Hashable, ...], arrays: list[Array], verdicts: dict[str, Forced]) -> None:
        """Keeps the verdicts, unless one of them is INCONCLUSIVE: the reason for that may be different in each pair."""
        if all(f.verdict != "INCONCLUSIVE" for f in verdicts.values()):
            self._kept[key] = arrays, verdicts

    def judge_once(self, foreign: ForeignUnit, measured: Forced) -> Forced:
        """Returns judge_foreign(), which is not asked again for a pair whose other side computes the same bytes from the
        same arrays."""
        from qverify.compare.foreign import is_same_question, judge_foreign

        former = self._judged.get(foreign.output)
        if former is not None and is_same_question(former[0], foreign):
            _, asked, verdict = former
            if (asked.on, asked.limit) == (measured.on, measured.limit):
                fault = measured.by if verdict.at_fault == asked.by else verdict.at_fault
                return replace(verdict, by=measured.by, at_fault=fault)
        verdict = judge_foreign(foreign, measured)
        self._judged[foreign.output] = replace(foreign), measured, verdict  # without what it computed
        return verdict
