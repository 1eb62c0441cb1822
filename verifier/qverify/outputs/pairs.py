"""Enumerates pairs of mistakes, without those that cannot be: what a later stage does not change must be equal already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from qverify.errors import UsageError
from qverify.mistakes import Explanation, Mistake, list_single_mistakes
from qverify.outputs.hypotheses import pages
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.tables import list_further
from qverify.outputs.trial import Trial

TENSOR, SCORE, GEOMETRY, LATE, CHOICE = range(5)
RANKS = {  # of the pages that are not LATE
    **dict.fromkeys(("layout", "element-type", "dequantization", "zero-point", "other-scale"), TENSOR),
    **dict.fromkeys(("exchanged-outputs", "padding"), TENSOR),
    **dict.fromkeys(("activation", "score", "class-channels", "background", "peaks"), SCORE),
    **dict.fromkeys(("anchors", "strides", "grid", "extent", "priors", "side-order"), GEOMETRY),
    **dict.fromkeys(("keypoints", "distances"), GEOMETRY),
    **dict.fromkeys(("score-threshold", "nms", "top"), CHOICE),  # which detections are written
}
LATER = range(GEOMETRY, CHOICE)
PASSES = (  # ranks of the first and of the second mistake; what is rejected most comes first
    (range(GEOMETRY, CHOICE + 1), range(CHOICE, CHOICE + 1)),
    (range(GEOMETRY), range(CHOICE, CHOICE + 1)),
    (range(GEOMETRY), LATER),
    (range(GEOMETRY, LATE), range(LATE, CHOICE)),
    (range(GEOMETRY, LATE), range(GEOMETRY, LATE)),
    (range(LATE, CHOICE), LATER),
    (range(GEOMETRY), range(SCORE, GEOMETRY)),
    (range(SCORE), range(SCORE)),
)
OF_INTENDED_SCORES = (0, 4, 5, 3, 1, 2, 6, 7)  # order of the passes if the device has the scores that are intended
OF_ARRAYS = {"layout": LATE}  # it moves values only
OF_CHOICE = frozenset({"scores"})  # the part of rows that another choice of detections changes
NOTHING = frozenset[str]()
Found = Explanation[OutputRecipe]


def sort_by_cost(explanations: Iterable[Found]) -> list[Found]:
    """Returns single mistakes, those first that keep what was computed before them."""
    return sorted(explanations, key=lambda e: -RANKS.get(e.causes[0].family, LATE))


def list_pairs_of_outputs(pages: Sequence[Any], intended: OutputRecipe, trial: Trial) -> Iterator[Found]:
    """Yields every recipe with two mistakes that may make the device's result: those first of which each explains a part of the
    rows, then the cheap ones, those of one family last. trial: says whether a recipe agrees with the device in what later
    mistakes do not change."""
    of_arrays = intended.evidence.kind == "arrays"
    rank = {p.NAME: (OF_ARRAYS if of_arrays else {}).get(p.NAME, RANKS.get(p.NAME, LATE)) for p in pages}
    singles = list(list_single_mistakes(pages, intended))
    yielded = {intended, *(s.recipe for s in singles)}
    equal = _find_equal_parts(trial, intended, singles)
    for found in _list_likely(pages, singles, equal, rank, trial.parts):
        if found.recipe not in yielded:
            yielded.add(found.recipe)
            yield found
    intended_holds = _holds(trial.may_hold, intended)
    holds = {TENSOR: None, SCORE: None, GEOMETRY: intended_holds, LATE: intended_holds, CHOICE: intended_holds}
    passes = [PASSES[at] for at in OF_INTENDED_SCORES] if intended_holds else PASSES
    rounds = [(late, same, *ranks) for late in (False, True) for same in (False, True) for ranks in passes]
    for late, same, owns, others in rounds:
        for first in (s for s in singles if rank[s.causes[0].family] in owns):
            family = first.causes[0].family
            own = rank[family]
            if late != (CHOICE in others and equal.get(first, NOTHING) >= OF_CHOICE):
                continue  # it has the device's scores already, and another choice mostly has others
            checks = _Checks(trial, first.recipe, holds[own])
            for page in pages:
                other = rank[page.NAME]
                if (family == page.NAME) != same or other not in others or other < own or not checks.allow(other):
                    continue
                for said, changed in page.variants(first.recipe):
                    if changed not in yielded:
                        yielded.add(changed)
                        yield Explanation((*first.causes, Mistake(page.NAME, said)), changed)


def _find_equal_parts(trial: Trial, intended: OutputRecipe, singles: Sequence[Found]) -> dict[Found, frozenset[str]]:
    """Returns the parts of the device's rows that each single mistake explains; those of them only that explain one that the
    intended recipe does not, or the device's scores."""
    if len(trial.parts) < 2:
        return {}
    own = _holds_parts(trial, intended)
    equal = {single: _holds_parts(trial, single.recipe) for single in singles}
    return {single: parts for single, parts in equal.items() if parts - own or parts >= OF_CHOICE}


