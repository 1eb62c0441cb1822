"""The way from the input to the picture, clipping, and the numbers that are written, made otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.results import Boxes
from qverify.decoders.parts.selection import find_placement
from qverify.outputs.agreement import Wanted
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.tables import Row

Array = npt.NDArray[Any]
Way = Callable[[Array, Array, Array], Array]  # of points in the input (..., 2), size, frame
WRITTEN = ("boxes", "plain boxes")
POINTS = 5  # of a face, whose order is tried in every way


def _has_frame(recipe: OutputRecipe) -> bool:
    return recipe.settings.frame != (0, 0) and recipe.evidence.size != (0, 0) and not recipe.placed


def _has_size(recipe: OutputRecipe) -> bool:
    return recipe.evidence.size != (0, 0)


# --- clipping
def _limits(recipe: OutputRecipe) -> Array:
    frame = recipe.settings.frame
    return np.array(recipe.evidence.size if frame == (0, 0) else frame, np.float64)


def _clip(low: Any, high: Callable[[Array, OutputRecipe], Array]) -> Any:
    """Corners cut to limits: function of the picture's sides."""

    def apply(found: Boxes, recipe: OutputRecipe) -> Boxes:
        points = found.boxes.reshape(-1, 2, 2)
        return replace(found, boxes=np.clip(points, low, high(_limits(recipe), recipe)).reshape(-1, 4))

    return apply


def _ends(found: Boxes, recipe: OutputRecipe) -> Boxes:
    """x1, y1 only from below, x2, y2 only from above."""
    b, limits = found.boxes, _limits(recipe)
    return replace(found, boxes=np.concatenate([np.maximum(b[:, :2], 0), np.minimum(b[:, 2:], limits)], axis=1))


def _corner_only(found: Boxes, recipe: OutputRecipe) -> Boxes:
    """x1, y1 clipped, width and height kept."""
    b = found.boxes
    corner = np.clip(b[:, :2], 0.0, _limits(recipe))
    return replace(found, boxes=np.concatenate([corner, corner + b[:, 2:] - b[:, :2]], axis=1))


def _sides_only(found: Boxes, recipe: OutputRecipe) -> Boxes:
    """Width and height clipped to those of the picture."""
    b, limits = found.boxes, _limits(recipe)
    sides = np.clip(b[:, 2:] - b[:, :2], 0.0, limits)
    return replace(found, boxes=np.concatenate([b[:, :2], b[:, :2] + sides], axis=1))


def _corner_and_sides(found: Boxes, recipe: OutputRecipe) -> Boxes:
    """x1, y1 clipped, then width and height to those of the picture, as of a rectangle."""
    return _sides_only(_corner_only(found, recipe), recipe)


def _inside(found: Boxes, recipe: OutputRecipe) -> Boxes:
    """Boxes that reach beyond the picture are left out."""
    b = found.boxes
    kept = ((b[:, :2] >= 0) & (b[:, 2:] <= _limits(recipe))).all(axis=1)
    return found.take(np.flatnonzero(kept))


CLIPS: dict[str, Any] = {
    "to the size of the input instead of the picture's": _clip(0.0, lambda s, r: np.array(r.evidence.size, np.float64)),
    "to height and width of the input": _clip(0.0, lambda s, r: np.array(r.evidence.size[::-1], np.float64)),
    "to the width of the picture on both axes": _clip(0.0, lambda s, r: s[[0, 0]]),
    "to the height of the picture on both axes": _clip(0.0, lambda s, r: s[[1, 1]]),
    "to 0 and 1": _clip(0.0, lambda s, r: np.ones(2)),
    "to height - 1 and width - 1": _clip(0.0, lambda s, r: s[::-1] - 1),
    "to the size of the input less 1": _clip(0.0, lambda s, r: np.array(r.evidence.size, np.float64) - 1),
    "to 1 and the size of the picture": _clip(1.0, lambda s, r: s),
    "from above only": _clip(-np.inf, lambda s, r: s),
    "x only": _clip((0.0, -np.inf), lambda s, r: np.array([s[0], np.inf])),
    "y only": _clip((-np.inf, 0.0), lambda s, r: np.array([np.inf, s[1]])),
    "x1, y1 from below, x2, y2 from above only": _ends,
    "x1, y1 only, the size is kept": _corner_only,
    "width and height only": _sides_only,
    "x1, y1, then width and height to the picture's": _corner_and_sides,
}

# --- the way back


def _pads(recipe: OutputRecipe, how: Callable[[Array, Array], Array]) -> Any:
    """The way back by another padding: function of the input's and the scaled picture's sides."""
    ratio = np.array(find_placement(recipe.evidence.size, recipe.settings).ratio)
    return ratio, how(np.array(recipe.evidence.size, np.float64), np.array(recipe.settings.frame, np.float64) * ratio)


