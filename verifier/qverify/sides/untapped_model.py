"""The user's unchanged quantized ONNX, run on a board of another runtime beside the model whose inner tensors are
outputs, too: those taps change what a runtime may fuse, and so what it computes."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from qverify.arithmetic import float32
from qverify.onnx_model.find_optimizer import FoundOptimizer, SessionSettings, find_optimizer
from qverify.onnx_model.load import parse
from qverify.ops.quantize import parameters
from qverify.sides.reference import Reference
from qverify.sides.untapped_run import NOT_RUN, Misfit, OutputType, put_session, run_finals, run_untapped
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Untapped
from qverify.tensors.spec import TensorSpec

if TYPE_CHECKING:
    from qverify_agents.protocol.client import Agent


class UntappedModel:
    """The unchanged ONNX. model: its bytes. reference: knows how its inputs and outputs belong to those of the graph.

    cut: function of the reference that cuts nodes out of the integer form."""

    def __init__(self, model: bytes, reference: Reference):
        self.model, self.sha256 = model, hashlib.sha256(model).hexdigest()
        self._reference, self._graph, self.cut = reference, reference.graph, reference.cut
        parsed = parse(model, "the quantized ONNX").graph
        constants = {t.name for t in parsed.initializer}
        self._inputs = [i.name for i in parsed.input if i.name not in constants]
        ours, inputs = reference.outputs_of_original(), {*self._inputs, *self._graph.inputs}
        self._ours = {o.name: ours[o.name] for o in parsed.output if o.name in ours and ours[o.name] not in inputs}

    def run(
        self,
        agent: Agent,
        prepared: PreparedInputs,
        capabilities: Collection[str],
        settings: SessionSettings | None = None,
    ) -> Untapped:
        """Runs the model on the board with its own outputs only. Returns them under the graph's names, or why there are
        none. settings: a level and disabled optimizers in place of the board's. Raises LinkError if the link fails or
        the board contradicts itself."""
        feed = self._reference.feed_of_original(prepared)
        if lacking := next((n for n in self._inputs if n not in feed), None):
            return Untapped(why=f"{NOT_RUN}: nothing is given for its input {lacking}")

        def compute() -> dict[str, Array]:
            agent.put(self.sha256, self.model)
            model = self.sha256
            if settings is not None:
                model = put_session(agent, model, level=settings.level, disabled=[*settings.disabled])
            outputs = {n: self._type(n) for n in self._ours}
            inputs = (_dense(feed[n]) for n in self._inputs)
            values = run_finals(agent, model, inputs, outputs, "digests" in capabilities)
            return {self._ours[n]: self._as_ours(n, value) for n, value in values.items()}

        return run_untapped(compute)

    def find_optimizer(
        self,
        agent: Agent,
        prepared: PreparedInputs,
        capabilities: Collection[str],
        changed: Mapping[str, Array],
        wanted: Mapping[str, Array],
    ) -> FoundOptimizer:
        """Returns the optimization of the board's onnxruntime that makes it give `changed` in place of `wanted`, final
        outputs by name. Raises LinkError as run() does."""

        def run(settings: SessionSettings) -> Mapping[str, Array] | None:
            result = self.run(agent, prepared, capabilities, settings)
            fits = not result.why and all(result.tensors[n].shape == wanted[n].shape for n in changed)
            return {n: result.tensors[n] for n in changed} if fits else None

        return find_optimizer(run, changed, wanted=wanted)

    def complete(self, untapped: Untapped, with_taps: Mapping[str, Array], kept: int | None) -> Untapped:
        """Returns the outputs with the rows that only the graph has, after a NonMaxSuppression, where the unchanged
        model has only those of the boxes that it keeps; they are taken from the run with taps. kept: the number of boxes
        that this run kept, None if it is not known; without as many rows, there are no outputs."""
        tensors = dict[str, Array]()
        for name, value in untapped.tensors.items():
            whole, axis = with_taps.get(name), self._bounded_axis(name)
            if whole is None or axis is None or value.shape == whole.shape:
                tensors[name] = value
                continue
            rows = value.shape[axis]
            if rows != kept:
                known = "an unknown number" if kept is None else kept
                return Untapped(why=f"{name} of the unchanged model has {rows} rows, the run with taps kept {known}")
            tensors[name] = np.concatenate([value, whole.take(range(rows, whole.shape[axis]), axis)], axis)
        return Untapped(tensors, untapped.why)

    @property
    def bounding(self) -> str:
        """The only tensor of the graph that lists the boxes which a NonMaxSuppression keeps; "" without it."""
        found = [n.outputs[0] for n in self._graph.nodes if n.op == "non_max_suppression"]
        return found[0] if len(found) == 1 else ""

    def _bounded_axis(self, ours: str) -> int | None:
        """Returns the axis of an output that has a row for each box, None without one."""
        if not self.bounding:
            return None
        rows, shape = self._graph.spec(self.bounding).shape[0], self._graph.spec(ours).shape
        return shape.index(rows) if shape.count(rows) == 1 else None

    def _type(self, name: str) -> OutputType:
        ours = self._ours[name]
        spec = self._graph.spec(ours)
        dtype = np.dtype(np.float32) if self._is_real(name) else spec.numpy_dtype
        return OutputType(dtype, spec.shape, self._bounded_axis(ours))

    def _is_real(self, name: str) -> bool:
        """Returns whether the graph has the integers behind this output of real values."""
        return self._ours[name] in self._reference.stripped("outputs")

    def _as_ours(self, name: str, value: Array) -> Array:
        return _as_integers(value, self._graph.spec(self._ours[name])) if self._is_real(name) else value


def _as_integers(value: Array, spec: TensorSpec) -> Array:
    """Returns the integers that these real values stand for. Raises Misfit if they are no whole steps."""
    scale, zero_point = parameters(spec)
    integers = float32.quantize(value, scale, zero_point, spec.dtype)
    if not np.array_equal(float32.dequantize(integers, scale, zero_point), value):
        raise Misfit(
            f"its real values of {spec.name} are no whole steps of the scale, so it left out the last quantization: judge "
            "them by a model.bin without --strip-io-quant, or with form=original"
        )
    return integers


def _dense(value: Array) -> bytes:
    return np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False).tobytes()
