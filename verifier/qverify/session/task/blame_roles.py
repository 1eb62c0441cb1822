"""Finds the role of a network's outputs that costs a board its task: the board's outputs with the reference's values of one
role at a time are decoded and measured, too."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.compare.roles import OutputRoles, axis_of
from qverify.report.channels import WORST, ChannelError, ChannelErrors, describe_worst_channels
from qverify.report.document import BlamedRole
from qverify.session.task.metrics import Score

Outputs = Mapping[str, npt.NDArray[Any]]
MAX_ROLES = 24  # that are tried in a run
YOLO = {  # channels of rows of a decoder: box, then the rest
    **dict.fromkeys(("yolov8",), ("box", "score")),
    **dict.fromkeys(("yolov5", "yolov7", "yolov3", "yolox"), ("box", "objectness", "score")),
}


@dataclass(frozen=True, slots=True)
class Part:
    """Channels of an output that are exchanged together. role: "" for all of it. channels: their numbers along the axis; None
    for all."""

    output: str
    role: str
    axis: int
    channels: npt.NDArray[np.int64] | None

    @property
    def name(self) -> str:
        """OUTPUT.ROLE, or OUTPUT."""
        return f"{self.output}.{self.role}" if self.role else self.output

    def index(self, rank: int) -> tuple[Any, ...]:
        """Returns the index of the channels in an array of this rank."""
        axis = min(self.axis, rank - 1)
        return (slice(None),) * max(axis, 0) + ((self.channels,) if self.channels is not None and rank else (...,))


def list_parts(
    names: Sequence[str],
    shapes: Mapping[str, Sequence[int]],
    axes: Mapping[str, int],
    roles: Mapping[str, OutputRoles],
    heads: Heads,
) -> list[Part]:
    """Returns the parts of the outputs: the described roles and what they leave, else those that the decoder's rows have, else
    whole outputs; at most MAX_ROLES."""
    parts = list[Part]()
    for name in names:
        shape, known_axis = shapes[name], axes.get(name, -1)
        stated = roles.get(name) or heads.roles_of(shape)
        if stated is None or not shape:
            parts.append(Part(name, "", known_axis, None))
            continue
        axis = axis_of(stated, known_axis, len(shape))
        parts += [Part(name, role, axis, np.array(stated.select(role))) for role in stated.ranges]
        described = [channel for role in stated.ranges for channel in stated.select(role)]
        rest = np.setdiff1d(np.arange(shape[axis]), described)
        parts += [Part(name, "others", axis, rest)] if len(rest) else []
    return parts[:MAX_ROLES]


@dataclass(frozen=True, slots=True)
class Heads:
    """What is known of a detector's rows. decoder: its name. classes: number of classes. bins: of the distances of a box, where
    it has some."""

    decoder: str = ""
    classes: int = 0
    bins: int = 64

    def roles_of(self, shape: Sequence[int]) -> OutputRoles | None:
        """Returns the roles of an output that has the rows of a YOLO: x, y, width, height (or bins of distances), of some the
        objectness, class scores; None of any other."""
        words = YOLO.get(self.decoder)
        if words is None or len(shape) not in (3, 4):
            return None
        axis = 2 if len(shape) == 3 and shape[2] < shape[1] else 1
        box = self.bins if len(words) == 2 and shape[axis] == self.bins + self.classes else 4
        edges = [0, box, *([box + 1] if len(words) == 3 else []), shape[axis]]
        if edges[-1] <= edges[-2] or (self.classes and edges[-1] - edges[-2] != self.classes):
            return None
        return OutputRoles(axis, {w: ((s, e),) for w, s, e in zip(words, edges, edges[1:], strict=False)})


class RoleBlame:
    """Collects what a run's frames show of the parts. measure: returns the score of outputs on a frame."""

    def __init__(self, parts: Sequence[Part]):
        self._parts = parts
        self._scores: dict[str, list[Score]] = {
            part.name: [] for part in parts
        }  # the board's with the reference's part
        self._alone: dict[str, list[Score]] = {part.name: [] for part in parts}  # the reference's with the board's part
        self._squared: dict[str, npt.NDArray[np.float64]] = {}
        self._largest: dict[str, npt.NDArray[np.float64]] = {}
        self._base: list[Score | None] = []

    def add(
        self, base: Outputs, board: Outputs, scores: tuple[Score | None, Score], measure: Callable[[Outputs], Score]
    ) -> None:
        """Adds a frame. base: outputs of the reference. board: those of the board. scores: of both. Parts that are equal are
        not measured again."""
        self._base.append(scores[0])
        of_base = scores[0] if scores[0] is not None else measure(base)
        for part in self._parts:
            a, b = base[part.output], board[part.output]
            at = part.index(a.ndim)
            if a.shape != b.shape or np.array_equal(a[at], b[at], equal_nan=a.dtype.kind == "f"):
                self._scores[part.name].append(scores[1])
                self._alone[part.name].append(scores[1] if a.shape != b.shape else of_base)
                continue
            self._add_errors(part, a, b)
            restored, alone = b.copy(), a.copy()
            restored[at], alone[at] = a[at], b[at]
            self._scores[part.name].append(measure({**board, part.output: restored}))
            self._alone[part.name].append(measure({**base, part.output: alone}))

    def _add_errors(self, part: Part, a: npt.NDArray[Any], b: npt.NDArray[Any]) -> None:
        axis = part.axis if 0 <= part.axis < a.ndim else a.ndim - 1
        if axis < 0:
            return
        others = tuple(at for at in range(a.ndim) if at != axis)
        with np.errstate(invalid="ignore", over="ignore"):
            away = np.abs(np.asarray(b, np.float64) - np.asarray(a, np.float64))
        away[~np.isfinite(away)] = math.inf
        squared, largest = (away * away).sum(axis=others), away.max(axis=others)
        if part.channels is not None:
            keep = np.isin(np.arange(a.shape[axis]), part.channels)
            squared, largest = np.where(keep, squared, 0.0), np.where(keep, largest, 0.0)
        self._squared[part.name] = self._squared.get(part.name, np.zeros(len(squared))) + squared
        self._largest[part.name] = np.maximum(self._largest.get(part.name, np.zeros(len(largest))), largest)

    def find(
        self,
        metric: str,
        smaller: bool,
        values: tuple[float, float],
        summarize: Callable[[Sequence[Score], Sequence[Score | None]], Mapping[str, float]],
        holds: Callable[[float], bool],
    ) -> BlamedRole | None:
        """Returns the part that gives back most of what the board loses, if that is at least half of it; all parts with the share
        of each, if none of them alone, beside the reference's others, misses the gate. values: of the metric, of the reference
        and of the board. holds: whether a value meets the gate."""
        lost = values[0] - values[1]
        if not math.isfinite(lost) or (lost >= 0 if smaller else lost <= 0):
            return None
        differing = [part for part in self._parts if part.name in self._squared]
        alone = {p.name: summarize(self._alone[p.name], self._base).get(metric, math.nan) for p in differing}
        if len(alone) > 1 and all(math.isfinite(v) and holds(v) for v in alone.values()):
            shares = {name: max((values[0] - v) / lost, 0.0) for name, v in alone.items()}
            return BlamedRole("board", "", "", metric, values[0], values[1], values[0], "", shares)
        best, share, restored = None, 0.0, values[1]
        for part in differing:
            value = summarize(self._scores[part.name], self._base).get(metric, math.nan)
            gained = (value - values[1]) / lost
            if math.isfinite(gained) and gained > share:
                best, share, restored = part, gained, value
        if best is None or share < 0.5:
            return None
        return BlamedRole(
            "board", best.output, best.role, metric, values[0], values[1], restored, self._say_channels(best)
        )

    def _say_channels(self, part: Part) -> str:
        squared, largest = self._squared[part.name], self._largest[part.name]
        total = float(squared.sum())
        order = np.argsort(-squared, kind="stable")[:WORST]
        finite = math.isfinite(total) and total > 0
        worst = [
            ChannelError(int(c), float(squared[c] / total) if finite else None, {"max_abs": float(largest[c])})
            for c in order
            if squared[c] > 0
        ]
        shares = [float(s / total) for s in squared] if finite else []
        return describe_worst_channels(ChannelErrors(part.axis, len(squared), 1, shares, [], worst))
