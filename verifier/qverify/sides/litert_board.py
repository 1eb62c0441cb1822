"""A board that runs a .tflite by LiteRT, whose tensors are paired with the quantized ONNX's by a recorded map."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from qverify_agents.connect import find_option
from qverify_agents.errors import AgentError, LinkError

from qverify.errors import BadFileError, QVerifyError, UsageError
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import Unit, units
from qverify.ops import simulate_node
from qverify.sides.board import Board
from qverify.sides.board_events import digests_of
from qverify.sides.litert_map import check_map
from qverify.sides.runtime_board import UNSUPPORTED, placement_of, said_of
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording
from qverify.tflite_model.interpreter import cut, operators_between
from qverify.tflite_model.read_tflite import CutOffError, TfliteModel, read_tflite

EPOCH = (1980, 1, 1, 0, 0, 0)
Map = Mapping[str, Mapping[str, Any]]
TIED = "the .tflite and the quantized ONNX are tied by the map of tensors alone (*.map.json)"


class LiteRtBoard(Board):
    """A Board that runs a .tflite. tensors: the map, ONNX tensor to {"tfl": index, "shape": in the file}. What the file does
    not have, the quantization of its inputs and the dequantization of its outputs, is computed on this host. BadFileError
    for a map that does not fit, UsageError for a graph of which more is missing."""

    runtime = "litert"

    def __init__(
        self,
        uri: str,
        model: bytes,
        tensors: Map,
        graph: Graph,
        deadline_s: float = 120.0,
        options: Mapping[str, str] | None = None,
        spot_seed: int | None = None,
    ):
        self._alone, self._outer, known = _is_alone(tensors), graph, set(tensors)
        self._before, self._after = _before(graph, known), _after(graph, known)
        read = _operators_of(model)
        inner = _fitting(tensors, read, graph)
        super().__init__(uri, b"", inner, deadline_s, options, spot_seed)
        if not find_option(uri, options or {}, "delegate"):
            self.kernels = f"litert-{find_option(uri, options or {}, 'kernels') or 'optimized'}"
        self._file, self._tensors, self._read = model, tensors, read
        if self._read is None:
            self.capabilities -= {"inject"}
        offered = inner.observable() if "per_node" in self.capabilities else inner.outputs
        self._model = _packed(model, tensors, inner, offered)
        self._sha256 = hashlib.sha256(self._model).hexdigest()

    def send(self, prepared: PreparedInputs) -> None:
        """Sends what the board lacks of the model and of its inputs, which are quantized here."""
        self._agent.put(self._sha256, self._model)
        self._contents, self._inputs = {self._sha256: self._model}, []
        values = _computed(self._outer, self._before, prepared.arrays())
        contents = [np.ascontiguousarray(values[n]).tobytes() for n in self.graph.inputs]
        self._feed((hashlib.sha256(data).hexdigest(), data) for data in contents)

    def run(
        self,
        prepared: PreparedInputs,
        progress: Callable[[int, int], None] | None = None,
        pull: Literal["differ", "all"] = "differ",
    ) -> Recording:
        """Runs the model and adds what this host computes from the board's outputs."""
        recording = super().run(prepared, progress, pull)
        recording.finals = self._outer.outputs
        fed = _computed(self._outer, self._before, prepared.arrays())
        tensors = dict(recording.tensors)
        for node in self._after:
            source, made = node.inputs[0] or "", node.outputs[0]
            recording.specs[made] = self._outer.spec(made)
            if source in tensors:
                tensors |= _computed(self._outer, [node], tensors)
                recording.digests[made] = tensor_digest(tensors[made])
            else:
                recording.missing[made] = recording.missing.get(source) or recording.why or "the board did not send it"
        recording.tensors = tensors
        for node in self._before if "per_node" in self.capabilities else []:
            name = node.outputs[0]
            recording.specs[name] = self._outer.spec(name)
            tensors[name], recording.digests[name] = fed[name], tensor_digest(fed[name])
        if self._before or self._after:
            ends = [n.outputs[0] for n in (*self._before, *self._after)]
            recording.notes.append(f"computed on the host, not verified: {', '.join(ends)} (no tensor of the .tflite)")
        return recording

    def pull(self, names: list[str]) -> dict[str, Array]:
        """Returns tensors of the last run; what this host made of them is computed from the board's."""
        own = {node.outputs[0]: node for node in self._after if node.outputs[0] in names}
        sources = [node.inputs[0] or "" for node in own.values()]
        values = super().pull(list(dict.fromkeys([*(n for n in names if n not in own), *sources])))
        return {n: v for n, v in {**values, **_computed(self._outer, own.values(), values)}.items() if n in names}

    def start_unit(self, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, str]:
        """Runs the unit's operators on the board as a .tflite of their own. Returns digests by name. Raises AgentError for a
        unit that is none of the file's operators."""
        part, fed = self._part(unit)
        model, contents = hashlib.sha256(part).hexdigest(), [_content(inputs[n]) for n in fed]
        for sha256, data in ((model, part), *contents):
            self._agent.put(sha256, data)
        self._values_are_of_the_run, names = False, self._visible(unit)
        return digests_of(self._agent.run(model, [s for s, _ in contents], nodes="all", names=names, events=names))

    def _part(self, unit: Unit) -> tuple[bytes, list[str]]:
        """Returns the unit's own model and the names of its inputs in their order."""
        names, fed = self._visible(unit), [n for n in unit.inputs if n in self._tensors]
        model = self._read
        given = [int(self._tensors[n]["tfl"]) for n in fed]
        wanted = [int(self._tensors[n]["tfl"]) for n in names if n in self._tensors]
        operators = [] if model is None else operators_between(model, set(given), wanted)
        if model is None or not operators or len(wanted) < len(names) or len(fed) < len(unit.inputs):
            raise AgentError(
                UNSUPPORTED, f"{unit.name}: no operator of the .tflite, so the board runs it not by itself"
            )
        part, index = cut(self._file, model, operators, given, wanted)
        tensors = {n: {**self._tensors[n], "tfl": index[int(self._tensors[n]["tfl"])]} for n in (*fed, *names)}
        ends = replace(self.graph, inputs=tuple(fed), outputs=tuple(names))
        return _packed(part, tensors, ends, names), fed

    def run_other(self, model: bytes, graph: Graph, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Raises AgentError: a model.bin is for qvrt alone."""
        raise AgentError(UNSUPPORTED, f"this board runs {self.runtime}, which takes no model.bin")

    def notes(self) -> list[str]:
        """Returns what ties the .tflite to the quantized ONNX, where nodes ran, and how a delegate was made to show every
        tensor."""
        lines = [] if self._alone else [TIED]
        said = said_of(self._agent.done_text)
        placed = placement_of(said)
        total = sum(placed.values())
        shares = (f"{number} of {total} nodes ran on {name}" for name, number in placed.most_common())
        lines += [f"litert: {'; '.join(shares)}"] if placed else []
        if not said.get("each_node_alone"):
            return lines
        differs = said.get("joined_differs")
        lines.append(
            f"the delegate was given each node by itself, so that every tensor is seen; joined, as in use, it gives {'the same' if not differs else 'OTHER'} outputs"
        )
        return lines

    def time_nodes(self, runs: int) -> list[dict[str, float]]:
        """Runs each operator of the .tflite `runs` times as a file of its own, on random inputs: LiteRT's Python package tells
        no times within a model. Returns the seconds by the node's name. Raises LinkError where the board fails."""
        times: list[dict[str, float]] = [{} for _ in range(runs)]
        drawn, self._values_are_of_the_run = np.random.Generator(np.random.PCG64(0)), False
        for unit in units(self.graph):
            try:
                part, fed = self._part(unit)
            except AgentError:
                continue
            specs = [self.graph.spec(n) for n in fed]
            contents = [_content(drawn.integers(0, 100, s.shape).astype(s.numpy_dtype)) for s in specs]
            model, name = hashlib.sha256(part).hexdigest(), unit.outputs[-1]
            for sha256, data in ((model, part), *contents):
                self._agent.put(sha256, data)
            fed_hashes = [sha256 for sha256, _ in contents]
            events = self._agent.run(model, fed_hashes, nodes=[name], digests=False, repeat=runs, names=[name])
            for event in events:
                if event.iteration < runs and event.elapsed_ns:
                    times[event.iteration][unit.name] = event.elapsed_ns / 1e9
        if not all(times):
            raise LinkError(f"{self.uri}: {self.runtime} told no times of nodes")
        return times


def models_of_boards(model: bytes, tensors: Map, graph: Graph) -> list[bytes]:
    """Returns what LiteRtBoard sends to a board that shows every tensor, and to one that shows the final outputs alone;
    the arguments are LiteRtBoard's. BadFileError, UsageError as there."""
    inner = _fitting(tensors, _operators_of(model), graph)
    return [_packed(model, tensors, inner, offered) for offered in (inner.observable(), inner.outputs)]


def _is_alone(tensors: Map) -> bool:
    """Returns whether the map is of the .tflite's own conversion, not of a quantized ONNX beside it."""
    return all("dims" in entry for entry in tensors.values())


def _fitting(tensors: Map, read: TfliteModel | None, graph: Graph) -> Graph:
    """Returns the part of the graph that the .tflite is. BadFileError, UsageError for a map that does not fit it."""
    known = set(tensors)
    inner = _inner(graph, _before(graph, known), _after(graph, known))
    if lacking := next((n for n in inner.observable() if n not in known), None):
        raise UsageError(
            f"{lacking}: the map names no tensor of the .tflite for it. Next: give a map with all {len(inner.observable())} "
            "tensors (FILE.map.json beside the quantized ONNX)"
        )
    if read is not None and not _is_alone(tensors):
        check_map(tensors, read, inner)
    return inner


def _operators_of(model: bytes) -> TfliteModel | None:
    """Returns the file's tensors and operators; None where this host cannot read it, so that no operator can be cut out.
    CutOffError for one whose end is missing."""
    try:
        return read_tflite(model, "the board's .tflite")
    except CutOffError:
        raise
    except QVerifyError:
        return None


def _content(value: Array) -> tuple[str, bytes]:
    data = np.ascontiguousarray(value).tobytes()
    return hashlib.sha256(data).hexdigest(), data


def read_map(text: bytes, path: str) -> dict[str, dict[str, Any]]:
    """Returns a map of tensors: ONNX name to {"tfl": index, "shape": [...]}. BadFileError for anything else."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{path}: not JSON: {error}") from error
    if not isinstance(entries, dict) or not entries:
        raise BadFileError(
            f'{path}: wanted an object of ONNX tensors, as {{"NAME": {{"tfl": 22, "shape": [1, 32, 32, 16]}}}}'
        )
    for name, entry in entries.items():
        about = entry if isinstance(entry, dict) else {}
        index, shape = about.get("tfl"), about.get("shape")
        whole = type(index) is int and isinstance(shape, list) and all(type(d) is int and d > 0 for d in shape)
        if not whole or not 0 <= int(index or 0) < 1 << 31:
            raise BadFileError(f'{path}: {name[:80]}: wanted {{"tfl": a tensor\'s index, "shape": its dims}}')
    ((index, times),) = Counter(entry["tfl"] for entry in entries.values()).most_common(1)
    if times > 1:
        raise BadFileError(f"{path}: two ONNX tensors are mapped to tensor {index} of the .tflite")
    return entries


def _before(graph: Graph, known: set[str]) -> list[Node]:
    """Returns the nodes that quantize the graph's inputs into the tensors that the .tflite is fed."""
    return [n for n in graph.nodes if n.op == "quantize" and n.inputs[0] in graph.inputs and n.inputs[0] not in known]


def _after(graph: Graph, known: set[str]) -> list[Node]:
    """Returns the nodes that dequantize the .tflite's outputs."""
    finals = set(graph.outputs)
    return [n for n in graph.nodes if n.op == "dequantize" and n.outputs[0] in finals and n.outputs[0] not in known]


def _inner(graph: Graph, before: list[Node], after: list[Node]) -> Graph:
    """Returns the part of the graph that the .tflite is."""
    apart = {id(n) for n in (*before, *after)}
    quantized = {n.inputs[0]: n.outputs[0] for n in before}
    dequantized = {n.outputs[0]: n.inputs[0] or "" for n in after}
    return replace(
        graph,
        nodes=[n for n in graph.nodes if id(n) not in apart],
        inputs=tuple(quantized.get(n, n) for n in graph.inputs),
        outputs=tuple(dict.fromkeys(dequantized.get(n, n) for n in graph.outputs)),
    )


def _computed(graph: Graph, nodes: Any, values: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the values, with the outputs of these nodes."""
    known = dict(values)
    for node in nodes:
        known |= simulate_node(graph, node, known)
    return known


def _packed(model: bytes, tensors: Map, inner: Graph, offered: Iterable[str]) -> bytes:
    """Returns the .tflite and the names of its inputs and of the tensors that are `offered` as one content; the same bytes
    for the same model."""
    names = {
        "inputs": [_entry(n, tensors, inner) for n in inner.inputs],
        "outputs": [_entry(n, tensors, inner) for n in offered],
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(zipfile.ZipInfo("model.tflite", EPOCH), model)
        archive.writestr(zipfile.ZipInfo("tensors.json", EPOCH), json.dumps(names))
    return packed.getvalue()


def _entry(name: str, tensors: Map, inner: Graph) -> dict[str, Any]:
    """Returns the tensor's entry: channels are last in a .tflite's tensors of four axes, and second in an ONNX's."""
    if name not in tensors:
        raise UsageError(f"{name}: the map names no tensor of the .tflite for this input")
    dims, shape = tensors[name]["shape"], inner.spec(name).shape
    turned = tuple(tensors[name].get("axes", (0, 3, 1, 2) if len(dims) == 4 else range(len(dims))))
    if (
        "axes" not in tensors[name]
        and len(dims) == 4
        and tuple(dims[a] for a in turned) != shape
        and tuple(dims) == shape
    ):
        turned = (0, 1, 2, 3)
    if np.prod(dims, dtype=np.int64) != np.prod(shape, dtype=np.int64):
        raise BadFileError(f"{name}: the map says {dims} in the .tflite, and the ONNX has {list(shape)}")
    return {"index": tensors[name]["tfl"], "name": name, "axes": list(turned), "shape": list(shape)}
