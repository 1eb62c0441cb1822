"""The reference side: the integer ONNX on onnxruntime with every tensor exposed, and the original ONNX beside it."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from qverify.arithmetic import float32
from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.onnx_model.cut_nodes import cut_nodes
from qverify.onnx_model.engine import LEVELS, Engine, version
from qverify.onnx_model.exact_products import unsure_products, with_exact_products
from qverify.onnx_model.expose_tensors import expose_tensors
from qverify.onnx_model.find_optimizer import CLOSE
from qverify.onnx_model.light_model import LightModel, light_model, with_data
from qverify.onnx_model.mapped_model import MappedModel
from qverify.onnx_model.open_exposed import open_exposed
from qverify.ops.quantize import parameters
from qverify.sides.host_islands import dependents_of, find_misfit
from qverify.sides.plain_onnxruntime import PlainOnnxruntime
from qverify.sides.preprocessing_nodes import preprocessing_of, run_preprocessing
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording
from qverify.tensors.spec import TensorSpec

if TYPE_CHECKING:
    from qverify.onnx_model.cut_model import Cutter
    from qverify.sides.reference_variants.interpreter_files import ReferenceVariant

VARIANT_SETTINGS = (
    ("disable_all", 1),
    ("basic", 1),
    ("extended", 1),
    ("all", 1),
    ("all", 2),
)  # optimization level, threads
MAX_KEPT_BYTES, SESSION_BYTES = 1 << 26, 1 << 16  # of sessions of single units that are kept; of one, without constants
RANDOM = ". The inputs are random; give valid ones with -i"
STRINGS = "OSU"  # kinds of numpy's dtypes


class Reference:
    """Runs the reference. integer_onnx: the integer form that the compiler made. original: the original ONNX, for
    run_original()."""

    def __init__(self, integer_onnx: bytes | LightModel, graph: Graph, original: bytes | MappedModel | None = None):
        self.graph, self.original = graph, original
        if isinstance(integer_onnx, bytes):
            integer_onnx = light_model(onnx.load_from_string(integer_onnx))
        exact = with_exact_products(integer_onnx)
        self.has_exact_products = exact is not integer_onnx
        self._model, self._constants = exact.model, exact.constants
        computed = {o for node in self._model.graph.node for o in node.output}
        self.names = [n for n in graph.observable() if n in computed]
        self._has_bounded_rows = any(node.op == "non_max_suppression" for node in graph.nodes)
        self._host_tensors = [
            n for island in graph.islands for n in island.made if n in graph.tensors or n in island.finals
        ]
        self._cutter: Cutter | None = None
        self._plain: PlainOnnxruntime | None = None
        self._searched = False
        self._units: dict[tuple[tuple[str, ...], tuple[str, ...]], Engine | None] = {}  # that were run alone
        self._room = MAX_KEPT_BYTES
        self._inputs = [i.name for i in self._model.graph.input]
        self._preprocessing = preprocessing_of(graph, self._inputs)

    @cached_property
    def _engine(self) -> Engine:
        return open_exposed(LightModel(self._model, self._constants), [*self.names, *self._host_tensors])

    def computed_by(self, kinds: set[str]) -> list[str]:
        """Returns the tensors that onnxruntime computes with operators of the types `kinds`, or with products that it
        may compute wrongly on this host."""
        unsure = unsure_products(self._model)
        computed = {o for node in self._model.graph.node if node.op_type in kinds for o in node.output} | unsure
        return [name for name in self.names if name in computed]

    def run(self, prepared: PreparedInputs, digests: bool = True) -> Recording:
        """Returns every observable tensor. digests: True to add their digests. The Recording is partial if a host
        island computes another shape than the model states, or if a node after an island fails."""
        engine, start = self._engine, time.perf_counter()
        network_inputs = run_preprocessing(self.graph, self._preprocessing, prepared.arrays())
        values, why = self._run_prepared(prepared, {**prepared.arrays(), **network_inputs})
        values |= network_inputs
        duration = time.perf_counter() - start
        finals = frozenset(self.graph.outputs)
        values |= {n: v for n, v in prepared.arrays().items() if n in finals}
        verified = {n: v for n, v in values.items() if n not in self._host_tensors}
        specs = {n: self.graph.spec(n) for n in verified}
        return Recording(
            "reference",
            "onnxruntime",
            version(),
            dict(engine.settings),
            duration_s=duration,
            specs=specs,
            finals=self.graph.outputs,
            tensors=values,
            digests={n: tensor_digest(v) for n, v in verified.items()} if digests else {},
            missing=dict.fromkeys((n for n in self.names if n not in verified), why) if why else {},
            state="partial" if why else "complete",
            why=why,
            capabilities=frozenset({"finals", "per_node", "inject", "digests"}),
            inputs_sha256=prepared.sha256,
        )

    def _run_prepared(self, prepared: PreparedInputs, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], str]:
        """Returns what _run_engine() returns for these inputs. If they are random, the reason says what to do."""
        advice = RANDOM if any(i.source == "random" for i in prepared.inputs) else ""
        try:
            values, why = self._run_engine(inputs)
        except BadFileError as error:
            raise BadFileError(f"{error}{advice}") from error
        return values, f"{why}{advice}" if why else ""

    def _run_engine(self, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], str]:
        """Returns the tensors that onnxruntime computes, and "". If an island does not fit model.bin, the tensors that
        depend on it are left out, and the second value is the reason."""
        names = [*self.names, *self._host_tensors]
        try:
            values = self._engine.run(inputs, names)
        except BadFileError as error:
            dependent = dependents_of(self.graph, self._host_tensors)
            names = [n for n in self.names if n not in dependent]
            if not self.graph.islands or not names:
                raise
            without_islands = Engine(cut_nodes(self._model, inputs, names).SerializeToString())
            return without_islands.run(inputs, names), f"with what is computed on the host, {error}"
        for island in self.graph.islands_in_order():
            if why := find_misfit(self.graph, island, values):
                dependent = dependents_of(self.graph, island.made)
                return {n: v for n, v in values.items() if n not in dependent}, why
        return values, ""

    def variants(self, prepared: PreparedInputs) -> list[ReferenceVariant]:
        """Returns the runs of this reference under onnxruntime's other settings (every optimization level, one thread),
        and of the original ONNX under every level."""
        from qverify.sides.reference_variants.interpreter_files import ReferenceVariant

        inputs = {**prepared.arrays(), **run_preprocessing(self.graph, self._preprocessing, prepared.arrays())}
        feed, base = {n: inputs[n] for n in self._inputs}, self._engine.run(inputs, self.names)
        model = with_data(expose_tensors(self._model, self.names), self._constants).SerializeToString()
        specs = {n: self.graph.spec(n) for n in self.names}
        variants = [ReferenceVariant(model, feed, base, specs, level, threads) for level, threads in VARIANT_SETTINGS]
        if self.original is None:
            return variants
        stripped = self.stripped("outputs")
        values = {**inputs, **base}  # an input may also be an output
        feed, named = self._original_feed(prepared, values), self.outputs_of_original()
        named = {o: n for o, n in named.items() if n in values}  # outputs that the host computes are left out
        base = {o: self._unquantized(n, values[n], stripped) for o, n in named.items()}
        specs = {o: _real(self.graph.spec(n)) if n in stripped else self.graph.spec(n) for o, n in named.items()}
        original = bytes(self.original)
        return variants + [ReferenceVariant(original, feed, base, specs, level, 2) for level in LEVELS]

    def run_unit(self, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the unit's ONNX nodes on the given inputs, and preprocessing nodes with the simulator's arithmetic.
        Returns its outputs by name."""
        if any(node in self._preprocessing for node in unit.nodes):
            return run_preprocessing(self.graph, list(unit.nodes), inputs)
        return self._open_unit(unit).run(inputs, list(unit.outputs))

    def _open_unit(self, unit: Unit) -> Engine:
        """Returns a session of the unit's ONNX nodes. It is kept, while there is room, if the unit runs a second time, as in each
        step of a sequence."""
        key = unit.inputs, unit.outputs
        if (kept := self._units.get(key)) is not None:
            return kept
        part = self._cut(unit.inputs, unit.outputs)
        lent = {i.name: self._constants[i.name] for i in part.graph.initializer if i.name in self._constants}
        engine = Engine(part.SerializeToString(), threads=1, lent=lent)
        size = SESSION_BYTES + sum(v.nbytes for v in lent.values())
        is_kept = key in self._units and size <= self._room
        self._units[key] = engine if is_kept else None
        self._room -= size if is_kept else 0
        return engine

    def cut(self, inputs: Collection[str], outputs: Collection[str]) -> onnx.ModelProto:
        """Returns the nodes between these tensors as a model of its own."""
        return with_data(self._cut(inputs, outputs), self._constants)

    def _cut(self, inputs: Collection[str], outputs: Collection[str]) -> onnx.ModelProto:
        from qverify.onnx_model.cut_model import Cutter

        self._cutter = self._cutter or Cutter(self._model, self.graph.tensors)
        return self._cutter.cut(inputs, outputs)

    def stripped(self, end: str) -> Mapping[str, str]:
        """Returns the original ONNX's name by our name, for the "inputs" or "outputs" whose quantization was
        stripped."""
        stripped: dict[str, dict[str, str]] = self.graph.meta.get("stripped", {})
        return stripped.get(end, {})

    def _unquantized(self, name: str, value: Array, stripped: Mapping[str, str]) -> Array:
        """Returns the value as the original ONNX has it: in float32 if the quantization was stripped."""
        return float32.dequantize(value, *parameters(self.graph.spec(name))) if name in stripped else value

    def _original_feed(self, prepared: PreparedInputs, finals: Mapping[str, Array]) -> dict[str, Array]:
        stripped = self.stripped("inputs")
        values = {n: v for n, v in {**prepared.arrays(), **finals}.items() if n in self._inputs}
        feed = {stripped.get(n, n): self._unquantized(n, v, stripped) for n, v in values.items()}
        return {**self._empty_inputs(), **feed}

    def _empty_inputs(self) -> dict[str, Array]:
        """Returns the inputs of the original ONNX that have no elements; the graph does not have them. Raises
        BadFileError if model.bin states them wrongly."""
        empty: dict[str, Array] = {}
        try:
            for name, (kind, *dims) in self.graph.meta.get("empty_inputs", {}).items():
                empty[name] = np.zeros(dims if 0 in dims else 0, onnx.helper.tensor_dtype_to_np_dtype(kind))
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError, MemoryError) as error:
            raise BadFileError(f"model.bin: its empty_inputs are not inputs without elements ({error})") from error
        return empty

    def outputs_of_original(self) -> dict[str, str]:
        """Returns our name for each output of the original ONNX."""
        ours = {self.stripped("outputs").get(n, n): n for n in self.graph.network_outputs()}
        return ours | {n: n for island in self.graph.islands for n in island.finals}

    def run_original(self, prepared: PreparedInputs) -> dict[str, Array] | str:
        """Runs the unchanged original ONNX on onnxruntime without any option, in a child process. Returns its outputs by
        name, or the reason if onnxruntime fails on the model, which its optimizations may cause."""
        if self.original is None:
            return {}
        self._plain = self._plain or PlainOnnxruntime(self.original)
        return self._plain.run(self.feed_of_original(prepared), list(self.outputs_of_original()))

    def feed_of_original(self, prepared: PreparedInputs) -> dict[str, Array]:
        """Returns the inputs of the original ONNX by name."""
        return self._original_feed(prepared, run_preprocessing(self.graph, self._preprocessing, prepared.arrays()))

    def name_optimizer(
        self, prepared: PreparedInputs, plain: dict[str, Array] | str, rows: list[dict[str, Any]]
    ) -> None:
        """Adds to each row of compare_original() that differs `changed_by`: what makes default onnxruntime give other
        outputs than without optimizations, in words. It is searched for once."""
        differing = [r for r in rows if not r["equal"]]
        if isinstance(plain, str) or self._plain is None or self._searched:
            return
        if all(r["max_abs"] <= CLOSE * _distance(plain[r["name"]], np.zeros(())) for r in differing):
            return
        self._searched = True
        if isinstance(self.original, MappedModel):  # it would open a session of all weights for each optimizer
            found = "which optimization changes it is not searched for in a model of this size"
        else:
            feed = self.feed_of_original(prepared)
            found = str(self._plain.find_optimizer(feed, plain, self.has_exact_products))
        for row in differing:
            row["changed_by"] = found

    def compare_original(
        self, prepared: PreparedInputs, finals: Mapping[str, Array], plain: dict[str, Array] | str
    ) -> list[dict[str, Any]]:
        """Compares `plain`, the result of run_original(), with these final outputs. Returns name, equal, max_abs, the
        numbers of differing elements and of all, and why for each output. why: the reason if `plain` has no outputs,
        else ""."""
        named = {} if self.original is None else self.outputs_of_original()
        if isinstance(plain, str):
            return [{"name": name, "equal": False, "max_abs": None, "why": plain} for name in named]
        finals = {**prepared.arrays(), **finals}  # an input may also be an output
        rows = []
        for name, value in plain.items():
            if named[name] not in finals:  # the recording is partial
                continue
            ours = self._unquantized(named[name], finals[named[name]], self.stripped("outputs"))
            ours = _first_rows(ours, value.shape) if self._has_bounded_rows else ours
            distance = _distance(value, ours) if value.shape == ours.shape else float("inf")
            fits = value.shape == ours.shape
            rows.append(
                {
                    "name": name,
                    "equal": bool(fits and np.array_equal(value, ours)),
                    "max_abs": distance,
                    "differing": int(np.count_nonzero(value != ours)) if fits else value.size,
                    "elements": value.size,
                    "why": "",
                }
            )
        return rows


def _distance(a: Array, b: Array) -> float:
    """Returns the largest distance of two arrays of one shape: 0 where both have the same infinity, NaN where one has a
    NaN. Different strings are infinitely far from each other."""
    if a.dtype.kind in STRINGS or b.dtype.kind in STRINGS:
        return 0.0 if np.array_equal(a, b) else float("inf")
    with np.errstate(invalid="ignore"):
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return float(np.where(a == b, 0.0, apart).max(initial=0.0))


def _first_rows(ours: Array, shape: tuple[int, ...]) -> Array:
    """Returns `ours`, cut to this shape if it is shorter in exactly one dim. After a NonMaxSuppression the original
    ONNX has only the rows of the boxes that it keeps, and ours has as many rows as it may keep."""
    shorter = [k for k, (n, m) in enumerate(zip(ours.shape, shape, strict=False)) if m < n]
    return ours.take(range(shape[shorter[0]]), shorter[0]) if ours.ndim == len(shape) and len(shorter) == 1 else ours


def _real(spec: TensorSpec) -> TensorSpec:
    """Returns the spec of the same tensor in float32."""
    return replace(spec, dtype="float32", scale=(), zero_point=())
