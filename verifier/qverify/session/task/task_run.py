"""Measures every side, and the float model, on every frame of a run, and makes the task numbers of the report, by which
its gates decide."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.compare.roles import parse_roles
from qverify.decoders.parts.settings import FITS
from qverify.errors import QVerifyError, TaskError
from qverify.inputs.described_inputs import described_inputs
from qverify.model_bin.channel_axes import find_channel_axes
from qverify.model_bin.graph import Graph
from qverify.onnx_model.load import read_model
from qverify.plural import count
from qverify.printable import printable
from qverify.report.document import BlamedRole, ReportDocument, TaskFrame, TaskNumbers, TaskSide
from qverify.session.request import Request
from qverify.session.run_evidence import RunEvidence
from qverify.session.task.blame_roles import Heads, RoleBlame, list_parts
from qverify.session.task.gates import hold_to_task_gates, judge_task_gates, parse_task_gates
from qverify.session.task.kinds import TaskContext, parse_task
from qverify.session.task.kinds.detection import Evaluator as Detection
from qverify.session.task.metrics import Classification, Metric, Score, UserMetric
from qverify.session.task.task_request import TaskRequest
from qverify.session.task.worse_frames import FramePictures, add_boxes, is_worse, loss
from qverify.session.triage.float_stages import feed_network, network_values
from qverify.sides.float_file import FloatFile
from qverify.tensors.spec import TensorSpec
from qverify.triage.float_pairing import pair_ends

HOST_SIDES = ("float", "reference", "simulator")
SIDES = (*HOST_SIDES, "board")


class TaskRun:
    """Collects the task numbers of one run. sides: the sides that take part, without the float model. Raises TaskError
    if the numbers cannot be computed for this model."""

    def __init__(self, task: TaskRequest, graph: Graph, request: Request, sides: Collection[str]):
        self._graph, self._board = graph, request.board
        self._names = [*graph.network_outputs(), *(n for island in graph.islands for n in island.finals)]
        self._labels_path, self._task = task.labels or "", task.kind.partition(",")[0]
        self._metric = _choose_metric(task, graph, self._names, request)
        self._gates = parse_task_gates(request.options.task_gates, self._metric)
        self._roles = parse_roles(request.options.roles)
        self._float = _open_float(task.float_model, request) if task.float_model else None
        engines = [side for side in sides if side not in SIDES]
        order = [*HOST_SIDES, *engines, "board"]
        self._expected = [side for side in order if side in sides or (side == "float" and self._float is not None)]
        self._base = "reference" if "reference" in self._expected else "simulator"
        self._labels: list[Any] = []
        self._frames: list[tuple[int, str, dict[str, Score]]] = []
        self._notes: dict[str, None] = {}
        self._broken: dict[str, int] = {}  # frames in which a side has NaN
        self._pictures, self._blame = FramePictures(), None if not self._gates else RoleBlame([])

    def begin(self, frames: list[str]) -> None:
        """Reads the labels of the frames before the first one runs. Raises TaskError if they do not fit the frames or
        the metric."""
        self._labels = self._metric.labels(frames)
        for label, frame in zip(self._labels, frames, strict=True):
            self._metric.check(label, frame)
        if self._blame is not None:
            shapes = {name: self._graph.spec(name).shape for name in self._names}
            axes = find_channel_axes(self._graph)
            self._blame = RoleBlame(list_parts(self._names, shapes, axes, self._roles, heads_of(self._metric)))

    def add(self, number: int, source: str, evidence: RunEvidence) -> None:
        """Measures the sides on a frame that just ran. Outputs of the board that are not on this host are pulled."""
        scores, label, given = dict[str, Score](), self._labels[number], dict[str, dict[str, Any]]()
        for side in self._expected:
            if (outputs := self._outputs(side, evidence)) is not None:
                scores[side] = self._metric.score(outputs, label, source, side)
                if any(np.isnan(value).any() for value in outputs.values() if value.dtype.kind == "f"):
                    self._broken[side] = self._broken.get(side, 0) + 1
                given |= {side: outputs} if side in (self._base, "board") else {}
        self._frames.append((number, source, scores))
        if self._blame is not None and {self._base, "board"} <= given.keys():
            both = (scores.get(self._base), scores["board"])
            self._blame.add(
                given[self._base],
                given["board"],
                both,
                lambda changed: self._metric.score(changed, label, source, "board with values of the reference"),
            )
        if isinstance(self._metric, Detection) and is_worse(scores, HOST_SIDES, self._metric.step):
            self._pictures.add(number, loss(scores, HOST_SIDES), evidence.prepared)

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
            real = None if value is None else _real_values(np.asarray(value), self._graph.spec(name))
            if real is None:
                return None
            values[name] = real
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
        """Returns the numbers of all frames that ran, and what the gates find of them."""
        sides = [TaskSide(side, *self._summary(side)) for side in self._expected]
        ran = len(self._frames)
        notes = [
            f"{side.side} has no outputs of {count(ran - side.frames, 'frame')}, which its numbers leave out"
            for side in sides
            if side.frames < ran
        ]
        notes += [note for side in self._expected for note in self._metric.list_notes(side, self._scores_of(side))]
        if self._metric.labelled > len(self._labels):
            notes.append(self._say_subset())
        notes += [f"{side} has NaN in {count(frames, 'frame')}" for side, frames in self._broken.items()]
        decided = all(score.right is not None for _, _, scores in self._frames for score in scores.values())
        decider = decided or any(s.level is not None for _, _, scores in self._frames for s in scores.values())
        found = TaskNumbers(
            self._metric.name,
            printable(os.path.basename(os.path.normpath(self._labels_path))) if self._labels_path else "",
            self._metric.output,
            ran,
            sides,
            self._worse_frames() if decider else [],
            decided,
            [*notes, *self._notes],
            self._board,
            self._task,
            printable(self._metric.decoder),
        )
        found.gates = judge_task_gates(self._gates, found, len(self._labels), self._broken)
        found.blamed = self._find_blamed(found)
        return found

    def state(self, report: ReportDocument) -> None:
        """Adds the numbers to the report of the whole run, and gives its pairs the verdict of the gates that they miss."""
        numbers = self.numbers()
        values = {side.side: side.values for side in numbers.sides}
        apart = values.get("board") != values.get(self._base)
        missed = apart and any(row.verdict == "FAILED" and row.side == "board" for row in numbers.gates)
        pairs = [pair for pair in report.pairs if (pair.a, pair.b) == (self._base, "board")]
        if missed and pairs and all(pair.verdict == "PASSED" and not pair.relaxed for pair in pairs):
            numbers.notes.append(FINALS_AGREE)
        report.tasks = [numbers]
        if self._gates and self._metric.labelled > len(self._labels):
            report.caveats.append(f"--gate task: {self._say_subset()}")
        if self._gates:
            hold_to_task_gates(report, numbers)

    def _summary(self, side: str) -> tuple[int, dict[str, float]]:
        """Returns on how many frames a side was measured, and its values."""
        rows = [(scores[side], scores.get(self._base)) for _, _, scores in self._frames if side in scores]
        values = self._metric.summarize([score for score, _ in rows], [base for _, base in rows]) if rows else {}
        return len(rows), values

    def _scores_of(self, side: str) -> list[Score]:
        return [scores[side] for _, _, scores in self._frames if side in scores]

    def _say_subset(self) -> str:
        labelled, ran = self._metric.labelled, len(self._labels)
        return f"{labelled - ran} of {count(labelled, 'labelled frame')} were not run: the numbers are of {count(ran, 'frame')}"

    def _find_blamed(self, numbers: TaskNumbers) -> list[BlamedRole]:
        """Returns the role of the outputs that costs the board a gate."""
        sides = {side.side: side for side in numbers.sides}
        missed = [row for row in numbers.gates if row.side == "board" and row.verdict == "FAILED"]
        if self._blame is None or not missed or sides[self._base].frames < len(self._frames):
            return []
        gate = next(gate for gate in self._gates if gate.text == missed[0].gate)
        values = tuple(sides[side].values.get(gate.metric, math.nan) for side in (self._base, "board"))
        smaller = gate.sign == "<="
        limit = missed[0].limit
        holds = (lambda v: v <= limit) if smaller else (lambda v: v >= limit)
        blamed = self._blame.find(gate.metric, smaller, (values[0], values[1]), self._metric.summarize, holds)
        return [blamed] if blamed is not None else []

    def _worse_frames(self) -> list[TaskFrame]:
        """Returns the frames on which the board alone is wrong, or worse than every side of the host; the latter with the
        largest loss first."""
        frames = []
        for number, source, scores in self._frames:
            if not is_worse(scores, HOST_SIDES, self._metric.step):
                continue
            label = self._labels[number]
            shown = "" if label is None or not isinstance(label, (str, int, float)) else printable(str(label))
            answers = {side: score.answer for side, score in scores.items()}
            frame = TaskFrame(
                number, printable(source), os.path.basename(shown) if self._task in PATHS else shown, answers
            )
            frames.append((loss(scores, HOST_SIDES), frame, scores))
        frames.sort(key=lambda row: -row[0])
        if isinstance(self._metric, Detection):
            for _, frame, scores in frames[:MAX_LISTED_BOXES]:
                add_boxes(
                    frame,
                    scores,
                    self._base,
                    self._pictures.get(frame.frame),
                    self._metric.fit,
                    self._metric.categories,
                )
        return [frame for _, frame, _ in frames]


PATHS = ("segmentation", "super-resolution")  # tasks whose labels are files
MAX_LISTED_BOXES = 8  # frames whose boxes are in the report
FINALS_AGREE = (
    "the final outputs of the board agree with those of the host, so its loss is not made by the network: compare what its "
    "application makes of them, qverify outputs diff REFERENCE DEVICE"
)


def _choose_metric(task: TaskRequest, graph: Graph, names: list[str], request: Request) -> Metric:
    """Returns the metric of a request: the user's, that of its task, or classification."""
    if task.metric:
        return UserMetric(task.metric, task.labels or "")
    if not task.kind:
        return Classification(graph, names, task.labels or "")
    page, options = parse_task(task.kind)
    if not task.labels:
        raise TaskError(f"--task {page.NAME}: wanted --labels: {page.LABELS}")
    fit = next((str(t["fit"]) for t in request.inputs.tables.values() if "fit" in t), "")
    described = [d.description.fit for d in described_inputs(graph).values() if d.description is not None]
    fit = fit or next(iter(described), "")
    decoder, table = task.decoder, request.inputs.decoder
    return page.Evaluator(TaskContext(graph, names, task.labels, options, decoder, table, fit if fit in FITS else ""))


def _real_values(value: npt.NDArray[Any], spec: TensorSpec) -> npt.NDArray[Any] | None:
    """Returns the real values of an output in the network's shape, which a side may give flat, or as real values of a
    quantized tensor; None of another number of elements."""
    if value.size != spec.elements:
        return None
    value = value.reshape(spec.shape)
    is_real = bool(spec.scale) and value.dtype.kind == "f"
    return value.astype(np.float64) if is_real else spec.dequantized(value)


def heads_of(metric: Metric) -> Heads:
    """Returns what is known of a detector's rows."""
    return metric.heads if isinstance(metric, Detection) else Heads()


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
