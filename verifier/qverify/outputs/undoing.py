"""Pairs of mistakes of which one undoes what the other one does: they reproduce a result, but explain nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from qverify.errors import UsageError
from qverify.mistakes import Explanation, Mistake
from qverify.outputs.pairs import list_all_singles
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.trial import Trial

NOTHING = frozenset[str]()


class Undoing:
    """Judges pairs that reproduce the device's result. base: the recipe without mistakes."""

    def __init__(self, trial: Trial, base: OutputRecipe):
        self._trial, self._base = trial, base

    def holds(self, pair: Explanation[OutputRecipe]) -> bool:
        """Returns whether one of two mistakes alone spoils a part of the rows (boxes, points, scores, classes) that is the
        device's without any mistake: the other one restores it."""
        if len(pair.causes) != 2 or not self._right:
            return False
        alone = (self._singles.get(cause) for cause in pair.causes)
        return any(recipe is not None and not self._right <= self._find_right(recipe) for recipe in alone)

    @cached_property
    def _right(self) -> frozenset[str]:
        return self._find_right(self._base)

    @cached_property
    def _singles(self) -> dict[Mistake, OutputRecipe]:
        return {single.causes[0]: single.recipe for single in list_all_singles(self._base, True)}

    def _find_right(self, recipe: OutputRecipe) -> frozenset[str]:
        return _attempt(self._trial.find_right_parts, recipe)


def _attempt(find: Callable[[OutputRecipe], frozenset[str]], recipe: OutputRecipe) -> frozenset[str]:
    try:
        with np.errstate(all="ignore"):
            return find(recipe)
    except (UsageError, ValueError, IndexError, ArithmeticError):  # outputs that do not fit the decoder any more
        return NOTHING
