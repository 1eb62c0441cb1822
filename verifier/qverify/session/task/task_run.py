"""Measures every side, and the float model, on every frame of a run, and makes the task numbers of the report."""

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
from qverify.session.task.labels import Label, read_labels
from qverify.session.task.metrics import Classification, Metric, Score, UserMetric
from qverify.session.task.task_request import TaskRequest
from qverify.session.triage.float_stages import feed_network, network_values
from qverify.sides.float_file import FloatFile
from qverify.triage.float_pairing import pair_ends

HOST_SIDES = ("float", "reference", "simulator")
SIDES = (*HOST_SIDES, "board")


class TaskRun:
    """Collects the task numbers of one run. sides: the sides that take part, without the float model. Raises TaskError
    if the numbers cannot be computed for this model."""

    def __init__(self, task: TaskRequest, graph: Graph, request: Request, sides: Collection[str]):
        self._graph, self._board = graph, request.board
        self._names = [*graph.network_outputs(), *(n for island in graph.islands for n in island.finals)]
        self._labels_path = task.labels or ""
        self._metric: Metric = (
            UserMetric(task.metric) if task.metric else Classification(graph, self._names, self._labels_path)
        )
        self._float = _open_float(task.float_model, request) if task.float_model else None
        self._expected = [side for side in SIDES if side in sides or (side == "float" and self._float is not None)]
        self._labels: list[Label] = []
        self._frames: list[tuple[int, str, dict[str, Score]]] = []
        self._notes: dict[str, None] = {}

    def begin(self, frames: list[str]) -> None:
        """Reads the labels of the frames before the first one runs. Raises TaskError if they do not fit the frames or
        the metric."""
        self._labels = read_labels(self._labels_path, frames) if self._labels_path else [None] * len(frames)
        for label, frame in zip(self._labels, frames, strict=True):
            self._metric.check(label, frame)

    def add(self, number: int, source: str, evidence: RunEvidence) -> None:
        """Measures the sides on a frame that just ran. Outputs of the board that are not on this host are pulled."""
        scores = dict[str, Score]()
        for side in self._expected:
            if (outputs := self._outputs(side, evidence)) is not None:
                scores[side] = self._metric.score(outputs, self._labels[number], source, side)
        self._frames.append((number, source, scores))

    def _outputs(self, side: str, evidence: RunEvidence) -> dict[str, Any] | None:
        """Returns the real values of a side's final outputs, by name; None if the side lacks one."""
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
        """Runs the float model on the frame's inputs. Returns its outputs under the names of the quantized model's.
        Raises TaskError if it cannot be run, or an output of the quantized model has no counterpart."""
        assert self._float is not None
        feed, finals = network_values(self._graph, evidence.prepared, evidence.results)
        graph_names = {original: name for name, original in _original_names(self._graph).items()}
        try:
            float_feed, _ = feed_network(self._float, feed)
            values = self._float.run(float_feed)
        except QVerifyError as error:
            raise TaskError(f"{self._float.name}: cannot be run beside the quantized model: {error}") from error
        shapes: Any = (lambda n: values[n].shape, lambda n: finals[n][0].shape)
        names, note = pair_ends(
            list(values), list(finals), shapes, f"outputs of {self._float.name} and the quantized model"
        )
        self._notes |= {note: None} if note else {}
        outputs = {
            graph_names.get(names[n], names[n]): np.asarray(v, np.float64) for n, v in values.items() if n in names
        }
        if lacking := [n for n in self._names if n not in outputs]:
            raise TaskError(
                f"{self._float.name}: no output is {printable(lacking[0])}'s, by name or by position and shape"
            )
        return outputs

    def numbers(self) -> TaskNumbers:
        """Returns the numbers of all frames that ran."""
        sides = [TaskSide(side, *self._mean(side)) for side in self._expected]
        ran = len(self._frames)
        notes = [
            f"{side.side} has no outputs of {count(ran - side.frames, 'frame')}, which its numbers leave out"
            for side in sides
            if side.frames < ran
        ]
        decided = all(score.right is not None for _, _, scores in self._frames for score in scores.values())
        return TaskNumbers(
            self._metric.name,
            printable(os.path.basename(self._labels_path)),
            self._metric.output,
            ran,
            sides,
            self._only_board_wrong() if decided else [],
            decided,
            [*notes, *self._notes],
            self._board,
        )

    def _mean(self, side: str) -> tuple[int, dict[str, float]]:
        """Returns on how many frames a side was measured, and the mean of each of its values."""
        measured = [scores[side].values for _, _, scores in self._frames if side in scores]
        names = measured[0] if measured else {}
        return len(measured), {name: sum(values[name] for values in measured) / len(measured) for name in names}

    def _only_board_wrong(self) -> list[TaskFrame]:
        """Returns the frames on which the board is wrong and every side of the host is right."""
        frames = []
        for number, source, scores in self._frames:
            host_is_right = [scores[side].right for side in HOST_SIDES if side in scores]
            if "board" in scores and scores["board"].right is False and host_is_right and all(host_is_right):
                label = self._labels[number]
                answers = {side: score.answer for side, score in scores.items()}
                frames.append(
                    TaskFrame(number, printable(source), "" if label is None else printable(str(label)), answers)
                )
        return frames


def _original_names(graph: Graph) -> Mapping[str, str]:
    """Returns the original model's name of each output whose quantization was removed, by the graph's name."""
    stripped: Mapping[str, str] = graph.meta.get("stripped", {}).get("outputs", {})
    return stripped


def _open_float(path: str, request: Request) -> FloatFile:
    folder = os.path.dirname(os.path.abspath(path))
    try:
        return FloatFile(read_model(path), os.path.basename(path), folder, request.shapes)
    except QVerifyError as error:
        raise TaskError(f"{path}: {error}") from error