def _placed_by(change: Callable[[Array, OutputRecipe], Array]) -> Any:
    """A step in the input after which the way back gives what `change` makes of points in the input."""

    def apply(found: Boxes, recipe: OutputRecipe) -> Boxes:
        placement = find_placement(recipe.evidence.size, recipe.settings)
        ratio, pad = np.array(placement.ratio), np.array(placement.pad)

        def move(points: Array) -> Array:
            return change(points, recipe) * ratio + pad

        points = None if found.keypoints is None else found.keypoints.copy()
        if points is not None:
            points[..., :2] = move(points[..., :2])
        return replace(found, boxes=move(found.boxes.reshape(-1, 2, 2)).reshape(-1, 4), keypoints=points)

    return apply


def _by_padding(how: Callable[[Array, Array], Array]) -> Any:
    def change(points: Array, recipe: OutputRecipe) -> Array:
        ratio, pad = _pads(recipe, how)
        return (points - pad) / ratio

    return _placed_by(change)


def _by_sides(way: Callable[[Array, Array, Array, Array, Array], Array]) -> Any:
    """Takes a way back: function of points, padding, ratio, the input's and the picture's sides."""

    def change(points: Array, recipe: OutputRecipe) -> Array:
        placement = find_placement(recipe.evidence.size, recipe.settings)
        sides = np.array(recipe.evidence.size, np.float64), np.array(recipe.settings.frame, np.float64)
        return way(points, np.array(placement.pad), np.array(placement.ratio), *sides)

    return _placed_by(change)


PADDINGS: dict[str, Callable[[Array, Array], Array]] = {
    "the padding rounded up": lambda size, part: np.ceil((size - np.rint(part)) / 2),
    "the padding of the picture cut to whole pixels": lambda size, part: np.floor((size - np.floor(part)) / 2),
    "the padding of the picture rounded up": lambda size, part: np.floor((size - np.ceil(part)) / 2),
    "the padding as a half (not rounded down)": lambda size, part: (size - np.rint(part)) / 2,
    "the padding of the picture cut, as a half": lambda size, part: (size - np.floor(part)) / 2,
    "the padding rounded to the nearest": lambda size, part: np.rint((size - part) / 2),
    "the padding of both sides, not rounded": lambda size, part: size - part,
    "the padding up to a multiple of 32 only": lambda size, part: np.floor(((size - np.rint(part)) % 32) / 2),
    "the padding at the bottom right (the picture at the far end)": lambda size, part: size - np.rint(part),
    "only the padding of x is cut": lambda size, part: np.floor((size - np.rint(part)) / 2) * np.array([1, 0]),
    "only the padding of y is cut": lambda size, part: np.floor((size - np.rint(part)) / 2) * np.array([0, 1]),
    "half of the padding is cut": lambda size, part: np.floor((size - np.rint(part)) / 2) / 2,
}
WAYS: dict[str, Callable[[Array, Array, Array, Array, Array], Array]] = {
    "by the corners' centres (width - 1, height - 1)": lambda x, p, r, s, f: (x - p) * (f - 1) / (f * r - 1),
    "by half a pixel ((x + 0.5) / ratio - 0.5)": lambda x, p, r, s, f: (x - p + 0.5) / r - 0.5,
    "by half a pixel of the input, not taken back": lambda x, p, r, s, f: (x - p + 0.5) / r,
    "by height and width of the picture": lambda x, p, r, s, f: x * f[::-1] / s,
    "by height and width of the input": lambda x, p, r, s, f: x * f / s[::-1],
    "stretched, by width - 1 and height - 1": lambda x, p, r, s, f: x * (f - 1) / (s - 1),
    "by the ratio rounded to whole numbers": lambda x, p, r, s, f: (x - p) * np.maximum(np.rint(1 / r), 1),
    "by the ratio cut to whole numbers": lambda x, p, r, s, f: (x - p) * np.maximum(np.floor(1 / r), 1),
    "by the ratio in float16": lambda x, p, r, s, f: (x - p) / r.astype(np.float16).astype(np.float64),
    "by the ratio rounded to 2 decimals": lambda x, p, r, s, f: (x - p) / np.round(r, 2),
    "by the ratio rounded to 3 decimals": lambda x, p, r, s, f: (x - p) / np.round(r, 3),
    "by the ratio of whole pixels (rounded picture / picture)": lambda x, p, r, s, f: (x - p) / (np.rint(f * r) / f),
    "by the ratio of whole pixels (cut picture / picture)": lambda x, p, r, s, f: (x - p) / (np.floor(f * r) / f),
    "a small picture is not enlarged (ratio at most 1)": lambda x, p, r, s, f: (
        (x - np.floor((s - np.rint(f * np.minimum(r, 1))) / 2)) / np.minimum(r, 1)
    ),
    "by the ratio of the width, after the padding": lambda x, p, r, s, f: (x - p) * (f[0] / s[0]),
    "by the ratio of the height, after the padding": lambda x, p, r, s, f: (x - p) * (f[1] / s[1]),
    "the ratio applied twice": lambda x, p, r, s, f: (x - p) / r / r,
    "mirrored (width - x)": lambda x, p, r, s, f: np.array([1, 0]) * f + np.array([-1, 1]) * (x - p) / r,
    "upside down (height - y)": lambda x, p, r, s, f: np.array([0, 1]) * f + np.array([1, -1]) * (x - p) / r,
    "turned by half a turn": lambda x, p, r, s, f: f - (x - p) / r,
    "x and y exchanged before": lambda x, p, r, s, f: (x[..., ::-1] - p) / r,
    "x by the height's ratio and y by the width's, after the padding": lambda x, p, r, s, f: (x - p) * (f / s)[::-1],
    "stretched by the larger of both ratios": lambda x, p, r, s, f: x * (f / s).max(),
    "stretched by the smaller of both ratios": lambda x, p, r, s, f: x * (f / s).min(),
}


