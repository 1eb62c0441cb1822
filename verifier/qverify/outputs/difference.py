"""Finds the one or two known mistakes that turn a network's final outputs into what the device wrote, or else those that
come nearest (OUTPUTS.md section 4)."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import UsageError
from qverify.mistakes import Explanation, Mistake
from qverify.outputs.hypotheses import pages
from qverify.outputs.pairs import list_pairs_of_outputs, list_rarer_pairs, list_singles_of_all
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.trial import Rest, Trial
from qverify.outputs.undoing import Undoing
from qverify.plural import count

Array = npt.NDArray[Any]
Watch = Callable[[str, int, int], None]
OutputExplanation = Explanation[OutputRecipe]
MORE = 64  # pairs that are tried after the first exact one
BEYOND = (
    "two mistakes reproduce it if its numbers are meant to be written with fewer digits; "
    "state them with --written digits=, and cut=true if they are cut"
)
EVERY = 8  # explanations between two looks at the clock
NEAREST = 3  # explanations that are kept as nearest
MOST_CAUSES = 2  # mistakes that are named together: of more, too many fit by chance
MOST_EXACT = 12  # exact explanations that are listed
MOST_ALIKE = 3  # of the same families, before those of others


@dataclass(slots=True)
class OutputDifference:
    """The difference between the intended result and the device's.

    Attributes:
        equal: whether the device wrote what was intended.
        size: what was compared, in words, such as "37 rows".
        intended: the size of the intended result, in words.
        exact: explanations that reproduce the device's result, the simplest first; those of one list have the same
            families of mistakes.
        nearest: the explanation that comes nearest, with what remains, if none is exact.
        near: a mistake that explains the result but for a chip's rounding, in words; "" if none does, or one is exact.
        notes: what is no mistake, but should be known, such as another order of rows.
        tried: number of explanations that were tried.
        not_searched: what was left out, with the reason.
        base: of several recipes that may be intended, the one that this says something about, if others do not give the
            same; None if it does not matter which.
    """

    equal: bool
    size: str
    intended: str
    exact: list[list[OutputExplanation]] = field(default_factory=list)
    nearest: tuple[OutputExplanation, Rest] | None = None
    near: str = ""
    notes: list[str] = field(default_factory=list)
    tried: int = 0
    not_searched: list[str] = field(default_factory=list)
    base: OutputRecipe | None = None


@dataclass(frozen=True, slots=True)
class ComparedPart:
    """The difference of one part: of an output, or of the whole result (name "")."""

    name: str
    difference: OutputDifference


def explain_outputs(
    trial: Trial,
    intended: OutputRecipe,
    seconds: float = 60.0,
    watch: Watch | None = None,
    known: Sequence[OutputExplanation] = (),
    likely: Container[str] = (),
    others: Sequence[OutputRecipe] = (),
) -> OutputDifference:
    """Compares the device's result with the intended one: tries equality, then single mistakes, then pairs of mistakes.

    Args:
        trial: compares recipes with the device's result.
        intended: the recipe without mistakes.
        seconds: time limit.
        watch: function that is called with the name of the search, the number of the explanation, and the number of all.
        known: explanations of other frames, which are tried first.
        likely: families of which pairs are tried first.
        others: recipes without mistakes as well, where it is not stated which is meant.

    Raises UsageError if the outputs do not fit the decoder."""
    bases = [intended, *others]
    difference = _compare_bases(trial, bases)
    if difference.equal or difference.exact:
        return difference
    if trial.says_nothing:
        difference.not_searched = ["every mistake: the device wrote nothing, which proves none"]
        difference.nearest = Explanation((), intended), trial.measure(intended)
        return difference
    if others:
        bases.sort(key=trial.estimate)
    search = _Search(trial, time.monotonic() + seconds, watch)
    exact = [e for e in (search.judge(k) for k in known) if e is not None]
    of_tables = not any(trial.lacks_one(base) for base in bases)
    if not exact:
        base_of: dict[int, OutputRecipe] = {}
        exact = search.try_all(list_singles_of_all(bases, of_tables, base_of), "single mistakes")
        if others and exact:
            exact, difference.base = _choose_base(exact, base_of, len(bases))
    for base in bases:
        exact = exact or _search_pairs(search, base, likely, of_tables)
        if exact and others and difference.base is None and len(exact[0].causes) > 1:
            difference.base = base
    if not exact and not of_tables:
        search.not_searched.append("rarer mistakes: a result that lacks one row fits some by chance")
    difference.exact = _group(exact)
    difference.nearest = None if exact else search.find_nearest(Explanation((), bases[0]))
    difference.tried, difference.not_searched = search.tried, search.not_searched
    difference.notes = trial.list_notes() + [BEYOND] * (search.beyond and not exact)
    difference.notes += [f"{search.undone} would reproduce it, but one undoes the other: not named"] * (
        bool(search.undone) and not exact
    )
    listed = sum(len(group) for group in difference.exact)
    more = len({frozenset(e.causes) for e in exact if len(e.causes) == min(len(e.causes) for e in exact)}) - listed
    difference.notes += [f"{count(more, 'more mistake')} equally exact, not listed"] if more > 0 else []
    return difference


def _compare_bases(trial: Trial, bases: Sequence[OutputRecipe]) -> OutputDifference:
    """Returns the difference if the device wrote what one of these recipes makes, perhaps with a mistake of writing; else one
    that says nothing yet."""
    writings = [trial.compare(base) for base in bases]
    made = [at for at, writing in enumerate(writings) if writing == ()]
    made = made or [at for at, writing in enumerate(writings) if writing is not None]
    at = made[0] if made else 0
    writing = trial.compare(bases[at]) if len(bases) > 1 else writings[0]  # notes are of the last one that is compared
    difference = OutputDifference(writing == (), *trial.sizes(bases[at]), notes=trial.list_notes())
    if writing:
        difference.exact = [[Explanation(writing, bases[at])]]
    if made and len([w for w in writings if w == writing]) < len(bases):
        difference.base = bases[at]
    return difference


def _choose_base(
    exact: list[OutputExplanation], base_of: dict[int, OutputRecipe], bases: int
) -> tuple[list[OutputExplanation], OutputRecipe | None]:
    """Returns the explanations that have the base of the first one, and this base, None if the same mistake is as exact with
    every other one. base_of: by the id() of a recipe."""
    base = base_of[id(exact[0].recipe)]
    alike = [e for e in exact if e.causes == exact[0].causes]
    return [e for e in exact if base_of[id(e.recipe)] == base], base if len(alike) < bases else None


def _search_pairs(
    search: _Search, base: OutputRecipe, likely: Container[str], of_tables: bool
) -> list[OutputExplanation]:
    """Returns the exact pairs of mistakes, as far as the time allows."""
    probable = [page for page in pages() if page.NAME in likely]
    search.undoing = Undoing(search.trial, base)
    for name, explanations in (
        ("pairs of mistakes", partial(list_pairs_of_outputs, probable, base, search.trial)),
        ("pairs of mistakes", partial(list_pairs_of_outputs, pages(), base, search.trial)),
        ("pairs with a rarer mistake", partial(list_rarer_pairs, pages(), base, search.trial)),
    ):
        if search.over or (name.endswith("rarer mistake") and not of_tables):
            break
        exact = search.try_all(explanations(), name)
        if exact:
            return exact
    return []


@dataclass(slots=True)
class _Search:
    trial: Trial
    deadline: float
    watch: Watch | None
    tried: int = 0
    over: bool = False
    beyond: bool = False  # whether more mistakes than are named together reproduced the result
    not_searched: list[str] = field(default_factory=list)
    near: list[tuple[float, int, OutputExplanation]] = field(default_factory=list)
    undoing: Undoing | None = None
    undone: str = ""  # two mistakes of which one undoes the other, in words

    def try_all(self, explanations: Iterator[OutputExplanation], name: str) -> list[OutputExplanation]:
        """Returns the exact explanations, the simplest first. Single mistakes are tried all, whatever the time: what is
        equally exact must not depend on the machine."""
        exact: list[OutputExplanation] = []
        listed = [*explanations] if name.startswith("single") else None
        last = -1
        hopeless: tuple[Mistake, ...] = ()
        for at, explanation in enumerate(explanations if listed is None else listed):
            late = listed is None and at % EVERY == 0 and time.monotonic() > self.deadline
            if late or at == last:
                self.over = True
                why = "an exact match was found" if at == last else "the time limit was reached"
                self.not_searched.append(f"{name} after the first {at}: {why}")
                break
            if self.watch is not None:
                self.watch(name, at + 1, 0 if listed is None else len(listed))
            if listed is not None and explanation.causes == hopeless:
                continue  # the same mistake of another base
            found = self.judge(explanation, name.startswith("single"))
            hopeless = explanation.causes if found is None and self.trial.lacks_scores else ()
            if found is not None:
                exact.append(found)
                last = at + 1 + MORE if listed is None and last < 0 else last
        return sorted(
            exact, key=lambda e: (len(e.causes), " another than " in e.said, e.recipe.steps, " (only " in e.said)
        )

    def judge(self, explanation: OutputExplanation, near: bool = False) -> OutputExplanation | None:
        """Returns the explanation with the mistakes of writing if it reproduces the device's result, else None. near: keep
        its distance."""
        self.tried += 1
        try:
            with np.errstate(all="ignore"):
                writing = self.trial.compare(explanation.recipe)
                if writing is not None and len(explanation.causes) + len(writing) > MOST_CAUSES:
                    self.beyond = True
                    return None
                if writing is not None and self.undoing is not None and self.undoing.holds(explanation):
                    self.undone = self.undone or explanation.said
                    return None
                if writing is not None:
                    return Explanation((*explanation.causes, *writing), explanation.recipe)
                if near and self.trial.near:
                    away = self.trial.estimate(explanation.recipe)
                    self.near = sorted([*self.near, (away, self.tried, explanation)], key=lambda n: n[:2])[:NEAREST]
        except (UsageError, ValueError, IndexError, ArithmeticError):  # outputs that do not fit the decoder any more
            return None
        return None

    def find_nearest(self, intended: OutputExplanation) -> tuple[OutputExplanation, Rest]:
        """Returns the nearest single mistake, or the intended result itself, with what remains."""
        with np.errstate(all="ignore"):
            own = self.trial.estimate(intended.recipe)
            best = min([(own, 0, intended), *self.near], key=lambda n: n[:2])[2]
            return best, self.trial.measure(best.recipe)


def _group(exact: list[OutputExplanation]) -> list[list[OutputExplanation]]:
    groups: dict[tuple[str, ...], list[OutputExplanation]] = {}
    fewest = min((len(e.causes) for e in exact), default=0)
    apart = {frozenset(e.causes): e for e in reversed(exact) if len(e.causes) == fewest}  # of two orders, the first
    for explanation in reversed(apart.values()):
        groups.setdefault(tuple(sorted(c.family for c in explanation.causes)), []).append(explanation)
    alike = [e for group in groups.values() for e in group[:MOST_ALIKE]]
    further = [e for group in groups.values() for e in group[MOST_ALIKE:]]
    listed = [*alike, *further][:MOST_EXACT]
    return [kept for group in groups.values() if (kept := [e for e in group if any(e is one for one in listed)])]


__all__ = ["ComparedPart", "Mistake", "OutputDifference", "OutputExplanation", "explain_outputs"]
