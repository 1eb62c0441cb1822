"""When numbers of a device are those of a recipe (OUTPUTS.md section 3): within the rounding errors of float32, or exactly
as a rounding to fewer digits makes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.outputs.device import Rows

Array = npt.NDArray[Any]
COORDINATE = 2.0**-19  # 32 roundings of float32, relative to the largest coordinate
SCORE = 2.0**-20  # 16 roundings, of numbers up to 1
LARGEST = float(np.finfo(np.float32).max)  # beyond it a device in float32 has infinity
MOST_ALIGNED = 4000  # rows that are paired regardless of their order
MOST_COUNTED = 4_000_000  # pairs of rows in which equal ones are counted


@dataclass(frozen=True, slots=True)
class Writing:
    """How numbers were written. numbers, scores: "", or the mistake in words. ordered: whether the rows have the recipe's
    order, or that of falling scores, apart from equal ones."""

    numbers: str
    scores: str
    ordered: bool

    @property
    def said(self) -> tuple[str, ...]:
        return tuple(text for text in (self.numbers, self.scores) if text)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rows that a recipe makes. numbers: (N, K). scores: (N,). classes: (N,). unit: the largest coordinate that was
    computed on the way, for the errors of float32."""

    numbers: Array
    scores: Array
    classes: Array
    unit: float

    def __len__(self) -> int:
        return len(self.numbers)