# --- what is written
def _numbers(change: Callable[[Array, OutputRecipe], Array], shares: bool = False) -> Any:
    def apply(rows: Wanted, recipe: OutputRecipe) -> Wanted:
        if not rows.numbers.shape[1]:
            return rows
        made = change(rows.numbers, recipe)
        unit = 1.0 if shares else max(rows.unit, float(np.abs(made).max(initial=0.0)))
        return Wanted(made, rows.scores, rows.classes, unit)

    return apply


def _only(change: Callable[[Array], Array]) -> Callable[[Array, OutputRecipe], Array]:
    return lambda numbers, _: change(numbers)


def _by_side(sides: Callable[[Array], Array], size: bool) -> Callable[[Array, OutputRecipe], Array]:
    def change(numbers: Array, recipe: OutputRecipe) -> Array:
        own = np.array(recipe.evidence.size, np.float64) if size else _limits(recipe)
        return numbers * np.resize(sides(own), numbers.shape[1])

    return change


SHARES: dict[str, tuple[Callable[[Array], Array], bool]] = {
    "divided by width - 1 and height - 1 of the picture": (lambda s: 1 / (s - 1), False),
    "divided by width - 1 and height - 1 of the input": (lambda s: 1 / (s - 1), True),
    "divided by the width of the picture": (lambda s: 1 / s[[0, 0]], False),
    "divided by the height of the picture": (lambda s: 1 / s[[1, 1]], False),
    "divided by the width of the input": (lambda s: 1 / s[[0, 0]], True),
    "divided by the height of the input": (lambda s: 1 / s[[1, 1]], True),
    "divided by the larger side of the picture": (lambda s: 1 / np.full(2, s.max()), False),
}
FACTORS = {
    "in hundredths of the picture": lambda s: 100 / s,
    "in thousandths of the picture": lambda s: 1000 / s,
    "in 65535ths of the picture": lambda s: 65535 / s,
}
PLAIN = {
    "times 2": lambda b: b * 2,
    "halved": lambda b: b / 2,
    "half a pixel added": lambda b: b + 0.5,
    "half a pixel subtracted": lambda b: b - 0.5,
    "divided by 100": lambda b: b / 100,
}


def _to_int(kind: type) -> Callable[[Array], Array]:
    return lambda b: np.trunc(b).astype(np.int64).astype(kind).astype(np.float64)


WHOLE: dict[str, Callable[[Array], Array]] = {
    "rounded down to whole numbers": np.floor,
    "rounded up to whole numbers": np.ceil,
    "rounded half up to whole numbers": lambda b: np.floor(b + 0.5),
    "the first two cut, the others rounded up, to whole numbers": lambda b: np.concatenate(
        [np.floor(b[:, :2]), np.ceil(b[:, 2:])], axis=1
    ),
    "as uint8 (256 becomes 0)": _to_int(np.uint8),
    "as int8": _to_int(np.int8),
    "as uint16 (negative ones become large)": _to_int(np.uint16),
}


def _before_form(change: Callable[[Array], Array]) -> Any:
    def apply(found: Boxes, _: OutputRecipe) -> Boxes:
        points = None if found.keypoints is None else change(found.keypoints.reshape(len(found), -1))
        shape = None if found.keypoints is None else found.keypoints.shape
        return replace(found, boxes=change(found.boxes), keypoints=None if points is None else points.reshape(shape))

    return apply