def _list_likely(
    pages: Sequence[Any],
    singles: Sequence[Found],
    equal: dict[Found, frozenset[str]],
    rank: dict[str, int],
    parts: frozenset[str],
) -> Iterator[Found]:
    """Yields pairs of which each mistake explains what the other one does not; then pairs of one that explains more than the
    intended recipe, the most first, and any later one."""
    by_cause = {single.causes[0]: found for single, found in equal.items()}
    firsts = sorted(equal, key=lambda s: -len(equal[s]))
    for complementary in (True, False):
        for first in firsts:
            cause, known = first.causes[0], equal[first]
            for page in pages:
                if cause.family == page.NAME or rank[page.NAME] < rank[cause.family]:
                    continue
                if not complementary and rank[page.NAME] == CHOICE and known >= OF_CHOICE:
                    continue
                if complementary and not any(
                    known | found == parts for second, found in by_cause.items() if second.family == page.NAME
                ):
                    continue
                for said, changed in page.variants(first.recipe):
                    second = Mistake(page.NAME, said)
                    if not complementary or known | by_cause.get(second, NOTHING) == parts:
                        yield Explanation((*first.causes, second), changed)


def list_all_singles(intended: OutputRecipe, of_tables: bool) -> Iterator[Found]:
    """Yields every recipe with one mistake, each once: those of the pages, then those of the tables."""
    yielded = {intended}
    further = sort_by_cost(list_further(intended)) if of_tables else []
    for found in (*sort_by_cost(list_single_mistakes(pages(), intended)), *further):
        if found.recipe not in yielded:
            yielded.add(found.recipe)
            yield found


def list_singles_of_all(
    bases: Sequence[OutputRecipe], of_tables: bool, base_of: dict[int, OutputRecipe]
) -> Iterator[Found]:
    """Yields every recipe with one mistake of each base, the same mistake of all bases one after another: they have most
    of the work in common. No recipe that is a base itself. base_of: is filled with the base of each by the id() of the
    recipe."""
    if len(bases) == 1:
        yield from list_all_singles(bases[0], of_tables)
        return
    by_mistake: dict[tuple[Mistake, ...], list[tuple[Found, OutputRecipe]]] = {}
    for base in bases:
        for found in list_all_singles(base, of_tables):
            by_mistake.setdefault(found.causes, []).append((found, base))
    yielded = {*bases}
    for found, base in (one for alike in by_mistake.values() for one in alike):
        if found.recipe not in yielded:
            yielded.add(found.recipe)
            base_of[id(found.recipe)] = base
            yield found


def list_rarer_pairs(pages: Sequence[Any], intended: OutputRecipe, trial: Trial) -> Iterator[Found]:
    """Yields every recipe with a mistake of a page and one of a table of a later or the same rank, or the other way round."""
    common, rare = [*list_single_mistakes(pages, intended)], [*list_further(intended)]
    yielded = {intended, *(s.recipe for s in (*common, *rare))}
    intended_holds = _holds(trial.may_hold, intended)
    for first, second in ((rare, False), (common, True)):
        for one in first:
            own = RANKS.get(one.causes[0].family, LATE)
            checks = _Checks(trial, one.recipe, None if own < GEOMETRY else intended_holds)
            family = one.causes[0].family
            others = (
                list_further(one.recipe, one.causes, family)
                if second
                else (
                    Explanation((*one.causes, Mistake(page.NAME, said)), changed)
                    for page in pages
                    if family != page.NAME
                    for said, changed in page.variants(one.recipe)
                )
            )
            for pair in others:
                later = RANKS.get(pair.causes[1].family, LATE)
                if later >= own and pair.recipe not in yielded and checks.allow(later):
                    yielded.add(pair.recipe)
                    yield pair


class _Checks:
    """What the first mistake of a pair leaves possible; each is computed when it is first needed. holds: whether the recipe
    agrees in what GEOMETRY and later mistakes do not change, None if that is not known."""

    def __init__(self, trial: Trial, recipe: OutputRecipe, holds: bool | None):
        self._trial, self._recipe, self._holds = trial, recipe, holds
        self._rows: bool | None = None

    def allow(self, rank: int) -> bool:
        """Returns whether a mistake of this rank may be the second one."""
        if rank < GEOMETRY:
            return True
        if self._holds is None:
            self._holds = _holds(self._trial.may_hold, self._recipe)
        if not self._holds or rank != CHOICE:
            return self._holds
        if self._rows is None:
            self._rows = _holds(self._trial.holds_rows, self._recipe)
        return self._rows


def _holds(may_hold: Callable[[OutputRecipe], bool], recipe: OutputRecipe) -> bool:
    try:
        with np.errstate(all="ignore"):
            return may_hold(recipe)
    except (UsageError, ValueError, IndexError, ArithmeticError):  # outputs that do not fit the decoder any more
        return False


def _holds_parts(trial: Trial, recipe: OutputRecipe) -> frozenset[str]:
    try:
        with np.errstate(all="ignore"):
            return trial.find_equal_parts(recipe)
    except (UsageError, ValueError, IndexError, ArithmeticError):  # outputs that do not fit the decoder any more
        return NOTHING
