"""The reference for models without an integer graph: a user's engine runs the vendor's ONNX."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from qverify.errors import UsageError
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.graph import Graph, Node
from qverify.onnx_model.opaque_model import OpaqueModel, OpaqueNode
from qverify.sides.engine_process import EngineChoice, EngineResult, run_engine
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording
from qverify.tensors.spec import TensorSpec

MAX_COVERS = 16  # names kept for each node, which may stand for thousands
DTYPES = {
    "float16", "float32", "float64", "bool",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
}  # fmt: skip


class EngineReference:
    """An engine and its model. graph: contains the tensors that the engine returned in a first run on random inputs;
    all nodes between two of them count as one. It serves to name and order tensors, and is never run. Raises UsageError
    if the engine fails, or returns tensors that do not fit the model."""

    def __init__(self, choice: EngineChoice, model: OpaqueModel):
        self._choice, self._source = choice, model
        self._data = model.data if choice.entry else model.exposed()
        tensors = {spec.name: spec for spec in model.inputs}
        inputs_alone = Graph([], tensors, {}, tuple(tensors), ())
        random = random_inputs(inputs_alone)
        self._first_result: tuple[str, EngineResult] | None = None
        result = self._run_engine(random)
        self._check(result.tensors)
        specs = {n: TensorSpec(n, str(v.dtype), v.shape) for n, v in result.tensors.items()}
        nodes = _nodes_between(model.nodes, specs)
        self.graph = Graph(nodes, {**tensors, **specs}, {}, inputs_alone.inputs, model.outputs)

    @property
    def per_node(self) -> bool:
        """True if the engine returns more than the final outputs."""
        return any(name not in self.graph.outputs for name in self.graph.observable())

    def run(self, prepared: PreparedInputs, digests: bool = True) -> Recording:
        """Returns every tensor that the engine computes. digests: True to add their digests. Raises UsageError if the
        engine fails, or returns other tensors than in its first run."""
        start = time.perf_counter()
        result = self._run_engine(prepared)
        specs = {n: self.graph.spec(n) for n in self.graph.observable()}
        self._compare_first(result.tensors, specs)
        libraries = {Path(p).name: hashlib.sha256(Path(p).read_bytes()).hexdigest() for p in self._choice.libraries}
        values = {n: result.tensors[n] for n in specs}
        return Recording(
            "reference",
            self._choice.shown if self._choice.entry else result.engine,
            result.version,
            {"reference_engine": self._choice.shown, "python": result.python, "libraries": libraries},
            duration_s=time.perf_counter() - start,
            specs=specs,
            finals=self.graph.outputs,
            tensors=values,
            digests={n: tensor_digest(v) for n, v in values.items()} if digests else {},
            capabilities=frozenset({"finals", "per_node", "digests"} if self.per_node else {"finals", "digests"}),
            inputs_sha256=prepared.sha256,
        )

    def _run_engine(self, prepared: PreparedInputs) -> EngineResult:
        """Runs the engine. The result for the inputs of the first run is kept and returned again."""
        if self._first_result is not None and self._first_result[0] == prepared.sha256:
            return self._first_result[1]
        result = run_engine(
            self._choice, self._data, {n: np.ascontiguousarray(v) for n, v in prepared.arrays().items()}
        )
        self._first_result = self._first_result or (prepared.sha256, result)
        return result

    def _error(self, why: str) -> UsageError:
        return UsageError(f"--reference-engine {self._choice.shown}: {why}")

    def _check(self, tensors: Mapping[str, Array]) -> None:
        """Raises UsageError if the tensors are not those of the model."""
        computed = {name for node in self._source.nodes for name in node.outputs}
        examples = ", ".join([*tensors][:3]) or "nothing"
        if missing := next((n for n in self._source.outputs if n not in tensors), None):
            raise self._error(f"it gave no output {missing!r} of {self._source.path}; it gave {examples}")
        if unknown := next((n for n in tensors if n not in computed), None):
            raise self._error(f"it gave {unknown!r}, which no node of {self._source.path} computes")
        for name, value in tensors.items():
            dtype, dims = self._source.declared.get(name, (str(value.dtype), None))
            shape_fits = dims is None or (
                len(dims) == value.ndim and all(d in (None, n) for d, n in zip(dims, value.shape, strict=True))
            )
            if dtype != value.dtype or not shape_fits:
                stated = f"{dtype}{'' if dims is None else [d or '?' for d in dims]}"
                raise self._error(f"it gave {name} as {value.dtype}{list(value.shape)}, the model says {stated}")
            if str(value.dtype) not in DTYPES or not value.size:
                raise self._error(f"it gave {name} as {value.dtype}{list(value.shape)}, which cannot be compared")

    def _compare_first(self, tensors: Mapping[str, Array], specs: Mapping[str, TensorSpec]) -> None:
        """Raises UsageError if names, dtypes or shapes differ from those of the first run."""
        if differing := sorted(set(tensors) ^ set(specs)):
            raise self._error(f"it gave other tensors than in its first run: {differing[0]!r} in one of them only")
        for name, value in tensors.items():
            if (str(value.dtype), value.shape) != (specs[name].dtype, specs[name].shape):
                before = f"{specs[name].dtype}{list(specs[name].shape)}"
                raise self._error(f"it gave {name} as {value.dtype}{list(value.shape)}, and before as {before}")


def _nodes_between(nodes: tuple[OpaqueNode, ...], specs: Mapping[str, TensorSpec]) -> list[Node]:
    """Returns one node for each node that computes a tensor of `specs`. It reads the nearest tensors of `specs` or
    inputs. Its covers are the first outputs of the nodes that it stands for, at most MAX_COVERS."""
    sources, behind, merged = dict[str, tuple[str, ...]](), dict[str, tuple[str, ...]](), list[Node]()
    for node in nodes:
        sources_of_node = tuple(dict.fromkeys(s for name in node.inputs for s in sources.get(name, (name,))))
        covers = tuple(dict.fromkeys([*node.outputs[:1], *(c for n in node.inputs for c in behind.get(n, ()))]))[
            :MAX_COVERS
        ]
        outputs = tuple(name for name in node.outputs if name in specs)
        for name in node.outputs:
            sources[name], behind[name] = ((name,), ()) if name in specs else (sources_of_node, covers)
        if outputs:
            merged.append(Node(outputs[0], node.op, sources_of_node, outputs, covers=covers))
    return merged
