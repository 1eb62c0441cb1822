"""The reference side: the integer ONNX on onnxruntime with every tensor exposed, the untouched file beside it."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import onnx

from qverify.arithmetic import float32
from qverify.compiler.match import exposed
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.onnx_model.cut import cut
from qverify.onnx_model.engine import LEVELS, Engine, version
from qverify.ops.quantize import parameters
from qverify.sides.front import front, made
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording

SPREAD = (("disable_all", 1), ("basic", 1), ("extended", 1), ("all", 1), ("all", 2))


class Reference:
    """integer_onnx: of the compiler. original: the untouched file, for plain()."""

    def __init__(self, integer_onnx: bytes, graph: Graph, original: bytes | None = None):
        self.graph, self.original = graph, original
        self._model = onnx.load_from_string(integer_onnx)
        there = {o for node in self._model.graph.node for o in node.output}
        self.names = [n for n in graph.observable() if n in there]
        self._engine = Engine(exposed(self._model, self.names).SerializeToString())
        self._front = front(graph, self._engine.inputs)

    def computed_by(self, kinds: set[str]) -> list[str]:
        """Nodes (by the tensor they make) that onnxruntime computes with operators of these types."""
        return [o for node in self._model.graph.node if node.op_type in kinds for o in node.output if o in self.names]

    def run(self, prepared: PreparedInputs, digests: bool = True) -> Recording:
        start = time.perf_counter()
        fed = made(self.graph, self._front, prepared.arrays())
        values = fed | self._engine.run({**prepared.arrays(), **fed}, self.names)
        duration = time.perf_counter() - start
        values |= {n: v for n, v in prepared.arrays().items() if n in self.graph.outputs}
        specs = {n: self.graph.spec(n) for n in values}
        return Recording(
            "reference",
            "onnxruntime",
            version(),
            dict(self._engine.settings),
            duration_s=duration,
            specs=specs,
            finals=self.graph.outputs,
            tensors=values,
            digests={n: tensor_digest(v) for n, v in values.items()} if digests else {},
            capabilities=frozenset({"finals", "per_node", "inject", "digests"}),
            inputs_sha256=prepared.sha256,
        )

    def spread(self, prepared: PreparedInputs) -> dict[str, float]:
        """Tensor to max |a-b| (real values) between this side's settings and onnxruntime's other legitimate ones: every
        optimization level, one thread; for final outputs also of the untouched file."""
        fed = {**prepared.arrays(), **made(self.graph, self._front, prepared.arrays())}
        base, found = self._engine.run(fed, self.names), dict[str, float]()
        model = exposed(self._model, self.names).SerializeToString()
        for level, threads in SPREAD:
            for name, value in Engine(model, level, threads).run(fed, self.names).items():
                found[name] = max(found.get(name, 0.0), self._apart(name, base[name], value))
        for level in LEVELS:
            for row in self.plain(prepared, base, level):
                if row["name"] in self.graph.outputs:
                    found[row["name"]] = max(found.get(row["name"], 0.0), row["max_abs"])
        return found

    def _apart(self, name: str, a: Array, b: Array) -> float:
        spec = self.graph.spec(name)
        return float(np.abs(spec.dequantized(a) - spec.dequantized(b)).max(initial=0.0))

    def run_unit(self, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The unit's own ONNX nodes on the given inputs; nodes in front of the network by the simulator's arithmetic."""
        if any(node in self._front for node in unit.nodes):
            return made(self.graph, list(unit.nodes), inputs)
        return Engine(self.cut(unit.inputs, unit.outputs).SerializeToString(), threads=1).run(
            inputs, list(unit.outputs)
        )

    def cut(self, given: Collection[str], outputs: Collection[str]) -> onnx.ModelProto:
        """The nodes between these tensors as a model of their own."""
        return cut(self._model, self.graph.tensors, given, outputs)

    def _unquantized(self, name: str, value: Array, stripped: Mapping[str, str]) -> Array:
        """The float32 that the untouched file holds there, where the ends were stripped."""
        return float32.dequantize(value, *parameters(self.graph.spec(name))) if name in stripped else value

    def plain(self, prepared: PreparedInputs, finals: Mapping[str, Array], level: str = "all") -> list[dict[str, Any]]:
        """The untouched file on plain onnxruntime (all optimizations) against these finals: equal, or by how much not."""
        if self.original is None:
            return []
        ends = self.graph.meta.get("stripped", {"inputs": {}, "outputs": {}})
        given = {n: v for n, v in {**prepared.arrays(), **finals}.items() if n in self._engine.inputs}
        feed = {ends["inputs"].get(n, n): self._unquantized(n, v, ends["inputs"]) for n, v in given.items()}
        original = {ends["outputs"].get(n, n): n for n in self.graph.outputs}
        plain = Engine(self.original, level=level).run(feed, list(original))
        finals = {**prepared.arrays(), **finals}  # an input may be an output too
        rows = []
        for name, value in plain.items():
            mine = self._unquantized(original[name], finals[original[name]], ends["outputs"])
            distance = (
                float(np.abs(value.astype(np.float64) - mine.astype(np.float64)).max(initial=0.0))
                if value.shape == mine.shape
                else float("inf")
            )
            rows.append(
                {
                    "name": name,
                    "equal": bool(value.shape == mine.shape and np.array_equal(value, mine)),
                    "max_abs": distance,
                }
            )
        return rows
