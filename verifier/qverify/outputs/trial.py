"""Compares recipes with the device's result: rows of detections, decoded arrays, arrays of outputs, masks, text."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.results import Boxes
from qverify.mistakes import Mistake
from qverify.outputs.agreement import COORDINATE, SCORE, Agreement, Wanted, Writing
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.reproduction import Reproduction, make_plain
from qverify.plural import count

Array = npt.NDArray[Any]
WRITING = "writing"  # family of mistakes that are seen in how numbers are written
FLOAT = 2.0**-21  # 8 roundings of float32, relative to the largest value
SAMPLED = 64
CLOSED = 1e-6  # difference of an IoU and the threshold that float32 may round away
MOST_CLOSED = 10  # detections that such an IoU may decide


@dataclass(frozen=True, slots=True)
class Rest:
    """What remains between a recipe's result and the device's. equal: rows, or elements, that are equal. of: how many the
    device wrote. ours: how many the recipe makes. mean, largest: mean and largest absolute difference of the elements (of
    rows: of those that belong together), NaN if none belong together. quantiles: of these differences: 50, 90, 99 %."""

    equal: int
    of: int
    ours: int
    mean: float = float("nan")
    largest: float = float("nan")
    quantiles: tuple[float, ...] = field(default=())


class Trial(Protocol):
    """Compares the results of recipes with the device's."""

    says_nothing: bool
    near: bool  # whether the last recipe that was compared is worth a measure
    lacks_scores: bool  # whether it fails by its scores or classes, wherever its boxes are
    parts: frozenset[str]  # of rows: what they have, which recipes may have in common with them; else none

    def compare(self, recipe: OutputRecipe) -> tuple[Mistake, ...] | None:
        """Returns the mistakes of writing with which this is the device's result, () for none; None if it is not."""

    def sizes(self, recipe: OutputRecipe) -> tuple[str, str]:
        """Returns the size of the device's result and of the recipe's, in words."""

    def estimate(self, recipe: OutputRecipe) -> float:
        """Returns a distance: smaller is nearer."""

    def may_hold(self, recipe: OutputRecipe) -> bool:
        """Returns whether the recipe with one more mistake of a later stage may make the device's result: what later stages
        do not change is equal."""

    def holds_rows(self, recipe: OutputRecipe) -> bool:
        """Returns whether the device's rows are among those of the anchors, whichever of them are written."""

    def lacks_one(self, recipe: OutputRecipe) -> bool:
        """Returns whether the device wrote the recipe's rows without one of them: that fits many a mistake by chance."""

    def find_equal_parts(self, recipe: OutputRecipe) -> tuple[frozenset[str], float]:
        """Returns the parts in which the device's rows, and their number, are those of the recipe; and how many rows both
        have, as a share of those that one of them has."""

    def find_right_parts(self, recipe: OutputRecipe) -> frozenset[str]:
        """Returns the parts of the device's rows that are the recipe's, each by itself; of other results none."""

    def measure(self, recipe: OutputRecipe) -> Rest:
        """Returns what remains."""

    def list_notes(self) -> list[str]:
        """Returns what is no mistake, but should be known."""


