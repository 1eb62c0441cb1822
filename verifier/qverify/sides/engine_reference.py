"""The reference where no integer graph is known: an engine of the user's runs the vendor's ONNX."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from qverify.errors import UsageError
from qverify.inputs.prepare import random_inputs
from qverify.model_bin.graph import Graph, Node
from qverify.onnx_model.opaque_model import OpaqueModel, OpaqueNode
from qverify.sides.engine_process import EngineChoice, EngineResult, run_engine
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording
from qverify.tensors.spec import TensorSpec

MOST_COVERS = 16  # a part of a network may be thousands of nodes
DTYPES = {
    "float16", "float32", "float64", "bool",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
}  # fmt: skip


class EngineReference:
    """An engine and its model. graph: of the tensors that the engine gave in a first run on random inputs, with every
    node between two of them as one; nothing runs it. UsageError where the engine fails or gives anything that does not fit
    the model."""

    def __init__(self, choice: EngineChoice, model: OpaqueModel):
        self._choice, self._source = choice, model
        self._data = model.data if choice.entry else model.exposed()
        tensors = {spec.name: spec for spec in model.inputs}
        before = Graph([], tensors, {}, tuple(tensors), ())
        first = random_inputs(before)
        self._kept: tuple[str, EngineResult] | None = None
        given = self._answer(first)
        self._check(given.tensors)
        specs = {n: TensorSpec(n, str(v.dtype), v.shape) for n, v in given.tensors.items()}
        nodes = _nodes_between(model.nodes, specs)
        self.graph = Graph(nodes, {**tensors, **specs}, {}, before.inputs, model.outputs)

    @property
    def per_node(self) -> bool:
        """Whether it gives more than the final outputs."""
        return any(name not in self.graph.outputs for name in self.graph.observable())

    def run(self, prepared: PreparedInputs, digests: bool = True) -> Recording:
        """Returns every tensor that the engine gives. digests: with their digests. UsageError where it fails, or gives
        other tensors than in its first run."""
        start = time.perf_counter()
        answer = self._answer(prepared)
        specs = {n: self.graph.spec(n) for n in self.graph.observable()}
        self._compare_first(answer.tensors, specs)
        libraries = {Path(p).name: hashlib.sha256(Path(p).read_bytes()).hexdigest() for p in self._choice.libraries}
        values = {n: answer.tensors[n] for n in specs}
        return Recording(
            "reference",
            self._choice.shown if self._choice.entry else answer.engine,
            answer.version,
            {"reference_engine": self._choice.shown, "python": answer.python, "libraries": libraries},
            duration_s=time.perf_counter() - start,
            specs=specs,
            finals=self.graph.outputs,
            tensors=values,
            digests={n: tensor_digest(v) for n, v in values.items()} if digests else {},
            capabilities=frozenset({"finals", "per_node", "digests"} if self.per_node else {"finals", "digests"}),
            inputs_sha256=prepared.sha256,
        )

    def _answer(self, prepared: PreparedInputs) -> EngineResult:
        """Returns the engine's answer; that to the inputs of the first run is kept."""
        if self._kept is not None and self._kept[0] == prepared.sha256:
            return self._kept[1]
        answer = run_engine(
            self._choice, self._data, {n: np.ascontiguousarray(v) for n, v in prepared.arrays().items()}
        )
        self._kept = self._kept or (prepared.sha256, answer)
        return answer

    def _error(self, why: str) -> UsageError:
        return UsageError(f"--reference-engine {self._choice.shown}: {why}")

    def _check(self, given: Mapping[str, Array]) -> None:
        """Raises UsageError where the tensors are not those of the model."""
        made = {name for node in self._source.nodes for name in node.outputs}
        some = ", ".join([*given][:3]) or "nothing"
        if lost := next((n for n in self._source.outputs if n not in given), None):
            raise self._error(f"it gave no output {lost!r} of {self._source.path}; it gave {some}")
        if strange := next((n for n in given if n not in made), None):
            raise self._error(f"it gave {strange!r}, which no node of {self._source.path} computes")
        for name, value in given.items():
            dtype, dims = self._source.declared.get(name, (str(value.dtype), None))
            fits = dims is None or (
                len(dims) == value.ndim and all(d in (None, n) for d, n in zip(dims, value.shape, strict=True))
            )
            if dtype != value.dtype or not fits:
                stated = f"{dtype}{'' if dims is None else [d or '?' for d in dims]}"
                raise self._error(f"it gave {name} as {value.dtype}{list(value.shape)}, the model says {stated}")
            if str(value.dtype) not in DTYPES or not value.size:
                raise self._error(f"it gave {name} as {value.dtype}{list(value.shape)}, which cannot be compared")

    def _compare_first(self, given: Mapping[str, Array], specs: Mapping[str, TensorSpec]) -> None:
        """Raises UsageError where the tensors are others than in the first run."""
        if other := sorted(set(given) ^ set(specs)):
            raise self._error(f"it gave other tensors than in its first run: {other[0]!r} in one of them only")
        for name, value in given.items():
            if (str(value.dtype), value.shape) != (specs[name].dtype, specs[name].shape):
                was = f"{specs[name].dtype}{list(specs[name].shape)}"
                raise self._error(f"it gave {name} as {value.dtype}{list(value.shape)}, and before as {was}")


def _nodes_between(nodes: tuple[OpaqueNode, ...], specs: Mapping[str, TensorSpec]) -> list[Node]:
    """Returns, for each node that makes a tensor of `specs`, one that reads the nearest of them, or inputs. Its covers are
    the first outputs of the nodes that it stands for, at most MOST_COVERS."""
    sources, behind, found = dict[str, tuple[str, ...]](), dict[str, tuple[str, ...]](), list[Node]()
    for node in nodes:
        read = tuple(dict.fromkeys(s for name in node.inputs for s in sources.get(name, (name,))))
        covers = tuple(dict.fromkeys([*node.outputs[:1], *(c for n in node.inputs for c in behind.get(n, ()))]))[
            :MOST_COVERS
        ]
        outputs = tuple(name for name in node.outputs if name in specs)
        for name in node.outputs:
            sources[name], behind[name] = ((name,), ()) if name in specs else (read, covers)
        if outputs:
            found.append(Node(outputs[0], node.op, read, outputs, covers=covers))
    return found
