"""Channels, axes and memory of an output that are read from another place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic import functions64
from qverify.decoders.parts.functions import sigmoid, softmax
from qverify.decoders.parts.selection import Candidates
from qverify.outputs.recipe import Output, OutputRecipe
from qverify.outputs.steps import check_highest
from qverify.outputs.tables import DETECTORS, Row

Array = npt.NDArray[Any]
ALL = ("boxes", "decoded", "arrays")
MAX_RANK = 4


def _axis(values: Array, last: bool) -> int:
    return values.ndim - 1 if last else min(1, values.ndim - 1)


def _rolled(by: int, last: bool) -> Callable[[Output], Output]:
    """Each channel has the values of the one `by` places before it."""
    return lambda o: replace(o, values=np.roll(o.values, by, axis=_axis(o.values, last)))


def _moved(by: int) -> Callable[[Output], Output]:
    """The memory begins `by` elements later (earlier if negative); what is missing is taken from the other end."""
    return lambda o: replace(o, values=np.roll(o.values.reshape(-1), -by).reshape(o.values.shape))


def _repeated(by: int, last: bool) -> Callable[[Output], Output]:
    """Moves channels as _rolled does, but the one at the end stays, as where an index is limited."""

    def apply(output: Output) -> Output:
        axis = _axis(output.values, last)
        count = output.values.shape[axis]
        return replace(output, values=output.values.take(np.clip(np.arange(count) - by, 0, count - 1), axis=axis))

    return apply


def _by_axis(change: Callable[[Array, int], Array], last: bool) -> Callable[[Output], Output]:
    return lambda o: replace(o, values=np.ascontiguousarray(change(o.values, _axis(o.values, last))))


def _halves(values: Array, axis: int) -> Array:
    half = values.shape[axis] // 2
    return np.roll(values, half, axis=axis) if values.shape[axis] == 2 * half else values


def _first(values: Array, axis: int) -> Array:
    return np.repeat(values.take([0], axis=axis), values.shape[axis], axis=axis)


def _threes(values: Array, axis: int) -> Array:
    count = values.shape[axis]
    return values if count % 3 else np.take(values, np.arange(count).reshape(-1, 3)[:, ::-1].reshape(-1), axis=axis)


def _turned(turns: int) -> Callable[[Output], Output]:
    def apply(output: Output) -> Output:
        v = output.values
        if v.ndim < 3:
            return output
        turned = np.rot90(v, turns, axes=(v.ndim - 2, v.ndim - 1))
        return replace(output, values=np.ascontiguousarray(turned).reshape(v.shape))

    return apply


CHANGES: dict[str, Callable[[Array, int], Array]] = {
    "in reverse order": lambda v, axis: np.flip(v, axis),
    "the two halves exchanged": _halves,
    "the first one for all": _first,
    "in reverse order within each three": _threes,
}


# --- class scores of a detector
def _columns(candidates: Candidates) -> Array | None:
    """Returns box numbers, objectness and class scores of every anchor side by side; None if they are not of one kind."""
    if candidates.parts is None:
        return None
    numbers = candidates.parts(np.arange(len(candidates.values))).numbers
    objectness = [] if candidates.objectness is None else [np.asarray(candidates.objectness, np.float64)[:, None]]
    return np.concatenate([numbers, *objectness, np.asarray(candidates.values, np.float64)], axis=1)


def _scores_from(by: int) -> Any:
    """Class scores from `by` channels later (earlier if negative) of the row of box, objectness and classes."""

    def apply(candidates: Candidates, _: OutputRecipe) -> Candidates:
        if candidates.parts is None:
            return candidates
        if by > 0:
            return replace(candidates, values=candidates.values[:, by:])
        before = candidates.parts(np.arange(len(candidates.values))).numbers
        if candidates.objectness is not None:
            before = np.concatenate([before, np.asarray(candidates.objectness, np.float64)[:, None]], axis=1)
        if before.shape[1] + by < 0:
            return candidates
        values = np.concatenate([before[:, before.shape[1] + by :], candidates.values], axis=1)
        return replace(candidates, values=values[:, : candidates.values.shape[1]])

    return apply


def _objectness_from(by: int) -> Any:
    def apply(candidates: Candidates, _: OutputRecipe) -> Candidates:
        columns = None if candidates.objectness is None else _columns(candidates)
        if columns is None:
            return candidates
        return replace(candidates, objectness=columns[:, columns.shape[1] - candidates.values.shape[1] - 1 + by])

    return apply


def _classes(change: Callable[[Array], Array]) -> Any:
    return lambda candidates, _: replace(candidates, values=change(np.asarray(candidates.values)))


CLASSES: dict[str, Callable[[Array], Array]] = {
    "the last one left out": lambda v: v[:, :-1],
    "the first one left out (it never wins)": lambda v: np.concatenate([np.full((len(v), 1), -np.inf), v[:, 1:]], 1),
    "in reverse order": lambda v: v[:, ::-1],
    "one channel late, around the end": lambda v: np.roll(v, 1, axis=1),
    "one channel early, around the end": lambda v: np.roll(v, -1, axis=1),
    "the first one only": lambda v: v[:, :1],
    "of the anchor before": lambda v: np.roll(v, 1, axis=0),
    "of the anchor after": lambda v: np.roll(v, -1, axis=0),
}


def _soft(axis: int | None) -> Any:
    """Softmax over the anchors, or over anchors and classes; the decoder's own activation is left out."""

    def apply(candidates: Candidates, _: OutputRecipe) -> Candidates:
        v = np.asarray(candidates.values, np.float64)
        made = (
            softmax(v.reshape(-1)).reshape(v.shape)
            if axis is None
            else np.moveaxis(softmax(np.moveaxis(v, axis, -1)), -1, axis)
        )
        return replace(candidates, values=made, of_values="none")

    return apply


