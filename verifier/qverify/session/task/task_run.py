"""Measures every side on every frame of a run, the float model's too, and makes the report's task numbers."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from qverify.errors import QVerifyError, TaskError
from qverify.model_bin.graph import Graph
from qverify.onnx_model.load import read_model
from qverify.plural import count
from qverify.printable import printable
from qverify.report.document import TaskFrame, TaskNumbers, TaskSide
from qverify.session.request import Request
from qverify.session.run_evidence import RunEvidence
from qverify.session.task.labels import Label, labels_of
from qverify.session.task.metrics import Classification, Metric, OwnMetric, Score
from qverify.session.task.task_request import TaskRequest
from qverify.session.triage.float_stages import feed_network, network_values
from qverify.sides.float_file import FloatFile
from qverify.triage.float_pairing import pair_ends

HOST = ("float", "reference", "simulator")
SIDES = (*HOST, "board")


class TaskRun:
    """The task numbers of one run. sides: that take part, besides the float model. TaskError where they cannot be made."""

    def __init__(self, asked: TaskRequest, graph: Graph, request: Request, sides: Collection[str]):
        self._graph, self._board = graph, request.board
        self._names = [*graph.network_outputs(), *(n for island in graph.islands for n in island.finals)]
        self._labels_path = asked.labels or ""
        self._metric: Metric = (
            OwnMetric(asked.metric) if asked.metric else Classification(graph, self._names, self._labels_path)
        )
        self._float = _open_float(asked.float_model, request) if asked.float_model else None
        self._expected = [side for side in SIDES if side in sides or (side == "float" and self._float is not None)]
        self._labels: list[Label] = []
        self._frames: list[tuple[int, str, dict[str, Score]]] = []
        self._notes: dict[str, None] = {}

    def begin(self, frames: list[str]) -> None:
        """Reads the labels of the frames, before any runs. TaskError where they do not fit."""
        self._labels = labels_of(self._labels_path, frames) if self._labels_path else [None] * len(frames)
        for label, frame in zip(self._labels, frames, strict=True):
            self._metric.check(label, frame)

    def add(self, number: int, source: str, evidence: RunEvidence) -> None:
        """Measures the sides on a frame that just ran; the board's outputs are pulled where nobody has them."""
        scores = dict[str, Score]()
        for side in self._expected:
            if (outputs := self._outputs(side, evidence)) is not None:
                scores[side] = self._metric.score(outputs, self._labels[number], source, side)
        self._frames.append((number, source, scores))

    def _outputs(self, side: str, evidence: RunEvidence) -> dict[str, Any] | None:
        """Returns the final outputs of a side, real values by name; None where it does not have them all."""
        if side == "float":
            return self._float_outputs(evidence)
        recording = evidence.results.recordings.get(side)
        values = dict[str, Any]()
        for name in self._names:
            if side == "board":
                value, _ = evidence.board_value(name)
            else:
                value = recording.tensors[name] if recording is not None and name in recording.tensors else None
            if value is None:
                return None
            values[name] = self._graph.spec(name).dequantized(np.asarray(value))
        return values

    def _float_outputs(self, evidence: RunEvidence) -> dict[str, Any]:
        assert self._float is not None
        feed, finals = network_values(self._graph, evidence.prepared, evidence.results)
        own = {shown: name for name, shown in _shown_names(self._graph).items()}
        try:
            theirs, _ = feed_network(self._float, feed)
            values = self._float.run(theirs)
        except QVerifyError as error:
            raise TaskError(f"{self._float.name}: cannot be run beside the quantized model: {error}") from error
        shapes: Any = (lambda n: values[n].shape, lambda n: finals[n][0].shape)
        names, note = pair_ends(
            list(values), list(finals), shapes, f"outputs of {self._float.name} and the quantized model"
        )
        self._notes |= {note: None} if note else {}
        found = {own.get(names[n], names[n]): np.asarray(v, np.float64) for n, v in values.items() if n in names}
        if lacking := [n for n in self._names if n not in found]:
            raise TaskError(
                f"{self._float.name}: no output is {printable(lacking[0])}'s, by name or by position and shape"
            )
        return found

    def numbers(self) -> TaskNumbers:
        """Returns the numbers of all frames that ran."""
        sides = [TaskSide(side, *self._mean(side)) for side in self._expected]
        ran = len(self._frames)
        notes = [
            f"{one.side} has no outputs of {count(ran - one.frames, 'frame')}, which its numbers leave out"
            for one in sides
            if one.frames < ran
        ]
        told = all(score.right is not None for _, _, scores in self._frames for score in scores.values())
        return TaskNumbers(
            self._metric.name,
            printable(os.path.basename(self._labels_path)),
            self._metric.output,
            ran,
            sides,
            self._only_board_wrong() if told else [],
            told,
            [*notes, *self._notes],
            self._board,
        )

    def _mean(self, side: str) -> tuple[int, dict[str, float]]:
        scores = [scores[side].values for _, _, scores in self._frames if side in scores]
        names = scores[0] if scores else {}
        return len(scores), {name: sum(one[name] for one in scores) / len(scores) for name in names}

    def _only_board_wrong(self) -> list[TaskFrame]:
        found = []
        for number, source, scores in self._frames:
            others = [scores[side].right for side in HOST if side in scores]
            if "board" in scores and scores["board"].right is False and others and all(others):
                label = self._labels[number]
                answers = {side: score.answer for side, score in scores.items()}
                found.append(
                    TaskFrame(number, printable(source), "" if label is None else printable(str(label)), answers)
                )
        return found


def _shown_names(graph: Graph) -> Mapping[str, str]:
    """Returns the name in the original model of each output whose quantization was left out."""
    stripped: Mapping[str, str] = graph.meta.get("stripped", {}).get("outputs", {})
    return stripped


def _open_float(path: str, request: Request) -> FloatFile:
    folder = os.path.dirname(os.path.abspath(path))
    try:
        return FloatFile(read_model(path), os.path.basename(path), folder, request.shapes)
    except QVerifyError as error:
        raise TaskError(f"{path}: {error}") from error
