"""The user's unchanged quantized ONNX, run on a board of another runtime beside the model whose inner tensors are
outputs, too: those taps change what a runtime may fuse, and so what it computes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np
from qverify_agents.errors import AgentError, Contradiction, ProtocolError

from qverify.arithmetic import float32
from qverify.onnx_model.find_optimizer import FoundOptimizer, SessionSettings, find_optimizer
from qverify.onnx_model.load import parse
from qverify.ops.quantize import parameters
from qverify.sides.reference import Reference
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Untapped
from qverify.tensors.spec import TensorSpec

if TYPE_CHECKING:
    from qverify_agents.protocol.client import Agent

NOT_RUN = "the unchanged model did not run there"


class UntappedModel:
    """The unchanged ONNX. model: its bytes. reference: knows how its inputs and outputs belong to those of the graph."""

    def __init__(self, model: bytes, reference: Reference):
        self.model, self.sha256 = model, hashlib.sha256(model).hexdigest()
        self._reference, self._graph = reference, reference.graph
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
        feed, names, has_digests = (
            self._reference.feed_of_original(prepared),
            list(self._ours),
            "digests" in capabilities,
        )
        if lacking := next((n for n in self._inputs if n not in feed), None):
            return Untapped(why=f"{NOT_RUN}: nothing is given for its input {lacking}")
        try:
            agent.put(self.sha256, self.model)
            model = self._put_settings(agent, settings)
            hashes = []
            for data in (_dense(feed[n]) for n in self._inputs):
                hashes.append(hashlib.sha256(data).hexdigest())
                agent.put(hashes[-1], data)
            reported = names if has_digests else []
            events = agent.run(model, hashes, nodes=reported, digests=has_digests, names=names, events=reported)
            digests = {e.tensor: e.digest for e in events}
            return Untapped({self._ours[n]: self._fetch(agent, n, digests.get(n)) for n in names})
        except Contradiction:
            raise
        except (AgentError, ProtocolError, _Misfit) as error:
            return Untapped(why=f"{NOT_RUN}: {error}")

    def _put_settings(self, agent: Agent, settings: SessionSettings | None) -> str:
        """Returns the content hash of what the board is to run: the model, or settings that name it."""
        if settings is None:
            return self.sha256
        row = {"model": self.sha256, "level": settings.level, "disabled": [*settings.disabled]}
        content = json.dumps(row).encode()
        sha256 = hashlib.sha256(content).hexdigest()
        agent.put(sha256, content)
        return sha256

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
            return None if result.why else {n: result.tensors[n] for n in changed}

        return find_optimizer(run, changed, wanted=wanted)

    def _fetch(self, agent: Agent, name: str, digest: str | None) -> Array:
        """Returns an output as the graph has it. Raises _Misfit if it is not such a tensor."""
        ours = self._ours[name]
        spec, is_real = self._graph.spec(ours), ours in self._reference.stripped("outputs")
        dtype = np.dtype(np.float32) if is_real else spec.numpy_dtype
        size = agent.size_of(name)
        if size != spec.elements * dtype.itemsize:
            raise _Misfit(f"its {name} has {size} bytes, wanted {spec.elements * dtype.itemsize}")
        value: Array = np.frombuffer(agent.get(name, size), dtype).reshape(spec.shape)
        if digest is not None and tensor_digest(value) != digest:
            raise _Misfit(f"the bytes of its {name} do not match the digest that the board reported")
        return _as_integers(value, spec) if is_real else value


class _Misfit(Exception):
    """Raised for an output that is not a tensor of the graph."""


def _as_integers(value: Array, spec: TensorSpec) -> Array:
    """Returns the integers that these real values stand for. Raises _Misfit if they are no whole steps."""
    scale, zero_point = parameters(spec)
    integers = float32.quantize(value, scale, zero_point, spec.dtype)
    if not np.array_equal(float32.dequantize(integers, scale, zero_point), value):
        raise _Misfit(f"its values of {spec.name} are no whole steps of the scale")
    return integers


def _dense(value: Array) -> bytes:
    return np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False).tobytes()