# --- keypoints
def _ordered(order: tuple[int, ...]) -> Any:
    def apply(found: Boxes, _: OutputRecipe) -> Boxes:
        points = found.keypoints
        if points is None or points.shape[1] != len(order):
            return found
        return replace(found, keypoints=points[:, list(order)])

    return apply


def _points(change: Callable[[Array, Boxes, OutputRecipe], Array]) -> Any:
    def apply(found: Boxes, recipe: OutputRecipe) -> Boxes:
        if found.keypoints is None:
            return found
        points = found.keypoints.copy()
        points[..., :2] = change(points[..., :2], found, recipe)
        return replace(found, keypoints=points)

    return apply


def _clipped_points(points: Array, _: Boxes, recipe: OutputRecipe) -> Array:
    return np.clip(points, 0.0, _limits(recipe))


KEYPOINTS: dict[str, Callable[[Array, Boxes, OutputRecipe], Array]] = {
    "clipped to the picture": _clipped_points,
    "shares of the picture": lambda p, f, r: p / _limits(r),
    "shares of the input": lambda p, f, r: p / np.array(r.evidence.size, np.float64),
    "shares of the box": lambda p, f, r: (p - f.boxes[:, None, :2]) / (f.boxes[:, 2:] - f.boxes[:, :2])[:, None],
    "relative to the centre of the box": lambda p, f, r: p - (f.boxes[:, None, :2] + f.boxes[:, None, 2:]) / 2,
    "added to the corner of the box": lambda p, f, r: p + f.boxes[:, None, :2],
    "mirrored in the picture (width - x)": lambda p, f, r: p * np.array([-1, 1]) + _limits(r) * np.array([1, 0]),
    "cut to whole numbers": lambda p, f, r: np.trunc(p),
    "rounded to whole numbers": lambda p, f, r: np.rint(p),
    "all the first one": lambda p, f, r: np.repeat(p[:, :1], p.shape[1], axis=1),
    "half a pixel added": lambda p, f, r: p + 0.5,
    "of the box before": lambda p, f, r: np.roll(p, 1, axis=0),
    "of the box after": lambda p, f, r: np.roll(p, -1, axis=0),
}


def _has_points(recipe: OutputRecipe) -> bool:
    return any(10 in o.values.shape for o in recipe.evidence.outputs.values())


def _make() -> Iterator[Row]:
    for said, clip in CLIPS.items():
        yield Row("clip", said, "placed", clip, WRITTEN, True, _has_size, unclipped=True)
    yield Row(
        "clip", "boxes beyond the picture are left out", "placed", _inside, WRITTEN, False, _has_size, unclipped=True
    )
    for said, how in PADDINGS.items():
        yield Row("letterbox", said, "found", _by_padding(how), ("boxes",), True, _is_letterboxed)
    for said, way in WAYS.items():
        yield Row("letterbox", said, "found", _by_sides(way), ("boxes",), True, _has_frame)
    for said, (sides, size) in SHARES.items():
        yield Row("units", said, "rows", _numbers(_by_side(sides, size), True), WRITTEN, True, _has_size)
    for said, factor in FACTORS.items():
        yield Row("units", said, "rows", _numbers(_by_side(factor, False)), WRITTEN, True, _has_size)
    for said, plain in PLAIN.items():
        yield Row("units", said, "rows", _numbers(_only(plain)), (*WRITTEN, "keypoints"))
    for said, whole in WHOLE.items():
        yield Row("writing", f"numbers {said}", "rows", _numbers(_only(whole)), (*WRITTEN, "keypoints"))
        yield Row("writing", f"corners {said}, before they are written", "placed", _before_form(whole), WRITTEN)
        yield Row("writing", f"corners {said} in the input", "found", _before_form(whole), WRITTEN)
    for text, change in (("cut", np.trunc), ("rounded", np.rint)):
        yield Row(
            "writing",
            f"corners {text} to whole numbers before they are written",
            "placed",
            _before_form(change),
            WRITTEN,
        )
        yield Row("writing", f"corners {text} to whole numbers in the input", "found", _before_form(change), WRITTEN)
    for order in list(permutations(range(POINTS)))[1:]:
        said = f"in the order {', '.join(map(str, order))}"
        yield Row("keypoints", said, "placed", _ordered(order), ("boxes",), True, _has_points)
    for said, points in KEYPOINTS.items():
        of_one = said not in ("of the box before", "of the box after")
        yield Row("keypoints", said, "placed", _points(points), ("boxes",), of_one, _has_points)


def _is_letterboxed(recipe: OutputRecipe) -> bool:
    return _has_frame(recipe) and recipe.settings.fit != "stretch" and not recipe.settings.roi


ROWS = tuple(_make())
