"""Boxes by the formula of another decoder, or by one of its steps made otherwise: from the numbers of the network, the cell,
the stride and the anchor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.decoders.parts.functions import sigmoid, softmax
from qverify.decoders.parts.selection import BoxParts, Candidates, from_centres
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.tables import Row

Array = npt.NDArray[Any]
Way = Callable[[Array], Array]
POINTS = 10  # channels of five keypoints


def _exp(t: Array) -> Array:
    with np.errstate(over="ignore"):
        return functions64.exp(t)


CENTRES: dict[str, Way] = {  # the place within the cell, in cells
    "t": lambda t: t,
    "sigmoid(t)": sigmoid,
    "2 sigmoid(t) - 0.5": lambda t: 2 * sigmoid(t) - 0.5,
    "2 sigmoid(t)": lambda t: 2 * sigmoid(t),
    "sigmoid(t) - 0.5": lambda t: sigmoid(t) - 0.5,
    "sigmoid(t) + 0.5": lambda t: sigmoid(t) + 0.5,
    "2 t - 0.5": lambda t: 2 * t - 0.5,
    "2 t": lambda t: 2 * t,
    "t + 0.5": lambda t: t + 0.5,
    "t - 0.5": lambda t: t - 0.5,
    "0 (the values left out)": lambda t: np.zeros(t.shape),
    "0.5 (the values left out)": lambda t: np.full(t.shape, 0.5),
    "1.05 sigmoid(t) - 0.025 (yolov4)": lambda t: 1.05 * sigmoid(t) - 0.025,
    "1.1 sigmoid(t) - 0.05 (yolov4)": lambda t: 1.1 * sigmoid(t) - 0.05,
    "1.2 sigmoid(t) - 0.1 (yolov4)": lambda t: 1.2 * sigmoid(t) - 0.1,
    "tanh(t)": lambda t: 2 * sigmoid(2 * t) - 1,
}
SIZES: dict[str, Way] = {  # the size in anchors, priors or strides
    "exp(t)": _exp,
    "(2 sigmoid(t))^2": lambda t: 4 * sigmoid(t) * sigmoid(t),
    "(2 t)^2": lambda t: 4 * t * t,
    "2 sigmoid(t)^2": lambda t: 2 * sigmoid(t) * sigmoid(t),
    "2 sigmoid(t)": lambda t: 2 * sigmoid(t),
    "sigmoid(t)^2": lambda t: sigmoid(t) * sigmoid(t),
    "sigmoid(t)": sigmoid,
    "exp(sigmoid(t))": lambda t: _exp(sigmoid(t)),
    "exp(2 t)": lambda t: _exp(2 * t),
    "t": lambda t: t,
    "t^2": lambda t: t * t,
    "2 t": lambda t: 2 * t,
    "1 (the values left out)": lambda t: np.ones(t.shape),
    "2^t": lambda t: _exp(t * 0.6931471805599453),
    "exp(t) / 2": lambda t: _exp(t) / 2,
    "2 exp(t)": lambda t: 2 * _exp(t),
    "exp(t) - 1": lambda t: _exp(t) - 1,
    "max(t, 0)": lambda t: np.maximum(t, 0.0),
}
FAMILIES = {  # of both at once
    "yolov3 (sigmoid(t), exp(t))": ("sigmoid(t)", "exp(t)"),
    "yolov5 (2 sigmoid(t) - 0.5, (2 sigmoid(t))^2)": ("2 sigmoid(t) - 0.5", "(2 sigmoid(t))^2"),
    "yolox (t, exp(t))": ("t", "exp(t)"),
    "yolov5 after its sigmoid (2 t - 0.5, (2 t)^2)": ("2 t - 0.5", "(2 t)^2"),
    "both linear (t, t)": ("t", "t"),
    "both by the sigmoid (sigmoid(t), sigmoid(t))": ("sigmoid(t)", "sigmoid(t)"),
}


def _has_parts(recipe: OutputRecipe) -> bool:
    return not recipe.candidates


def _by_centre(way: Way) -> Any:
    """The centre by another formula; the size stays."""

    def apply(boxes: Array, index: Array, _: OutputRecipe, candidates: Candidates) -> Array:
        if candidates.parts is None:
            return boxes
        parts = candidates.parts(index)
        if parts.numbers.shape[1] != 4:
            return boxes
        return from_centres(parts.origin + parts.unit * way(parts.numbers[:, :2]), boxes[:, 2:] - boxes[:, :2])

    return apply


def _by_size(way: Way, scale: Callable[[BoxParts, OutputRecipe], Array] | None = None) -> Any:
    """The size by another formula, or another scale; the centre stays."""

    def apply(boxes: Array, index: Array, recipe: OutputRecipe, candidates: Candidates) -> Array:
        if candidates.parts is None:
            return boxes
        parts = candidates.parts(index)
        if parts.numbers.shape[1] != 4:
            return boxes
        unit = parts.scale if scale is None else scale(parts, recipe)
        return from_centres((boxes[:, :2] + boxes[:, 2:]) / 2, unit * way(parts.numbers[:, 2:4]))

    return apply


def _by_both(centre: Way, size: Way) -> Any:
    first, second = _by_centre(centre), _by_size(size)

    def apply(boxes: Array, index: Array, recipe: OutputRecipe, candidates: Candidates) -> Array:
        return second(first(boxes, index, recipe, candidates), index, recipe, candidates)

    return apply


def _by_stride(way: Way) -> Any:
    """Centre and size as yolox: the size in strides, not in anchors."""
    return _by_size(way, lambda parts, _: parts.unit)


def _as_distances(half: float, way: Way) -> Any:
    """Four numbers of centre and size taken as distances from the cell: left, top, right, bottom."""

    def apply(boxes: Array, index: Array, _: OutputRecipe, candidates: Candidates) -> Array:
        if candidates.parts is None:
            return boxes
        parts = candidates.parts(index)
        if parts.numbers.shape[1] != 4:
            return boxes
        away, centre = way(parts.numbers[:, :4]), parts.origin + half * parts.unit
        return np.concatenate([centre - away[:, :2] * parts.unit, centre + away[:, 2:] * parts.unit], axis=1)

    return apply


def _of_distances(change: Callable[[Array], Array], half: float = 0.5) -> Any:
    """Distances (K, 4) in cells that are put together otherwise."""

    def apply(boxes: Array, index: Array, _: OutputRecipe, candidates: Candidates) -> Array:
        if candidates.parts is None:
            return boxes
        parts = candidates.parts(index)
        if parts.numbers.shape[1] == 4 and parts.scale is not parts.unit:
            return boxes
        cell = parts.origin / parts.unit
        away = np.concatenate(
            [cell + half - boxes[:, :2] / parts.unit, boxes[:, 2:] / parts.unit - cell - half], axis=1
        )
        return change(np.concatenate([cell, away], axis=1)) * np.tile(parts.unit, 2)

    return apply


def _bins(expect: Callable[[Array], Array]) -> Any:
    """Distances by another rule of the bins (K, 4, bins)."""

    def apply(boxes: Array, index: Array, recipe: OutputRecipe, candidates: Candidates) -> Array:
        bins = recipe.settings.reg_max
        if candidates.parts is None or bins < 2:
            return boxes
        parts = candidates.parts(index)
        if parts.numbers.shape[1] != 4 * bins:
            return boxes
        away, centre = expect(parts.numbers.reshape(-1, 4, bins)), parts.origin / parts.unit + 0.5
        return np.concatenate([centre - away[:, :2], centre + away[:, 2:]], axis=1) * np.tile(parts.unit, 2)

    return apply


def _weighted(weights: Callable[[int], Array], axis: int = 2) -> Callable[[Array], Array]:
    def expect(values: Array) -> Array:
        chances = np.moveaxis(softmax(np.moveaxis(values, axis, -1)), -1, axis)
        return chances @ weights(values.shape[2])

    return expect


def _over_all(values: Array) -> Array:
    count, _, bins = values.shape
    return softmax(values.reshape(count, -1)).reshape(values.shape) @ np.arange(bins, dtype=np.float64)


def _part_of_bins(first: int, last: int | None) -> Callable[[Array], Array]:
    def expect(values: Array) -> Array:
        kept = values[:, :, first:last]
        return softmax(kept) @ np.arange(first, first + kept.shape[2], dtype=np.float64)

    return expect


def _grouped(bins: int) -> Callable[[Array], Array]:
    """Another number of bins for each side, read one after another; the bins after the last channel are zero."""

    def expect(values: Array) -> Array:
        flat = values.reshape(len(values), -1)
        missing = max(4 * bins - flat.shape[1], 0)
        padded = np.concatenate([flat, np.zeros((len(flat), missing))], axis=1)[:, : 4 * bins]
        return softmax(padded.reshape(len(flat), 4, bins)) @ np.arange(bins, dtype=np.float64)

    return expect


def _best_two(values: Array) -> Array:
    """The expected value of the highest bin and its neighbours."""
    best = values.argmax(axis=2)[:, :, None]
    place = np.arange(values.shape[2])
    return softmax(np.where(np.abs(place - best) <= 1, values, -np.inf)) @ place.astype(np.float64)


BINS: dict[str, Callable[[Array], Array]] = {
    "bins counted from 1": _weighted(lambda n: np.arange(1.0, n + 1)),
    "bins as shares of the last one": _weighted(lambda n: np.arange(n) / (n - 1.0)),
    "bins as shares of their number": _weighted(lambda n: np.arange(n) / float(n)),
    "bins in reverse order": _weighted(lambda n: np.arange(n)[::-1].astype(np.float64)),
    "the centre of each bin (bin + 0.5)": _weighted(lambda n: np.arange(n) + 0.5),
    "bins counted from -1": _weighted(lambda n: np.arange(n) - 1.0),
    "the softmax over the four sides instead of the bins": _weighted(lambda n: np.arange(float(n)), 1),
    "the softmax over all bins of the four sides together": _over_all,
    "the last bin left out": _part_of_bins(0, -1),
    "the first bin left out": _part_of_bins(1, None),
    "the highest bin and its neighbours only": _best_two,
}
for _last in (7, 8, 11, 14, 16, 17, 19, 23, 31):
    BINS[f"bins spread over 0 to {_last}"] = _weighted(partial(np.linspace, 0.0, float(_last)))
BINS |= {f"{n} bins for each side": _grouped(n) for n in (4, 7, 8, 9, 12, 15, 17, 18, 20, 24, 32)}
DISTANCES: dict[str, Callable[[Array], Array]] = {  # of x, y of the cell and four distances, in cells
    "distances taken as centre and size": lambda v: from_centres(v[:, :2] + v[:, 2:4], v[:, 4:]),
    "distances taken as corners": lambda v: np.concatenate([v[:, :2] + v[:, 2:4], v[:, :2] + v[:, 4:]], axis=1),
    "distances added on all sides": lambda v: np.concatenate(
        [v[:, :2] + 0.5 + v[:, 2:4], v[:, :2] + 0.5 + v[:, 4:]], axis=1
    ),
    "distances subtracted on all sides": lambda v: np.concatenate(
        [v[:, :2] + 0.5 - v[:, 2:4], v[:, :2] + 0.5 - v[:, 4:]], axis=1
    ),
    "centre of the cell instead of the middle of the box": lambda v: from_centres(v[:, :2] + 0.5, v[:, 2:4] + v[:, 4:]),
    "half of each distance": lambda v: np.concatenate(
        [v[:, :2] + 0.5 - v[:, 2:4] / 2, v[:, :2] + 0.5 + v[:, 4:] / 2], axis=1
    ),
    "twice each distance": lambda v: np.concatenate(
        [v[:, :2] + 0.5 - v[:, 2:4] * 2, v[:, :2] + 0.5 + v[:, 4:] * 2], axis=1
    ),
    "the exponential function of each distance": lambda v: np.concatenate(
        [v[:, :2] + 0.5 - _exp(v[:, 2:4]), v[:, :2] + 0.5 + _exp(v[:, 4:])], axis=1
    ),
    "the first two distances exchanged with the last two": lambda v: np.concatenate(
        [v[:, :2] + 0.5 - v[:, 4:], v[:, :2] + 0.5 + v[:, 2:4]], axis=1
    ),
}


def _has_anchors(recipe: OutputRecipe) -> bool:
    return _has_parts(recipe) and bool(recipe.settings.anchors)


def _has_anchors_or_points(recipe: OutputRecipe) -> bool:
    """Whether the family `grid` does not say these: it moves the boxes of grids only, and their keypoints with them."""
    outputs = recipe.evidence.outputs.values()
    return _has_anchors(recipe) or (_has_parts(recipe) and any(POINTS in output.values.shape for output in outputs))


def _by_prior(boxes: Array, index: Array, _: OutputRecipe, candidates: Candidates) -> Array:
    """The offset of the centre in shares of the input, not of the prior."""
    if candidates.parts is None:
        return boxes
    parts = candidates.parts(index)
    centre = parts.origin + parts.numbers[:, :2] * np.array(candidates.size, np.float64)
    return from_centres(centre, boxes[:, 2:] - boxes[:, :2])


def _has_priors(recipe: OutputRecipe) -> bool:
    return _has_parts(recipe) and (recipe.settings.background >= 0 or len(recipe.settings.priors) > 0)


def _is_grid(recipe: OutputRecipe) -> bool:
    return _has_parts(recipe) and not recipe.settings.anchors and recipe.settings.background < 0


def _has_bins(recipe: OutputRecipe) -> bool:
    wide = 4 * recipe.settings.reg_max
    return _is_grid(recipe) and any(d >= wide for o in recipe.evidence.outputs.values() for d in o.values.shape[1:])


def _make() -> Iterator[Row]:
    for said, way in CENTRES.items():
        when = _has_anchors_or_points if said in ("t", "t + 0.5", "t - 0.5") else _has_parts  # else a family says these
        yield Row("grid", f"centre {said}", "boxes", _by_centre(way), when=when)
    for said, way in SIZES.items():
        when = _has_anchors if said in ("t", "exp(t)", "1 + t") else _has_parts
        yield Row("extent", f"size {said}", "boxes", _by_size(way), when=when)
        if said in ("exp(t)", "(2 sigmoid(t))^2", "t", "(2 t)^2", "1 (the values left out)"):
            yield Row("extent", f"size {said} in strides, not anchors", "boxes", _by_stride(way), when=_has_anchors)
    for said, (centre, size) in FAMILIES.items():
        both = _by_both(CENTRES[centre], SIZES[size])
        when = _has_anchors if centre == "t" else _has_parts
        yield Row("extent", f"the formula of {said}", "boxes", both, when=when)
    yield Row("priors", "the offset of the centre is not times the prior's size", "boxes", _by_prior, when=_has_priors)
    for half in (0.5, 0.0):
        for said, way in (("t", CENTRES["t"]), ("exp(t)", _exp), ("sigmoid(t)", sigmoid)):
            text = f"numbers taken as distances {said} from {'the centre' if half else 'the corner'} of the cell"
            yield Row("extent", text, "boxes", _as_distances(half, way), when=_is_grid)
    for said, change in DISTANCES.items():
        yield Row("distances", said, "boxes", _of_distances(change), when=_has_bins)
    for said, expect in BINS.items():
        yield Row("distances", said, "boxes", _bins(expect), when=_has_bins)


ROWS = tuple(_make())