class RowsTrial:
    """Compares rows: detections, keypoints, classes. detector: whether candidates are known."""

    def __init__(self, reproduction: Reproduction, agreement: Agreement, detector: bool):
        self._reproduction, self._agreement, self._detector = reproduction, agreement, detector
        self.says_nothing = not len(agreement.theirs)
        self.parts = agreement.parts
        self._unordered = False
        self._highest = agreement.find_highest()
        self._last: tuple[OutputRecipe, Wanted | None] | None = None  # the recipe whose rows were made last, and these
        self.near, self.lacks_scores = True, False

    def compare(self, recipe: OutputRecipe) -> tuple[Mistake, ...] | None:
        self.near = self.lacks_scores = False
        if self._detector:
            if self._highest and self._reproduction.exceeds(recipe, self._highest[1]):
                self.lacks_scores = True
                return None
            best = self._reproduction.make_best(recipe)
            if best is not None and not self._agreement.contains(best):
                self.lacks_scores = not self._agreement.contains(best, whole=False)
                return None
        self.near = True
        rows = self._make(recipe)
        writing = None if rows is None else self._agreement.compare(rows)
        if writing is None and self._detector and rows is not None:
            writing = self._compare_closed(recipe, len(rows))
        if writing is None:
            return None
        self._unordered = not writing.ordered
        if recipe.evidence.kind == "classes" and not writing.ordered:
            return (Mistake(WRITING, "order: the best class is not the first"), *_list_writing(writing))
        return _list_writing(writing)

    def _compare_closed(self, recipe: OutputRecipe, made: int) -> Writing | None:
        """Returns how the device wrote the recipe's rows, if every IoU within float32's rounding of the threshold counts as
        above it. The row with the highest score is the same then: rows of which none is the device's are not made again."""
        if (
            recipe.settings.nms == "none"
            or recipe.settings.iou <= CLOSED
            or abs(made - len(self._agreement.theirs)) > MOST_CLOSED
            or not self._agreement.may_share(self._make(recipe))
        ):
            return None
        closed = replace(recipe, settings=replace(recipe.settings, iou=recipe.settings.iou - CLOSED))
        rows = self._reproduction.make_rows(closed)
        return None if rows is None or len(rows) == made else self._agreement.compare(rows)

    def sizes(self, recipe: OutputRecipe) -> tuple[str, str]:
        rows = self._make(recipe)
        return count(len(self._agreement.theirs), "row"), "too many rows" if rows is None else count(len(rows), "row")

    def may_hold(self, recipe: OutputRecipe) -> bool:
        """Returns whether the device's scores are among those of the anchors: no later mistake changes scores."""
        if not self._detector or recipe.rows:
            return True
        return self._agreement.has_scores(self._reproduction.make_scores(recipe), recipe.settings.multi_label)

    def holds_rows(self, recipe: OutputRecipe) -> bool:
        theirs = self._agreement.theirs
        if not self._detector or theirs.scores is None or not len(theirs):
            return True
        order = np.argsort(theirs.scores)
        picked = (
            {int(order[-1])} if recipe.settings.multi_label else {int(order[at]) for at in (0, -1, len(order) // 2)}
        )
        for place in picked:
            some = self._reproduction.make_rows_of_score(
                recipe, float(theirs.scores[place]), self._agreement.score_reach
            )
            if some is not None and not self._agreement.contains(some, place):
                return False
        return True

    def lacks_one(self, recipe: OutputRecipe) -> bool:
        rows, written = self._make(recipe), len(self._agreement.theirs)
        return rows is not None and len(rows) == written + 1 and self._agreement.count_equal(rows) == written

    def find_equal_parts(self, recipe: OutputRecipe) -> tuple[frozenset[str], float]:
        rows = self._make(recipe)
        if rows is None:
            return frozenset(), 0.0
        return self._agreement.find_equal_parts(rows), self._agreement.find_share(rows)

    def find_right_parts(self, recipe: OutputRecipe) -> frozenset[str]:
        rows = self._make(recipe)
        return frozenset() if rows is None else self._agreement.find_right_parts(rows)

    def estimate(self, recipe: OutputRecipe) -> float:
        rows = self._make(recipe)
        if rows is None:
            return np.inf
        total = max(len(self._agreement.theirs), len(rows), 1)
        return 1.0 - self._agreement.count_equal(rows) / total

    def measure(self, recipe: OutputRecipe) -> Rest:
        rows, theirs = self._make(recipe), self._agreement.theirs
        if rows is None or not len(rows) or not len(theirs) or len(rows) * len(theirs) > 10**7:
            return Rest(0, len(theirs), 0 if rows is None else len(rows))
        width = min(rows.numbers.shape[1], theirs.numbers.shape[1])
        away = np.abs(rows.numbers[:, None, :width] - theirs.numbers[None, :, :width])
        far = away.max(axis=2) if width else np.zeros((len(rows), len(theirs)))
        if theirs.classes is not None:
            far = np.where(rows.classes[:, None] == theirs.classes[None], far, np.inf)
        nearest = far.min(axis=0)
        known = nearest[np.isfinite(nearest)]
        equal = self._agreement.count_equal(rows)
        if not known.size:
            return Rest(equal, len(theirs), len(rows))
        return Rest(equal, len(theirs), len(rows), float(known.mean()), float(known.max()), _quantiles(known))

    def list_notes(self) -> list[str]:
        return ["the rows are not in the order of falling scores"] if self._unordered else []

    def _make(self, recipe: OutputRecipe) -> Wanted | None:
        if self._last is None or self._last[0] is not recipe:
            self._last = recipe, self._make_rows(recipe)
        return self._last[1]

    def _make_rows(self, recipe: OutputRecipe) -> Wanted | None:
        if self._detector:
            return self._reproduction.make_rows(recipe)
        result = self._reproduction.make_result(recipe)
        sides = [*recipe.evidence.size, *recipe.settings.frame, 1]
        if isinstance(result, Boxes):
            return self._reproduction.write(result, float(max(sides)), recipe)
        return self._reproduction.tabulate(result, float(max(sides)), recipe)


class ArraysTrial:
    """Compares arrays by name: decoded boxes and scores of all anchors, an output, a mask, a vector of classes. theirs: of the device; `errors`:
    the absolute error of float32 that is allowed for each, 0 for exact ones."""

    def __init__(self, theirs: dict[str, Array], reproduction: Reproduction, kind: str):
        self._theirs, self._reproduction, self._kind = theirs, reproduction, kind
        self.says_nothing = not any(v.size for v in theirs.values())
        self.near = self.lacks_scores = False
        self.parts = frozenset[str]()

    def compare(self, recipe: OutputRecipe) -> tuple[Mistake, ...] | None:
        ours = self._make(recipe, True)
        if ours is None or not self._fits(ours, recipe, True):
            return None
        if self._kind == "decoded":
            ours = self._make(recipe, False)
            if ours is None:
                return None
        how = self._fits(ours, recipe, False)
        if not how:
            return None
        return () if how == "full" else (Mistake(WRITING, how),)

    def sizes(self, recipe: OutputRecipe) -> tuple[str, str]:
        ours = self._make(recipe, False) or {}
        return _count_elements(self._theirs), _count_elements(ours)

    def may_hold(self, recipe: OutputRecipe) -> bool:
        """Returns whether scores are equal where geometry may differ, or values in any order where places may differ."""
        if self._kind == "decoded":
            theirs = {"scores": self._theirs["scores"]} if "scores" in self._theirs else {}
            return ArraysTrial(theirs, self._reproduction, "decoded").compare_sample(recipe) if theirs else True
        if self._kind in ("mask", "vector"):
            return True
        ((name, written),) = self._theirs.items()
        made = (self._make(recipe, False) or {}).get(name)
        if made is None:
            return False
        if made.size != written.size:
            return False
        mine, error = made.astype(np.float64), float(self._error(name, made, recipe).max(initial=0.0))
        ends = abs(mine.min() - written.min()) <= error and abs(mine.max() - written.max()) <= error
        mean = float(written.mean(dtype=np.float64))
        return bool(ends and abs(float(mine.mean()) - mean) <= error + 1e-9 * abs(mean))

    def compare_sample(self, recipe: OutputRecipe) -> bool:
        """Returns whether the sampled anchors are equal."""
        ours = self._make(recipe, True)
        return ours is not None and bool(self._fits(ours, recipe, True))

    def holds_rows(self, recipe: OutputRecipe) -> bool:
        return True

    def lacks_one(self, recipe: OutputRecipe) -> bool:
        return False

    def find_equal_parts(self, recipe: OutputRecipe) -> tuple[frozenset[str], float]:
        return frozenset(), 0.0

    def find_right_parts(self, recipe: OutputRecipe) -> frozenset[str]:
        return frozenset()

    def estimate(self, recipe: OutputRecipe) -> float:
        rest = self.measure(recipe)
        return 1.0 - rest.equal / max(rest.of, 1) if rest.ours == rest.of else np.inf

    def measure(self, recipe: OutputRecipe) -> Rest:
        ours = self._make(recipe, False) or {}
        of = sum(v.size for v in self._theirs.values())
        made = sum(v.size for v in ours.values())
        if made != of or any(ours[n].size != v.size for n, v in self._theirs.items() if n in ours):
            return Rest(0, of, made)
        with np.errstate(all="ignore"):
            away = np.concatenate(
                [np.abs(ours[n].reshape(-1).astype(np.float64) - v.reshape(-1)) for n, v in self._theirs.items()]
            )
        away = np.where(np.isnan(away), np.inf, away)
        allowed = np.concatenate(
            [np.broadcast_to(self._error(n, ours[n], recipe), ours[n].shape).reshape(-1) for n in self._theirs]
        )
        return Rest(
            int(((away <= allowed) & np.isfinite(allowed)).sum()),
            of,
            made,
            float(away.mean()),
            float(away.max()),
            _quantiles(away),
        )

    def list_notes(self) -> list[str]:
        return []

    def _fits(self, ours: dict[str, Array], recipe: OutputRecipe, sampled: bool) -> str:
        """Returns how the device wrote these values: "full", or the mistake in words; "" if it did not (never for a
        sample that fits)."""
        ways = set()
        for name, theirs in self._theirs.items():
            mine = ours.get(name)
            if mine is None:
                return ""
            flat = (
                theirs.reshape(-1)
                if not (sampled and self._kind == "decoded")
                else theirs[self._sample(len(theirs))].reshape(-1)
            )
            if mine.size != flat.size:
                return ""
            shapes = [[d for d in v.shape if d > 1] for v in (mine, theirs)]
            if (
                self._kind == "arrays"
                and not recipe.steps
                and shapes[0] != shapes[1]
                and len(shapes[1]) > 1
                and sorted(shapes[0]) == sorted(shapes[1])
            ):
                stated, own = ("x".join(map(str, v)) for v in reversed(shapes))
                ways.add(f"shape: {own} stated as {stated}, the values not moved (a reshape instead of a transpose)")
            way = _compare_values(mine.reshape(-1), flat, self._error(name, mine, recipe).reshape(-1))
            if not way:
                return ""
            ways.add(way)
        return max(ways, key=len) if len(ways - {"full"}) else "full"

    def _sample(self, rows: int) -> Array:
        return np.unique(np.linspace(0, rows - 1, min(rows, SAMPLED)).astype(np.int64))

    def _error(self, name: str, ours: Array, recipe: OutputRecipe) -> Array:
        if self._kind == "decoded" and name == "boxes":
            largest = np.abs(ours).max(axis=1, keepdims=True, initial=float(max(*recipe.evidence.size, 1)))
            return np.asarray(
                np.broadcast_to(COORDINATE * largest, ours.shape)
            )  # corners are differences of its numbers
        if self._kind in ("decoded", "vector"):
            return SCORE * np.maximum(np.abs(ours), 1.0)
        if ours.dtype.kind in "iub":
            return np.zeros(ours.shape)
        largest = None if recipe.real else self._reproduction.make_largest(recipe)[name]
        return np.asarray(FLOAT * (np.abs(ours) if largest is None or largest.shape != ours.shape else largest))

    def _make(self, recipe: OutputRecipe, sampled: bool) -> dict[str, Array] | None:
        if self._kind == "decoded":
            index = self._sample(len(next(iter(self._theirs.values())))) if sampled else None
            return self._reproduction.make_decoded(recipe, index, set(self._theirs))
        if self._kind == "vector":
            return {name: self._reproduction.make_vector(recipe) for name in self._theirs}
        if self._kind == "mask":
            labels = make_plain(self._reproduction.make_result(recipe))
            for step in recipe.rows:
                labels = step.change(labels, recipe)
            return {name: np.asarray(labels) for name in self._theirs}
        name = recipe.evidence.target
        stored = self._theirs[name].dtype.kind in "iu" and bool(recipe.evidence.outputs[name].scale)
        if stored and not recipe.real:
            return {name: self._reproduction.make_stored(recipe)[name]}
        return {name: self._reproduction.make_real(recipe)[name]}


class TextTrial:
    """Compares recognized text."""

    def __init__(self, text: str, reproduction: Reproduction):
        self._text, self._reproduction = text, reproduction
        self.says_nothing = not text
        self.near, self.lacks_scores = True, False
        self.parts = frozenset[str]()

    def compare(self, recipe: OutputRecipe) -> tuple[Mistake, ...] | None:
        return () if make_plain(self._reproduction.make_result(recipe)) == self._text else None

    def sizes(self, recipe: OutputRecipe) -> tuple[str, str]:
        ours = make_plain(self._reproduction.make_result(recipe))
        return count(len(self._text), "character"), count(len(str(ours)), "character")

    def may_hold(self, recipe: OutputRecipe) -> bool:
        return True

    def holds_rows(self, recipe: OutputRecipe) -> bool:
        return True

    def lacks_one(self, recipe: OutputRecipe) -> bool:
        return False

    def find_equal_parts(self, recipe: OutputRecipe) -> tuple[frozenset[str], float]:
        return frozenset(), 0.0

    def find_right_parts(self, recipe: OutputRecipe) -> frozenset[str]:
        return frozenset()

    def estimate(self, recipe: OutputRecipe) -> float:
        rest = self.measure(recipe)
        return 1.0 - rest.equal / max(rest.of, rest.ours, 1)

    def measure(self, recipe: OutputRecipe) -> Rest:
        ours = str(make_plain(self._reproduction.make_result(recipe)))
        equal = sum(a == b for a, b in zip(ours, self._text, strict=False))
        return Rest(equal, len(self._text), len(ours))

    def list_notes(self) -> list[str]:
        return []


def _list_writing(writing: Writing) -> tuple[Mistake, ...]:
    return tuple(Mistake(WRITING, text) for text in writing.said)


def _compare_values(ours: Array, theirs: Array, error: Array) -> str:
    """Returns how these values were written: "full" or the mistake in words, "" if they were not."""
    both_nan = np.isnan(ours) & np.isnan(theirs) if ours.dtype.kind == theirs.dtype.kind == "f" else np.zeros(1, bool)
    with np.errstate(all="ignore"):
        away = np.abs(theirs.astype(np.float64) - ours)
        if (((away <= error) & np.isfinite(ours)) | (ours == theirs) | both_nan).all():
            return "full"
        if theirs.dtype.kind == "f" and (theirs.astype(np.float16) == theirs).all():
            low, high = (ours - error).astype(np.float16), (ours + error).astype(np.float16)
            if (np.isfinite(ours) & (theirs >= low) & (theirs <= high)).all():
                return "values in float16"
    return ""


def _quantiles(values: Array) -> tuple[float, ...]:
    finite = values[np.isfinite(values)]
    return tuple(float(v) for v in np.quantile(finite, (0.5, 0.9, 0.99))) if finite.size else ()


def _count_elements(arrays: dict[str, Array]) -> str:
    return count(sum(v.size for v in arrays.values()), "element")