def _fast_exp(x: Array) -> Array:
    """e^x by the bits of a float32: its exponent is set, and its fraction is linear."""
    bits = np.clip((1 << 23) * (1.4426950409 * x + 126.93490512), 0, 2.0**31 - 1).astype(np.int32)
    return bits.view(np.float32).astype(np.float64)


SIGMOIDS: dict[str, Callable[[Array], Array]] = {
    "a hard sigmoid (x / 6 + 0.5)": lambda x: np.clip(x / 6 + 0.5, 0.0, 1.0),
    "a hard sigmoid (0.2 x + 0.5)": lambda x: np.clip(0.2 * x + 0.5, 0.0, 1.0),
    "a fast sigmoid (x / (2 + 2 |x|) + 0.5)": lambda x: x / (2 + 2 * np.abs(x)) + 0.5,
    "the sigmoid by a fast exponential function": lambda x: 1 / (1 + _fast_exp(-x)),
    "tanh instead of the sigmoid": lambda x: 2 * sigmoid(2 * x) - 1,
    "the exponential function instead of the sigmoid": lambda x: functions64.exp(x),
    "sigmoid(-x)": lambda x: sigmoid(-x),
    "the sigmoid in steps of 1 / 256": lambda x: np.rint(sigmoid(x) * 256) / 256,
    "the sigmoid in steps of 1 / 255": lambda x: np.rint(sigmoid(x) * 255) / 255,
    "the sigmoid in steps of 1 / 128": lambda x: np.rint(sigmoid(x) * 128) / 128,
    "the sigmoid in float16": lambda x: sigmoid(x).astype(np.float16).astype(np.float64),
}


def _by_sigmoid(change: Callable[[Array], Array]) -> Any:
    """Scores by something else than the sigmoid, where the decoder applies it."""

    def apply(candidates: Candidates, recipe: OutputRecipe) -> Candidates:
        if (recipe.settings.activation or candidates.activation) != "sigmoid":
            return candidates
        check_highest(candidates, recipe, change)
        objectness = None if candidates.objectness is None else change(np.asarray(candidates.objectness, np.float64))
        values = change(np.asarray(candidates.values, np.float64))
        return replace(candidates, values=values, objectness=objectness, of_values="none", of_objectness="none")

    return apply


def _boxes_of(by: int) -> Any:
    def apply(boxes: Array, index: Array, _: OutputRecipe, candidates: Candidates) -> Array:
        return candidates.boxes((index + by) % max(len(candidates.values), 1))

    return apply