class Agreement:
    """Compares the device's rows with those of recipes. digits: decimals that the user intends, -1 for all. cut: whether
    they are meant to be cut, not rounded."""

    def __init__(self, theirs: Rows, digits: int = -1, cut: bool = False):
        self.theirs = theirs = replace(theirs, numbers=bound(theirs.numbers))
        self._digits = digits
        self._modes = _list_modes(theirs.numbers, theirs.decimals[0], theirs.significant[0], digits, cut)
        scores = theirs.scores
        self._score_modes = (
            _list_modes(scores, theirs.decimals[1], theirs.significant[1], digits, cut) if scores is not None else []
        )
        self._reach, self._score_reach = (
            _find_reach(self._modes, theirs.numbers),
            _find_reach(self._score_modes, theirs.scores),
        )
        scores_known = theirs.scores is not None and bool(len(theirs.scores))
        self._largest_score = max(1.0, float(np.abs(theirs.scores).max())) if scores_known else 1.0  # type: ignore[arg-type]
        self._names: Array | None = None
        if theirs.names is not None:
            self._names = np.unique(np.array(theirs.names), return_inverse=True)[1].reshape(-1)

    def compare(self, ours: Wanted) -> Writing | None:
        """Returns how the device wrote these rows, None if it did not write them."""
        theirs = self.theirs
        if len(ours) != len(theirs) or ours.numbers.shape[1] < theirs.numbers.shape[1]:
            return None
        numbers = ours.numbers[:, : theirs.numbers.shape[1]]
        pairs = self._pair(ours, numbers)
        if pairs is None:
            return None
        if theirs.classes is not None and (ours.classes[pairs] != theirs.classes).any():
            return None
        if self._names is not None and not _one_to_one(ours.classes[pairs], self._names):
            return None
        error = np.broadcast_to(_find_error(numbers[pairs], ours), numbers.shape)
        hows = [m for m in self._modes if m.fits(numbers[pairs], theirs.numbers, error)]
        score_hows = [_FULL]
        if theirs.scores is not None:
            score_error = SCORE * np.maximum(np.abs(ours.scores[pairs]), 1.0)
            score_hows = [m for m in self._score_modes if m.fits(ours.scores[pairs], theirs.scores, score_error)]
        if not hows or not score_hows:
            return None
        ordered = _is_falling(ours.scores[pairs]) or bool((pairs == np.arange(len(pairs))).all())
        both = next((m for m in hows if m in score_hows), None)
        if hows[0].said and score_hows[0].said and both is not None:
            return Writing(both.say("coordinates and scores"), "", ordered)
        return Writing(hows[0].say("coordinates"), score_hows[0].say("scores"), ordered)

    @property
    def parts(self) -> frozenset[str]:
        """What the device wrote: numbers, scores, classes."""
        known = {"scores": self.theirs.scores, "classes": self.theirs.classes}
        return frozenset({"numbers"} | {name for name, values in known.items() if values is not None})

    def find_equal_parts(self, ours: Wanted) -> frozenset[str]:
        """Returns which of the parts that the device wrote, each by itself in any order, are those of these rows."""
        theirs, equal = self.theirs, set[str]()
        if len(ours) != len(theirs) or not len(ours) or ours.numbers.shape[1] < theirs.numbers.shape[1]:
            return frozenset()
        if theirs.scores is not None:
            away = np.abs(np.sort(ours.scores) - np.sort(theirs.scores))
            equal |= {"scores"} if (away <= self.score_reach).all() else set()
        if theirs.classes is not None:
            equal |= {"classes"} if (np.sort(ours.classes) == np.sort(theirs.classes)).all() else set()
        if len(ours) <= MOST_ALIGNED:
            near = self._near_numbers(ours, ours.numbers[:, : theirs.numbers.shape[1]])
            paired = near.any(axis=0).all() and near.any(axis=1).all() and _match(near) is not None
            equal |= {"numbers"} if paired else set()
        return frozenset(equal)

    def find_right_parts(self, ours: Wanted) -> frozenset[str]:
        """Returns which parts of the device's rows, each by itself in any order, are those of these rows: boxes, points,
        scores, classes."""
        right = set(self.find_equal_parts(ours) - {"numbers"})
        width = self.theirs.numbers.shape[1]
        if len(ours) != len(self.theirs) or not 0 < len(ours) <= MOST_ALIGNED or ours.numbers.shape[1] < width:
            return frozenset(right)
        for name, columns in (("boxes", range(min(width, 4))), ("points", range(4, width))):
            near = self._near_numbers(ours, ours.numbers[:, :width], columns)
            if columns and near.any(axis=0).all() and near.any(axis=1).all() and _match(near) is not None:
                right.add(name)
        return frozenset(right)

    def find_share(self, ours: Wanted) -> float:
        """Returns how many rows both have, as a share of those that one of them has."""
        equal = self.count_equal(ours)
        return equal / max(len(ours) + len(self.theirs) - equal, 1)

    @property
    def score_reach(self) -> float:
        """How far a score may be from the device's."""
        return self._score_reach + SCORE * self._largest_score

    def find_highest(self) -> tuple[float, ...]:
        """Returns between which two numbers the highest score is, () without scores."""
        scores = self.theirs.scores
        if scores is None or not len(scores):
            return ()
        return float(scores.max()) - self.score_reach, float(scores.max()) + self.score_reach

    def contains(self, ours: Wanted, place: int | None = None, whole: bool = True) -> bool:
        """Returns whether one of these rows is among the device's. place: compare with this one of the device's only. whole:
        with its numbers, not its score and class alone."""
        theirs = self.theirs
        if not len(theirs) or ours.numbers.shape[1] < theirs.numbers.shape[1]:
            return False
        near = np.ones((len(ours), len(theirs)), bool)
        if whole:
            numbers = ours.numbers[:, None, : theirs.numbers.shape[1]]
            near = (np.abs(numbers - theirs.numbers[None]) <= self._find_reach(numbers, ours)).all(axis=2)
        if theirs.scores is not None:
            near &= (
                np.abs(ours.scores[:, None] - theirs.scores[None]) <= self._score_reach + SCORE * self._largest_score
            )
        if theirs.classes is not None:
            near &= ours.classes[:, None] == theirs.classes[None]
        return bool(near.any() if place is None else near[:, place].any())

    def has_scores(self, scores: Array, highest: bool) -> bool:
        """Returns whether some of the device's scores, the highest and the lowest, are among these (N,). highest:
        compare the highest only."""
        theirs = self.theirs.scores
        if theirs is None or not len(theirs):
            return True
        ordered, wanted = np.sort(scores), np.sort(theirs)[[-1] if highest else [0, -1, len(theirs) // 2]]
        if not len(ordered):
            return False
        place = np.clip(np.searchsorted(ordered, wanted), 1, max(len(ordered) - 1, 1))
        near = np.minimum(
            np.abs(ordered[place - 1] - wanted), np.abs(ordered[np.minimum(place, len(ordered) - 1)] - wanted)
        )
        return bool((near <= self._score_reach + SCORE * self._largest_score).all())

    def may_share(self, ours: Wanted | None) -> bool:
        """Returns whether one of the device's rows is among these, or there are too many to tell."""
        return ours is None or len(ours) * len(self.theirs) > MOST_COUNTED or self.count_equal(ours) > 0

    def count_equal(self, ours: Wanted) -> int:
        """Returns how many of the device's rows are among these."""
        theirs = self.theirs
        if not len(ours) or ours.numbers.shape[1] < theirs.numbers.shape[1] or len(ours) * len(theirs) > MOST_COUNTED:
            return 0
        return int(self._near(ours, ours.numbers[:, : theirs.numbers.shape[1]]).any(axis=0).sum())

    def _near(self, ours: Wanted, numbers: Array) -> Array:
        """Returns which of our rows (N) may be which of theirs (M), bool (N, M)."""
        theirs = self.theirs
        near = self._near_numbers(ours, numbers)
        if theirs.classes is not None:
            near &= ours.classes[:, None] == theirs.classes[None]
        if theirs.scores is not None:
            near &= (
                np.abs(ours.scores[:, None] - theirs.scores[None]) <= self._score_reach + SCORE * self._largest_score
            )
        return near

    def _near_numbers(self, ours: Wanted, numbers: Array, columns: range | None = None) -> Array:
        """Returns which of our rows (N) have the numbers of which of theirs (M), bool (N, M). columns: of which columns, None for
        all."""
        near, reach = np.ones((len(ours), len(self.theirs)), bool), self._find_reach(numbers, ours)
        for column in range(numbers.shape[1]) if columns is None else columns:
            near &= np.abs(numbers[:, column, None] - self.theirs.numbers[None, :, column]) <= reach
        return near

    def _find_reach(self, numbers: Array, ours: Wanted) -> Array:
        """Returns how far numbers of ours, rows along the last axis, may be from the device's: (..., 1)."""
        return np.asarray(self._reach + _find_error(numbers, ours))

    def _pair(self, ours: Wanted, numbers: Array) -> Array | None:
        """Returns, for each of the device's rows, the place of ours: in the same order if that fits, else by values. None
        if they cannot be paired."""
        theirs = self.theirs
        places = np.arange(len(ours))
        same = theirs.classes is None or bool((ours.classes == theirs.classes).all())
        if theirs.scores is not None:
            same = same and bool((np.abs(ours.scores - theirs.scores) <= self.score_reach).all())
        if same and bool((np.abs(numbers - theirs.numbers) <= self._find_reach(numbers, ours)).all()):
            return places
        if len(ours) > MOST_ALIGNED:
            return None
        near = self._near(ours, numbers)
        if not near.any(axis=0).all() or not near.any(axis=1).all():
            return None
        return _match(near)


def bound(numbers: Array) -> Array:
    """Returns the numbers with the largest of float32 in place of what is beyond it, infinity included."""
    return np.clip(numbers, -LARGEST, LARGEST)


def _find_error(numbers: Array, ours: Wanted) -> Array:
    """Returns the error of float32 of each row (..., 1): its numbers may be differences of each other, but for those that
    are beyond float32."""
    sizes = np.abs(numbers)
    return np.asarray(COORDINATE * np.where(sizes < LARGEST, sizes, 0.0).max(axis=-1, keepdims=True, initial=ours.unit))


def _match(near: Array) -> Array | None:
    """Returns for each column a row of its own at which `near` is true; None if there is no such pairing."""
    owner: dict[int, int] = {}

    def place(column: int, seen: set[int]) -> bool:
        for row in np.flatnonzero(near[:, column]).tolist():
            if row not in seen:
                seen.add(row)
                if row not in owner or place(owner[row], seen):
                    owner[row] = column
                    return True
        return False

    order = np.argsort(near.sum(axis=0), kind="stable").tolist()
    try:
        if not all(place(column, set()) for column in order):
            return None
    except RecursionError:
        return None
    pairs = np.zeros(near.shape[1], np.int64)
    for row, column in owner.items():
        pairs[column] = row
    return pairs


def _one_to_one(numbers: Array, names: Array) -> bool:
    """Returns whether every class has one name, and every name one class."""
    both = {*zip(numbers.tolist(), names.tolist(), strict=True)}
    return len(both) == len({n for n, _ in both}) == len({n for _, n in both})


def _is_falling(scores: Array) -> bool:
    return bool((np.diff(scores) <= SCORE).all())


@dataclass(frozen=True, slots=True)
class _Mode:
    """A way to write numbers. kind: full, round, truncate, significant, float16. digits: decimals of round and truncate, or
    significant digits."""

    kind: str
    digits: int = 0
    stated: bool = False

    def reach(self, largest: float) -> float:
        """Returns the largest change of values up to `largest` by this writing."""
        unit = 10.0**-self.digits
        relative = {"float16": 2.0**-10, "significant": 5 * unit}
        return (
            relative[self.kind] * largest
            if self.kind in relative
            else {"full": 0.0, "round": unit / 2, "truncate": unit}[self.kind]
        )

    def fits(self, ours: Array, theirs: Array, error: Array | float) -> bool:
        """Returns whether these numbers of theirs are ours, written so. error: of float32."""
        away = theirs - ours
        if self.kind == "truncate":
            inside = (np.abs(theirs) <= np.abs(ours) + error) & (np.abs(away) < 10.0**-self.digits + error)
            return bool(inside.all())
        if self.kind == "significant":
            return bool((np.abs(away) <= _find_unit(ours, theirs, self.digits) / 2 * (1 + 1e-9) + error).all())
        if self.kind == "float16":
            with np.errstate(over="ignore"):
                low, high = (ours - error).astype(np.float16), (ours + error).astype(np.float16)
            halves = theirs.astype(np.float16)
            return bool(((halves >= low) & (halves <= high)).all())
        return bool((np.abs(away) <= self.reach(0.0) * (1 + 1e-9) + error).all())

    @property
    def said(self) -> bool:
        """Whether this is a mistake of writing."""
        return self.kind != "full" and not self.stated

    def say(self, what: str) -> str:
        """Returns the mistake in words, "" for none."""
        if not self.said:
            return ""
        if self.kind == "float16":
            return f"{what} in float16"
        if self.kind == "significant":
            return f"{what} written with {self.digits} significant digit{'s' * (self.digits != 1)}"
        verb = "rounded" if self.kind == "round" else "truncated"
        places = "to whole numbers" if not self.digits else f"to {self.digits} decimal{'s' * (self.digits != 1)}"
        return f"{what} {verb} {places}"


_FULL = _Mode("full")


def _find_reach(modes: list[_Mode], values: Array | None) -> float:
    largest = 0.0 if values is None or not values.size else float(np.abs(values).max())
    return max((mode.reach(largest) for mode in modes), default=0.0)


def _find_unit(ours: Array, theirs: Array, digits: int) -> Array:
    """Returns the unit of the last of so many significant digits of each number."""
    largest = np.maximum(np.maximum(np.abs(ours), np.abs(theirs)), 1e-300)
    return functions64.power(10.0, np.floor(functions64.log10(largest)) - digits + 1)


def _list_modes(
    values: Array | None, decimals: int | None, significant: int | None, digits: int, cut: bool
) -> list[_Mode]:
    """Returns the ways in which these values may have been written, the most exact first."""
    modes = [_FULL]
    if values is None or not values.size:
        return modes
    if decimals is None and (values == np.rint(values)).all():
        decimals = 0
    if decimals is not None and decimals <= 5:
        stated = decimals <= digits
        modes += [
            _Mode("round", max(decimals, digits), stated and not cut),
            _Mode("truncate", decimals, stated and cut),
        ]
    if significant is not None and significant <= 5:
        modes.append(_Mode("significant", significant))
    if _are_halves(values, decimals):
        modes.append(_Mode("float16"))
    return modes


def _are_halves(values: Array, decimals: int | None) -> bool:
    """Returns whether every number is one of float16, as far as its decimals tell."""
    with np.errstate(over="ignore", invalid="ignore"):
        away = np.abs(values.astype(np.float16).astype(np.float64) - values)
    return bool((away <= (0.0 if decimals is None else 0.5000001 * 10.0**-decimals)).all())
