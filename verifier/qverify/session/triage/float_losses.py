"""Measures the quantization loss for triage: accumulated over all frames, and on request with one tensor quantized at a
time and with tensors kept in float (the what-if)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import numpy as np

from qverify.onnx_model.graph_view import GraphView
from qverify.onnx_model.load import load
from qverify.onnx_model.switched_model import SwitchedModel
from qverify.report.triage_document import Rung, TensorLoss, WhatIf
from qverify.session.host_sides import Watch, progress_of_step
from qverify.session.models import Models
from qverify.session.triage.float_stages import output_steps
from qverify.sides.float_file import FloatFile
from qverify.tensors.recording import Array
from qverify.triage.advice import loss_evidence, loss_kind
from qverify.triage.clipping import ClippedChannel, describe_clipping
from qverify.triage.divergence import pieces
from qverify.triage.float_pairing import pair_float
from qverify.triage.ladder import RungGate
from qverify.triage.loss import MOST_RUNS, Losses, LossExperiment, loudest_frames, make_switches, quantize_one_at_a_time
from qverify.triage.loudness import OutputStep
from qverify.triage.neighbourhood import neighbourhoods
from qverify.triage.what_if import what_if

AGREEING_COSINE = 0.99  # of a quantized tensor with the float one over all frames, from which a drawing shows agreement


class FloatLosses:
    """The losses between one float file and the quantized ONNX.

    clipped: the clipped channels by tensor, clipped_weights: a fact on each constant, set by finish(). rows: the loss of each tensor, set by finish(), and sorted by one_at_a_time() with the most sensitive first.
    what_if: the result of keeping tensors in float, None before one_at_a_time(). duration_s: time that one_at_a_time()
    took."""

    def __init__(self, file: FloatFile, models: Models, paths: list[str]):
        assert models.original is not None
        self.file, self.graph = file, models.graph
        name = next(row["path"] for row in models.rows if row["kind"] == "quant.onnx")
        path = next((p for p in paths if os.path.basename(p) == name), name)
        shapes = {k: tuple(v) for k, v in self.graph.meta.get("options", {}).get("shapes", {}).items()}
        model = load(models.original, name, os.path.dirname(os.path.abspath(path)), shapes)
        self.paired = pair_float(file.view, GraphView(model, name), self.graph)
        steps = output_steps(self.graph)
        self._steps = {
            float_name: steps[graph_name]
            for graph_name, float_name in self.paired.outputs.items()
            if graph_name in steps
        }
        self._losses = Losses(self.paired, file.view, self.graph)
        self._frames: list[dict[str, Array]] = []
        self.rows: list[TensorLoss] = []
        self.clipped_weights: dict[str, str] = {}
        self.clipped: dict[str, list[ClippedChannel]] = {}
        self.what_if: WhatIf | None = None
        self.duration_s = 0.0

    def add(self, feed: dict[str, Array], quantized: Mapping[str, Array]) -> None:
        """Adds one frame. feed: inputs of the float file, by name. quantized: arrays of stored integers, by the graph's
        tensor names."""
        self._losses.add(self.file.tensors(feed, [p.tensor for p in self.paired.pairs]), quantized)
        self._frames.append(feed)

    def finish(self) -> None:
        """Sets the rows, after the last frame."""
        self.rows = self._losses.rows()
        self.clipped, self.clipped_weights = self._losses.clipped(), self._losses.clipped_weights()

    def one_at_a_time(self, gate: RungGate, watch: Watch | None = None) -> None:
        """Sets `single` of the rows, sorts them, and computes the what-if. gate: the gate of the rung from float."""
        if not self.rows:
            return
        start = time.perf_counter()
        switched = SwitchedModel(self.file.model, make_switches(self.paired, self.file.view, self.graph))
        experiment = LossExperiment(switched, self._choose_frames(), self._steps)
        quantize_one_at_a_time(experiment, self.rows, progress_of_step(watch, "one tensor at a time"))
        self.what_if = what_if(experiment, [r.tensor for r in self.rows], gate, progress_of_step(watch, "what if"))
        self.duration_s = time.perf_counter() - start

    def _choose_frames(self) -> list[dict[str, Array]]:
        """Returns the frames on which single tensors are measured: all, or as many as MOST_RUNS allows. They are chosen
        so that an output which is loud in any frame is loud in one of them."""
        max_frames = max(1, MOST_RUNS // (len(self.rows) + 1))
        if len(self._frames) <= max_frames:
            return self._frames
        outputs = (self.file.run(feed) for feed in self._frames)
        loudness = [{n: _loudness(out[n], step) for n, step in self._steps.items() if n in out} for out in outputs]
        return [self._frames[at] for at in loudest_frames(loudness, max_frames)]

    def explain(self, rung: Rung) -> None:
        """Sets kind, evidence and the culprit's neighbourhood of a failed rung from float."""
        rung.kind = loss_kind(self.rows, self.what_if, self.file.view.inputs)
        rung.evidence += loss_evidence(self.rows)
        agrees = {row.tensor: row.cosine >= AGREEING_COSINE for row in self.rows}
        inputs, culprits = tuple(self.file.view.inputs), self.culprits(rung.kind)[:1]
        rung.neighbourhoods = neighbourhoods(pieces(self.file.view, agrees), inputs, agrees.get, {}, culprits)

    def fail_clipped(self, rung: Rung, random: bool) -> None:
        """Fails a passing rung from float if a channel of a final output is clipped, whatever its gate. random: whether the
        inputs are random."""
        outputs = [n for n in self.clipped if n in self.paired.outputs.values()]
        if outputs and rung.verdict == "PASSED":
            rung.verdict, rung.kind = "FAILED", "clipped_output"
            rung.why = describe_clipping(outputs[0], self.clipped[outputs[0]], random)

    def culprits(self, kind: str) -> list[str]:
        """Returns the names of the tensors that the next step is about. kind: that of the rung."""
        if kind == "clipped_output":
            return [n for n in self.clipped if n in self.paired.outputs.values()]
        if kind in ("few", "few_clipped") and self.what_if is not None and self.what_if.steps:
            return self.what_if.steps[-1].tensors
        return [row.tensor for row in self.rows[:3] if row.single is not None]


def _loudness(value: Array, step: OutputStep) -> float:
    """Returns the largest finite magnitude of the values, in quantization steps."""
    magnitudes = np.abs(value.astype(np.float64))
    return float(magnitudes.max(initial=0.0, where=np.isfinite(magnitudes))) / step.size
