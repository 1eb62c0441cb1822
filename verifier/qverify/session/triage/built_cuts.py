"""Cuts a model for a board that offers only final outputs: each cut is built by the user's command, run on the board,
and compared with the reference."""

from __future__ import annotations

import hashlib
import os
import shlex
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qverify_agents.errors import LinkError

from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.errors import QVerifyError
from qverify.model_bin.cut_graph import cut, find_needed_nodes
from qverify.model_bin.graph import Graph
from qverify.onnx_model.cut_written import WrittenModel
from qverify.onnx_model.load import read_model
from qverify.report.document import TensorRow
from qverify.session.triage.run_command import BUILD_TIMEOUT_S, fill_in_paths, run_to_end
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording
from qverify.triage.ladder import RungGate

OpenBoard = Callable[[str, bytes, Graph], Any]  # called with name and bytes of the board's model, and its graph


@dataclass(frozen=True, slots=True)
class CutResult:
    """The result of a cut. differing: a description of the difference for each output that fails the gate. agreeing:
    the outputs that pass. why: why there is no result, "" if there is one."""

    differing: Mapping[str, str]
    agreeing: frozenset[str]
    why: str = ""

    @property
    def differs(self) -> bool:
        """Whether an output fails the gate."""
        return bool(self.differing)


class BuiltCuts:
    """The cuts of a model. The model can be cut after each of its places.

    places: names of the tensors after which it can be cut, in running order. builds, runs: how often the command and
    the board ran so far."""

    def __init__(
        self,
        written: WrittenModel,
        graph: Graph,
        prepared: PreparedInputs,
        reference: Recording,
        build: str,
        gate: RungGate | None,
        open_board: OpenBoard,
    ):
        """reference: recording of the reference. build: a command with {onnx} and {model}. gate: gate of the rung, None
        for that of the main job. open_board: connects a board that has a runner."""
        self._written, self._graph, self._prepared, self._reference = written, graph, prepared, reference
        self._build, self._gate, self._open_board = shlex.split(build), gate, open_board
        needed_names = {n for node in find_needed_nodes(graph, graph.outputs, set(graph.inputs)) for n in node.outputs}
        self.places = [n for n in graph.observable() if n in needed_names and n in written.computed]
        self._results: dict[str, CutResult] = {}
        self._models: dict[str, str] = {}  # hash of a built model: last tensor of the cut from which it was first built
        self.builds = self.runs = 0

    def frontier(self, place: int) -> tuple[str, ...]:
        """Returns the outputs of the cut after this place: the tensors up to it that later nodes read, and the final
        outputs among them."""
        before = set(self.places[: place + 1])
        later = find_needed_nodes(self._graph, self._graph.outputs, {*before, *self._graph.inputs})
        read = {n for node in later for n in node.inputs if n is not None} | set(self._graph.outputs)
        return tuple(n for n in self.places[: place + 1] if n in read)

    def run_after(self, place: int) -> CutResult:
        """Returns the result of the cut after this place. The same ONNX is built and run only once."""
        outputs = self.frontier(place)
        try:
            source = self._written.cut(outputs)
        except (QVerifyError, KeyError, ValueError) as error:
            return CutResult({}, frozenset(), f"no ONNX of it can be cut: {error}")
        key = hashlib.sha256(source).hexdigest()
        if key not in self._results:
            self._results[key] = self._run(source, outputs)
        return self._results[key]

    def _run(self, source: bytes, outputs: tuple[str, ...]) -> CutResult:
        """Builds an ONNX, runs the result on the board, and compares its outputs."""
        with tempfile.TemporaryDirectory(prefix="qverify-build-") as folder:
            model, why = self._build_model(source, folder)
        first = self._models.setdefault(hashlib.sha256(model).hexdigest(), outputs[-1]) if not why else outputs[-1]
        if first != outputs[-1]:
            why = f"--build-cmd {self._build[0]}: the same bytes as for the cut after {first}; does it read {{onnx}}?"
        if why:
            return CutResult({}, frozenset(), why)
        part = cut(self._graph, set(self._graph.inputs), outputs)
        inputs = PreparedInputs(tuple(i for i in self._prepared.inputs if i.spec.name in part.inputs))
        self.runs += 1
        try:
            board = self._open_board("cut.model", model, part)
            try:
                recording = board.run(inputs, dump_all=False)
                return self._compare(part, inputs, recording)
            finally:
                board.close()
        except (QVerifyError, LinkError) as error:
            return CutResult({}, frozenset(), f"the cut could not be run: {error}")

    def _build_model(self, source: bytes, folder: str) -> tuple[bytes, str]:
        """Runs the build command in a folder. Returns the board's model and "", or b"" and why there is none."""
        onnx, model = os.path.join(folder, "cut.onnx"), os.path.join(folder, "cut.model")
        Path(onnx).write_bytes(source)
        words = fill_in_paths(self._build, onnx, model)
        self.builds += 1
        try:
            status, last = run_to_end(words, BUILD_TIMEOUT_S)
            if status or not os.path.isfile(model):
                how = f"exit status {status}" if status else "it wrote no {model}"
                return b"", f"--build-cmd {words[0]}: {how}{f', {last}' if last else ''}".replace(
                    f"{folder}{os.sep}", ""
                )
            return read_model(model), ""
        except (OSError, TimeoutError, QVerifyError) as error:
            return b"", f"--build-cmd {words[0]}: {error}"

    def _compare(self, part: Graph, inputs: PreparedInputs, board: Recording) -> CutResult:
        """Compares the board's outputs with the reference's values of these tensors."""
        if board.state != "complete" or board.missing:
            why = board.why or "; ".join(board.missing.values())
            return CutResult({}, frozenset(), f"the board gave no result: {why}")
        names = part.outputs
        reference = replace(
            self._reference,
            specs={n: self._reference.specs[n] for n in names},
            tensors={n: self._reference.tensors[n] for n in names},
            digests={n: d for n, d in self._reference.digests.items() if n in names},
            finals=names,
            inputs_sha256=inputs.sha256,
        )
        recordings = {"reference": reference, "board": replace(board, inputs_sha256=inputs.sha256)}
        report = judge_all(recordings, part, [], Options(dump_all=True), {}, None, inputs.arrays())
        rows = {row.name: row for row in report.pairs[0].tensors}
        if lost := next((n for n in names if n not in rows or rows[n].verdict == "INCONCLUSIVE"), None):
            return CutResult({}, frozenset(), f"{lost} was not compared: {report.pairs[0].why}")
        differing = {n: _describe_difference(rows[n]) for n in names if not self._passes(rows[n])}
        return CutResult(differing, frozenset(names) - differing.keys())

    def _passes(self, row: TensorRow) -> bool:
        largest, cosine, ratio = (row.metrics.get(n) for n in ("max_abs", "cosine", "norm_ratio"))
        if self._gate is None or not isinstance(largest, float | int) or not isinstance(cosine, float | int):
            return row.verdict == "PASSED"
        return self._gate.holds(float(largest), float(cosine), float(ratio) if isinstance(ratio, float | int) else 1.0)


def _describe_difference(row: TensorRow) -> str:
    largest = row.metrics.get("max_abs")
    by = f" by up to {largest:.4g}" if isinstance(largest, float | int) else f": {row.why}"
    return f"{row.failing or row.elements} of {row.elements} elements differ{by}"