def _of_peaks(rest: float) -> Any:
    """Values of a heatmap without their activation, and what stands for cells that are no peak."""

    def apply(candidates: Candidates, _: OutputRecipe) -> Candidates:
        values = np.where(np.isneginf(candidates.values), rest, candidates.values)
        return replace(candidates, values=values, of_values="none")

    return apply


def _has_peaks(recipe: OutputRecipe) -> bool:
    settings = recipe.settings
    return _is_plain(recipe) and settings.peaks and len(settings.strides) == 1 and not settings.anchors


def _is_plain(recipe: OutputRecipe) -> bool:
    return not recipe.stored and not recipe.candidates


def _has_channels(by: int, last: bool) -> Callable[[OutputRecipe], bool]:
    """Whether the axis is longer than what it is moved by."""

    def apply(recipe: OutputRecipe) -> bool:
        outputs, target = recipe.evidence.outputs, recipe.evidence.target
        shapes = [o.values for n, o in outputs.items() if target in ("", n)]
        return _has_shape(recipe) and all(v.shape[_axis(v, last)] > abs(by) for v in shapes)

    return apply


def _has_shape(recipe: OutputRecipe) -> bool:
    outputs, target = recipe.evidence.outputs, recipe.evidence.target
    return not recipe.stored and all(o.values.ndim >= 2 for n, o in outputs.items() if target in ("", n))


def _make() -> Iterator[Row]:
    for last, where in ((False, "channels"), (True, "the last axis")):
        for by in (1, -1, 2, -2, 4, -4, 5, -5):
            how = f"{abs(by)} too {'early' if by > 0 else 'late'}"
            yield Row(
                "class-channels", f"{where} read {how}", "stored", _rolled(by, last), ALL, when=_has_channels(by, last)
            )
            if abs(by) == 1:
                said = f"{where} read {how}, the one at the end twice"
                yield Row("class-channels", said, "stored", _repeated(by, last), ALL, when=_has_shape)
        for said, change in CHANGES.items():
            yield Row("layout", f"{where} {said}", "stored", _by_axis(change, last), ALL, when=_has_shape)
    for by in (1, -1, 2, -2, 4, -4, 8, 16, 32, 64, 128):
        said = f"the memory is read {abs(by)} element{'s' * (abs(by) > 1)} too {'late' if by > 0 else 'early'}"
        yield Row("layout", said, "stored", _moved(by), ALL, when=_has_shape)
    for turns in (1, 2, 3):
        yield Row("layout", f"turned by {90 * turns} degrees", "stored", _turned(turns), ALL, when=_has_shape)
    for by in (1, 2, -1, -2, -3, -4, -5):
        said = f"scores from {abs(by)} channel{'s' * (abs(by) > 1)} too {'late' if by > 0 else 'early'} of the row"
        yield Row("class-channels", said, "candidates", _scores_from(by), DETECTORS, when=_is_plain)
    for by in (1, 2, -1, -2, -3, -4):
        said = f"objectness from {abs(by)} channel{'s' * (abs(by) > 1)} too {'late' if by > 0 else 'early'}"
        yield Row("class-channels", said, "candidates", _objectness_from(by), DETECTORS, when=_is_plain)
    for said, classes in CLASSES.items():
        yield Row("class-channels", f"scores {said}", "candidates", _classes(classes), DETECTORS, when=_is_plain)
    second = _classes(lambda v: np.where(v == v.max(axis=1, keepdims=True), -np.inf, v))
    yield Row("class-number", "the second best class wins", "candidates", second, DETECTORS, when=_is_plain)
    for axis, said in ((0, "the anchors"), (None, "anchors and classes together")):
        yield Row("activation", f"softmax over {said}", "candidates", _soft(axis), DETECTORS, when=_is_plain)
    for said, curve in SIGMOIDS.items():
        yield Row("activation", said, "candidates", _by_sigmoid(curve), DETECTORS, when=_is_plain)
    for rest in (0.0, -1.0, -100.0, -1e4, -1e9, -65504.0):
        said = f"missing; cells that are no peak are {rest:g}"
        yield Row("activation", said, "candidates", _of_peaks(rest), DETECTORS, when=_has_peaks)
    for by in (1, -1):
        said = f"of the anchor {'after' if by > 0 else 'before'}"
        yield Row("grid", f"boxes {said}", "boxes", _boxes_of(by), DETECTORS, when=_is_plain)


ROWS = tuple(_make())
