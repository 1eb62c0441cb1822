"""The metrics of the task numbers: the rank of a frame's class, or the result of a function of the user's."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from qverify.errors import TaskError
from qverify.model_bin.graph import Graph
from qverify.printable import printable
from qverify.session.task.labels import Label, parse_class, read_labels
from qverify.user_functions import load_function

Real = npt.NDArray[Any]
TOP = (1, 5)  # top-1 and top-5, as far as there are more classes


@dataclass(frozen=True, slots=True)
class Score:
    """A side's result on one frame. values: the numbers, by name. right: whether the result is correct, None if the
    metric does not decide that. answer: the result as text for the user. level: how good the result is, the larger the
    better; None if the metric does not say. kept: what summarize() needs of the frame."""

    values: dict[str, float]
    right: bool | None
    answer: str
    level: float | None = None
    kept: Any = None


class Metric(Protocol):
    """A measure of a side's outputs. name: its name in the report. output: name of the output it reads, "" for all. names:
    names of its values, which gates may limit. smaller: those of which smaller is better; None if that is not known.
    decoder: the decoder in words, "" without one. step: by how much a level must be lower to count as worse. labelled: of how
    many frames there are labels, 0 where it is not known that there are more than frames."""

    step: float
    labelled: int
    name: str
    output: str
    names: tuple[str, ...]
    smaller: frozenset[str] | None
    decoder: str

    def labels(self, frames: list[str]) -> list[Any]:
        """Returns the label of each frame. Raises TaskError or BadFileError if they cannot be read, or do not fit."""

    def summarize(self, scores: Sequence[Score], base: Sequence[Score | None]) -> dict[str, float]:
        """Returns a side's values over these frames, NaN where one is not defined. base: the scores of the reference on the
        same frames, None where it has none."""

    def check(self, label: Label, frame: str) -> None:
        """Raises TaskError for a label that cannot be used."""

    def score(self, outputs: Mapping[str, Real], label: Label, frame: str, side: str) -> Score:
        """Returns the side's score. outputs: the real (dequantized) values of the outputs, by name."""

    def list_notes(self, side: str, scores: Sequence[Score]) -> list[str]:
        """Returns what the numbers of a side do not say."""


class Means:
    """What most metrics have: labels by frame, and values that are means over the frames."""

    names: tuple[str, ...] = ()
    smaller: frozenset[str] | None = frozenset()
    output = decoder = ""
    step, labelled = 1e-9, 0

    def __init__(self, path: str):
        self._path = path

    def labels(self, frames: list[str]) -> list[Any]:
        return list(read_labels(self._path, frames)) if self._path else [None] * len(frames)

    def check(self, label: Label, frame: str) -> None:
        pass

    def list_notes(self, side: str, scores: Sequence[Score]) -> list[str]:
        return []

    def summarize(self, scores: Sequence[Score], base: Sequence[Score | None]) -> dict[str, float]:
        names = scores[0].values if scores else {}
        return {name: sum(score.values[name] for score in scores) / len(scores) for name in names}


class Classification(Means):
    """The rank of the labelled class among the values of an output. Of equal values, the first ranks higher; an output
    with NaN is wrong. Raises TaskError unless exactly one output has exactly one axis longer than 1."""

    name = "classification"

    def __init__(self, graph: Graph, names: list[str], path: str, first: str = "top-1"):
        """first: the name of the share of frames whose class is right."""
        super().__init__(path)
        shapes = {n: graph.spec(n).shape for n in names}
        candidates = [n for n, shape in shapes.items() if max(shape, default=1) == prod(shape) > 1]
        if len(candidates) != 1:
            outputs = ", ".join(f"{printable(n)} {'x'.join(map(str, shape))}" for n, shape in shapes.items())
            raise TaskError(
                f"--labels {path}: no class axis: the outputs are {outputs}; wanted one with a single dim above 1, or --task-metric"
            )
        self.output, self._classes = candidates[0], prod(shapes[candidates[0]])
        self._top = [k for k in TOP if k < self._classes]
        self._words: list[str] = []
        self.names = tuple(first if k == 1 else f"top-{k}" for k in self._top)

    def name_classes(self, words: str) -> None:
        """Takes the names of the classes, with ; between them, which labels may then use. Raises TaskError unless there are as
        many as classes, each once."""
        self._words = [word.strip() for word in words.split(";")]
        if len(self._words) != self._classes or len(set(self._words)) < self._classes:
            raise TaskError(
                f"--task: names: {len(self._words)} names, wanted one for each of {self._classes} classes, with ; between them"
            )

    def labels(self, frames: list[str]) -> list[Any]:
        found = super().labels(frames)
        return [self._words.index(label) if label in self._words else label for label in found]

    def check(self, label: Label, frame: str) -> None:
        parse_class(label, self._classes, self._path, frame)

    def score(self, outputs: Mapping[str, Real], label: Label, frame: str, side: str) -> Score:
        values = np.asarray(outputs[self.output], np.float64).reshape(-1)
        if np.isnan(values).any() or len(values) != self._classes:
            return Score(dict.fromkeys(self.names, 0.0), False, "NaN")
        expected = parse_class(label, self._classes, self._path, frame)
        rank = int((values > values[expected]).sum() + (values[:expected] == values[expected]).sum())
        shares = {name: float(rank < k) for name, k in zip(self.names, self._top, strict=True)}
        return Score(shares, rank == 0, str(int(values.argmax())))


class UserMetric(Means):
    """A function of the user's: function(outputs, label, frame) returns a number, or True or False."""

    names: tuple[str, ...] = ("value",)
    smaller: frozenset[str] | None = None

    def __init__(self, text: str, path: str):
        super().__init__(path)
        self.name, self._function = text, load_function(text, "--task-metric", TaskError)

    def score(self, outputs: Mapping[str, Real], label: Label, frame: str, side: str) -> Score:
        try:
            with redirect_stdout(sys.stderr):  # stdout may be taken by a report
                value = self._function({n: np.array(v) for n, v in outputs.items()}, label, frame)
        except (Exception, SystemExit) as error:
            message = " ".join(f"{type(error).__name__}: {error}".split())
            raise TaskError(
                f"--task-metric {self.name}: frame {printable(frame)}, {side}: {printable(message)}"
            ) from error
        right = bool(value) if isinstance(value, (bool, np.bool_)) else None
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise TaskError(
                f"--task-metric {self.name}: frame {printable(frame)}, {side}: got {printable(repr(value)[:60])}, "
                "wanted a finite number, True or False"
            )
        return Score({self.name: number}, right, f"{number:g}" if right is None else "right" if right else "wrong")
