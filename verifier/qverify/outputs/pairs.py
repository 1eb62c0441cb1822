"""Enumerates pairs of mistakes, without those that cannot be: what a later stage does not change must be equal already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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
    explained = _find_explained(trial, intended, singles)
    for found in _list_likely(pages, explained, rank, trial.parts):
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
            if late != (CHOICE in others and first in explained.parts and explained.parts[first] >= OF_CHOICE):
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


@dataclass(slots=True)
class _Explained:
    """What single mistakes explain of the device's rows, beyond the intended recipe. parts: those parts of the rows that one
    explains, of mistakes that explain a further one, or the scores. nearer: mistakes with which more rows are equal, the most
    first."""

    parts: dict[Found, frozenset[str]] = field(default_factory=dict)
    nearer: list[Found] = field(default_factory=list)


def _find_explained(trial: Trial, intended: OutputRecipe, singles: Sequence[Found]) -> _Explained:
    if not trial.parts:
        return _Explained()
    own, share = _holds_parts(trial, intended)
    found = {single: _holds_parts(trial, single.recipe) for single in singles}
    parts = {single: known for single, (known, _) in found.items() if known - own or known >= OF_CHOICE}
    nearer = sorted((s for s in singles if found[s][1] > share), key=lambda s: -found[s][1])
    return _Explained(parts if len(trial.parts) > 1 else {}, nearer)


def _list_likely(
    pages: Sequence[Any], explained: _Explained, rank: dict[str, int], parts: frozenset[str]
) -> Iterator[Found]:
    """Yields pairs of which each mistake explains what the other one does not; then pairs of one that explains more than the
    intended recipe, the most first, and any later one."""
    by_cause = {single.causes[0]: found for single, found in explained.parts.items()}
    firsts = sorted(explained.parts, key=lambda s: -len(explained.parts[s]))
    for first in firsts:
        known = explained.parts[first]
        families = {second.family for second, found in by_cause.items() if known | found == parts}
        for pair in _list_later([page for page in pages if page.NAME in families], first, rank):
            if known | by_cause.get(pair.causes[1], NOTHING) == parts:
                yield pair
    for first in firsts:
        same_choice = explained.parts[first] >= OF_CHOICE
        yield from _list_later([p for p in pages if not (same_choice and rank[p.NAME] == CHOICE)], first, rank)
    for first in explained.nearer:
        yield from _list_later(pages, first, rank)


def _list_later(pages: Sequence[Any], first: Found, rank: dict[str, int]) -> Iterator[Found]:
    """Yields pairs of a mistake and one of another family that is not of an earlier rank."""
    family = first.causes[0].family
    for page in pages:
        if family != page.NAME and rank[page.NAME] >= rank[family]:
            for said, changed in page.variants(first.recipe):
                yield Explanation((*first.causes, Mistake(page.NAME, said)), changed)


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


def _holds_parts(trial: Trial, recipe: OutputRecipe) -> tuple[frozenset[str], float]:
    try:
        with np.errstate(all="ignore"):
            return trial.find_equal_parts(recipe)
    except (UsageError, ValueError, IndexError, ArithmeticError):  # outputs that do not fit the decoder any more
        return NOTHING, 0.0
