"""The metrics of the task numbers: the rank of a frame's class, or the result of a function of the user's."""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from qverify.errors import TaskError
from qverify.model_bin.graph import Graph
from qverify.printable import printable
from qverify.session.task.labels import Label, parse_class

Real = npt.NDArray[Any]
TOP = (1, 5)  # top-1 and top-5, as far as there are more classes


@dataclass(frozen=True, slots=True)
class Score:
    """A side's result on one frame. values: the numbers, by name. right: whether the result is correct, None if the
    metric does not decide that. answer: the result as text for the user."""

    values: dict[str, float]
    right: bool | None
    answer: str


class Metric(Protocol):
    """A measure of a side's outputs. name: its name in the report. output: name of the output it reads, "" for all."""

    name: str
    output: str

    def check(self, label: Label, frame: str) -> None:
        """Raises TaskError for a label that cannot be used."""

    def score(self, outputs: Mapping[str, Real], label: Label, frame: str, side: str) -> Score:
        """Returns the side's score. outputs: the real (dequantized) values of the outputs, by name."""


class Classification:
    """The rank of the labelled class among the values of an output. Of equal values, the first ranks higher; an output
    with NaN is wrong. Raises TaskError unless exactly one output has exactly one axis longer than 1."""

    name = "classification"

    def __init__(self, graph: Graph, names: list[str], path: str):
        shapes = {n: graph.spec(n).shape for n in names}
        candidates = [n for n, shape in shapes.items() if max(shape, default=1) == prod(shape) > 1]
        if len(candidates) != 1:
            outputs = ", ".join(f"{printable(n)} {'x'.join(map(str, shape))}" for n, shape in shapes.items())
            raise TaskError(
                f"--labels {path}: no class axis: the outputs are {outputs}; wanted one with a single dim above 1, or --task-metric"
            )
        self.output, self._classes, self._path = candidates[0], prod(shapes[candidates[0]]), path
        self._top = [k for k in TOP if k < self._classes]

    def check(self, label: Label, frame: str) -> None:
        parse_class(label, self._classes, self._path, frame)

    def score(self, outputs: Mapping[str, Real], label: Label, frame: str, side: str) -> Score:
        values = np.asarray(outputs[self.output], np.float64).reshape(-1)
        if np.isnan(values).any() or len(values) != self._classes:
            return Score({f"top-{k}": 0.0 for k in self._top}, False, "NaN")
        expected = parse_class(label, self._classes, self._path, frame)
        rank = int((values > values[expected]).sum() + (values[:expected] == values[expected]).sum())
        return Score({f"top-{k}": float(rank < k) for k in self._top}, rank == 0, str(int(values.argmax())))


class UserMetric:
    """A function of the user's: function(outputs, label, frame) returns a number, or True or False."""

    output = ""

    def __init__(self, text: str):
        self.name, self._function = text, _load_function(text)

    def check(self, label: Label, frame: str) -> None:
        pass

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


def _load_function(text: str) -> Callable[..., Any]:
    """Returns the function named by FILE.py:NAME or MODULE:NAME. Raises TaskError if it cannot be loaded."""
    where, colon, name = text.rpartition(":")
    if not colon or not where or not name.isidentifier():
        raise TaskError(f"--task-metric {text}: wanted FILE.py:FUNCTION or MODULE:FUNCTION")
    try:
        with redirect_stdout(sys.stderr):
            module = _load_file(where) if where.endswith(".py") else importlib.import_module(where)
    except FileNotFoundError as error:
        raise TaskError(f"--task-metric {text}: there is no file {where}") from error
    except (Exception, SystemExit) as error:  # the user's module may raise anything
        message = " ".join(f"{type(error).__name__}: {error}".split())
        raise TaskError(f"--task-metric {text}: {where} cannot be loaded: {printable(message)}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise TaskError(f"--task-metric {text}: {where} has no function {name}")
    loaded: Callable[..., Any] = function
    return loaded


def _load_file(path: str) -> Any:
    """Runs a Python file as a module, which is not added to sys.modules, and returns it."""
    spec = importlib.util.spec_from_file_location(os.path.basename(path).removesuffix(".py"), path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
