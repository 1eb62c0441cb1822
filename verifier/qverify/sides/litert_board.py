"""A board that runs a .tflite with LiteRT. A recorded map pairs its tensors with those of the quantized ONNX."""

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
from qverify_agents.errors import AgentError, LinkError
from qverify_agents.resolve_address import find_option

from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit, units
from qverify.ops import simulate_node
from qverify.sides.board import Board
from qverify.sides.board_events import digests_of
from qverify.sides.runtime_board import UNSUPPORTED, describe_placement, parse_run_facts, placement_of
from qverify.sides.tflite_tensors import (
    TensorMap,
    covered_graph,
    entry_of,
    input_quantizers,
    is_own_conversion,
    output_dequantizers,
    read_operators,
)
from qverify.sides.untapped_run import OutputType, put_session, run_finals, run_untapped
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording, Untapped
from qverify.tflite_model.interpreter import cut, operators_between

EPOCH = (1980, 1, 1, 0, 0, 0)  # date of all zip members, so that equal models give equal bytes
PAIRED_BY_MAP_ONLY = "the .tflite and the quantized ONNX are tied by the map of tensors alone (*.map.json)"


class LiteRtBoard(Board):
    """A Board that runs a .tflite. tensors: the map from ONNX tensors to {"tfl": index in the .tflite, "shape": shape
    there}. Nodes that the file does not have, which quantize its inputs and dequantize its outputs, run on this host.
    Raises BadFileError if the map does not fit the files, UsageError if the map lacks any other tensor of the graph."""

    runtime = "litert"

    def __init__(
        self,
        uri: str,
        model: bytes,
        tensors: TensorMap,
        graph: Graph,
        deadline_s: float = 120.0,
        options: Mapping[str, str] | None = None,
        spot_seed: int | None = None,
    ):
        self._no_onnx, self._whole_graph, mapped = is_own_conversion(tensors), graph, set(tensors)
        self._quantizers, self._dequantizers = input_quantizers(graph, mapped), output_dequantizers(graph, mapped)
        read = read_operators(model)
        inner = covered_graph(tensors, read, graph)
        super().__init__(uri, b"", inner, deadline_s, options, spot_seed)
        if not find_option(uri, options or {}, "delegate"):
            self.kernels = f"litert-{find_option(uri, options or {}, 'kernels') or 'optimized'}"
        self._file, self._tensors, self._read = model, tensors, read
        if self._read is None:
            self.capabilities -= {"inject"}
        offered = inner.observable() if "per_node" in self.capabilities else _finals_in_order(inner)
        self._model = _pack_model(model, tensors, inner, offered)
        self._sha256 = hashlib.sha256(self._model).hexdigest()
        self._has_taps = not set(offered) <= set(inner.outputs)
        self._untapped_facts = ""
        self._same_outputs: bool | None = None  # whether taps changed no final output, None if it is not known

    def send(self, prepared: PreparedInputs) -> None:
        """Sends the model and its inputs, which are quantized here, unless the board has them already."""
        self._agent.put(self._sha256, self._model)
        self._contents, self._inputs = {self._sha256: self._model}, []
        values = _simulate_nodes(self._whole_graph, self._quantizers, prepared.arrays())
        contents = [np.ascontiguousarray(values[n]).tobytes() for n in self.graph.inputs]
        self._send_inputs((hashlib.sha256(data).hexdigest(), data) for data in contents)

    def run(
        self,
        prepared: PreparedInputs,
        progress: Callable[[int, int], None] | None = None,
        pull: Literal["differ", "all"] = "differ",
    ) -> Recording:
        """Runs the model and adds the tensors that this host computes from the board's outputs."""
        recording = super().run(prepared, progress, pull)
        recording.finals = self._whole_graph.outputs
        if recording.untapped is not None and not recording.untapped.why:
            made = _simulate_nodes(self._whole_graph, self._dequantizers, recording.untapped.tensors)
            recording.untapped.tensors = {n: v for n, v in made.items() if n in recording.finals}
        inputs = _simulate_nodes(self._whole_graph, self._quantizers, prepared.arrays())
        tensors = dict(recording.tensors)
        for node in self._dequantizers:
            source, output = node.inputs[0] or "", node.outputs[0]
            recording.specs[output] = self._whole_graph.spec(output)
            if source in tensors:
                tensors |= _simulate_nodes(self._whole_graph, [node], tensors)
                recording.digests[output] = tensor_digest(tensors[output])
            else:
                recording.missing[output] = (
                    recording.missing.get(source) or recording.why or "the board did not send it"
                )
        recording.tensors = tensors
        for node in self._quantizers if "per_node" in self.capabilities else []:
            name = node.outputs[0]
            recording.specs[name] = self._whole_graph.spec(name)
            tensors[name], recording.digests[name] = inputs[name], tensor_digest(inputs[name])
        if self._quantizers or self._dequantizers:
            host_tensors = [n.outputs[0] for n in (*self._quantizers, *self._dequantizers)]
            recording.notes.append(
                f"computed on the host, not verified: {', '.join(host_tensors)} (no tensor of the .tflite)"
            )
        return recording

    def _run(
        self, prepared: PreparedInputs, recording: Recording, progress: Callable[[int, int], None] | None, pull: str
    ) -> None:
        """Runs the .tflite with its final outputs alone, then with every tensor."""
        self._same_outputs = None
        if self._has_taps:
            recording.untapped = self._run_untapped(prepared)
        super()._run(prepared, recording, progress, pull)
        if recording.untapped is not None and not recording.untapped.why:
            self._same_outputs = have_same_bytes(recording.untapped.tensors, recording.tensors)

    def _run_untapped(self, prepared: PreparedInputs) -> Untapped:
        values = _simulate_nodes(self._whole_graph, self._quantizers, prepared.arrays())
        specs = {n: self.graph.spec(n) for n in _finals_in_order(self.graph) if n not in self.graph.inputs}

        def compute() -> dict[str, Array]:
            self._agent.put(self._sha256, self._model)
            model = put_session(self._agent, self._sha256, finals_only=True)
            inputs = [np.ascontiguousarray(values[n]).tobytes() for n in self.graph.inputs]
            outputs = {n: OutputType(s.numpy_dtype, s.shape) for n, s in specs.items()}
            return run_finals(self._agent, model, inputs, outputs, "digests" in self.capabilities)

        untapped = run_untapped(compute)
        self._untapped_facts = self._agent.done_text
        return untapped

    def pull(self, names: list[str]) -> dict[str, Array]:
        """Returns tensors of the last run; those of nodes that run on this host are computed from the board's."""
        host_nodes = {node.outputs[0]: node for node in self._dequantizers if node.outputs[0] in names}
        sources = [node.inputs[0] or "" for node in host_nodes.values()]
        values = super().pull(list(dict.fromkeys([*(n for n in names if n not in host_nodes), *sources])))
        return {
            n: v
            for n, v in {**values, **_simulate_nodes(self._whole_graph, host_nodes.values(), values)}.items()
            if n in names
        }

    def start_unit(self, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, str]:
        """Runs the unit's operators on the board as a separate .tflite. Returns digests by name. Raises AgentError if
        the .tflite has no operators for this unit."""
        part, input_names = self._part(unit)
        model, contents = hashlib.sha256(part).hexdigest(), [_hashed_bytes(inputs[n]) for n in input_names]
        for sha256, data in ((model, part), *contents):
            self._agent.put(sha256, data)
        self._values_are_of_the_run, names = False, self._visible(unit)
        return digests_of(self._agent.run(model, [s for s, _ in contents], nodes="all", names=names, events=names))

    def _part(self, unit: Unit) -> tuple[bytes, list[str]]:
        """Returns a .tflite of this unit alone, and the names of its inputs in their order."""
        names, input_names = self._visible(unit), [n for n in unit.inputs if n in self._tensors]
        model = self._read
        inputs = [int(self._tensors[n]["tfl"]) for n in input_names]
        outputs = [int(self._tensors[n]["tfl"]) for n in names if n in self._tensors]
        operators = [] if model is None else operators_between(model, set(inputs), outputs)
        if model is None or not operators or len(outputs) < len(names) or len(input_names) < len(unit.inputs):
            raise AgentError(UNSUPPORTED, f"{unit.name}: no operator of the .tflite, so the board cannot run it alone")
        part, index = cut(self._file, model, operators, inputs, outputs)
        tensors = {n: {**self._tensors[n], "tfl": index[int(self._tensors[n]["tfl"])]} for n in (*input_names, *names)}
        boundary = replace(self.graph, inputs=tuple(input_names), outputs=tuple(names))
        return _pack_model(part, tensors, boundary, names), input_names

    def run_other(self, model: bytes, graph: Graph, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Raises AgentError, since only qvrt runs a model.bin."""
        raise AgentError(UNSUPPORTED, f"this board runs {self.runtime}, which takes no model.bin")

    def notes(self) -> list[str]:
        """Returns lines on how the .tflite is paired with the quantized ONNX, where nodes ran, and how a delegate was
        made to show every tensor."""
        lines = [] if self._no_onnx else [PAIRED_BY_MAP_ONLY]
        facts = parse_run_facts(self._agent.done_text)
        counts = placement_of(parse_run_facts(self._untapped_facts)) or placement_of(facts)
        lines += [f"litert: {describe_placement(counts)}"] if counts else []
        if facts.get("each_node_alone"):
            joined = {None: "", True: "the same", False: "OTHER"}[self._same_outputs]
            lines.append(
                "the delegate was given each node by itself, so that every tensor is seen"
                + (f"; joined, as in use, it gives {joined} outputs" if joined else "")
            )
        return lines

    def time_nodes(self, runs: int) -> list[dict[str, float]]:
        """Runs each operator of the .tflite `runs` times as a separate file, on random inputs, since LiteRT's Python
        package does not report times within a model. Returns, for each run, the seconds by node name. Raises LinkError
        if the board fails."""
        times: list[dict[str, float]] = [{} for _ in range(runs)]
        generator, self._values_are_of_the_run = np.random.Generator(np.random.PCG64(0)), False
        for unit in units(self.graph):
            try:
                part, input_names = self._part(unit)
            except AgentError:
                continue
            specs = [self.graph.spec(n) for n in input_names]
            contents = [_hashed_bytes(generator.integers(0, 100, s.shape).astype(s.numpy_dtype)) for s in specs]
            model, name = hashlib.sha256(part).hexdigest(), unit.outputs[-1]
            for sha256, data in ((model, part), *contents):
                self._agent.put(sha256, data)
            fed_hashes = [sha256 for sha256, _ in contents]
            events = self._agent.run(model, fed_hashes, nodes=[name], digests=False, repeat=runs, names=[name])
            for event in events:
                if event.iteration < runs and event.elapsed_ns:
                    times[event.iteration][unit.name] = event.elapsed_ns / 1e9
        if not all(times):
            raise LinkError(f"{self.uri}: {self.runtime} reported no times of nodes")
        return times


def models_of_boards(model: bytes, tensors: TensorMap, graph: Graph) -> list[bytes]:
    """Returns the models that LiteRtBoard sends to a board that offers every tensor, and to one that offers the final
    outputs only. Arguments and errors are those of LiteRtBoard."""
    inner = covered_graph(tensors, read_operators(model), graph)
    return [_pack_model(model, tensors, inner, offered) for offered in (inner.observable(), _finals_in_order(inner))]


def _finals_in_order(inner: Graph) -> list[str]:
    """Returns the outputs in running order, in which a board reports them."""
    order = {name: at for at, name in enumerate(inner.observable())}
    return sorted(inner.outputs, key=lambda name: order.get(name, len(order)))


def _hashed_bytes(value: Array) -> tuple[str, bytes]:
    data = np.ascontiguousarray(value).tobytes()
    return hashlib.sha256(data).hexdigest(), data


def read_map(text: bytes, path: str) -> dict[str, dict[str, Any]]:
    """Parses a map of tensors: ONNX name to {"tfl": index, "shape": [...]}. Raises BadFileError for anything else."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{path}: not JSON: {error}") from error
    if not isinstance(entries, dict) or not entries:
        raise BadFileError(
            f'{path}: wanted an object of ONNX tensors, as {{"NAME": {{"tfl": 22, "shape": [1, 32, 32, 16]}}}}'
        )
    for name, entry in entries.items():
        fields = entry if isinstance(entry, dict) else {}
        index, shape = fields.get("tfl"), fields.get("shape")
        is_valid = type(index) is int and isinstance(shape, list) and all(type(d) is int and d > 0 for d in shape)
        if not is_valid or not 0 <= int(index or 0) < 1 << 31:
            raise BadFileError(f'{path}: {name[:80]}: wanted {{"tfl": a tensor\'s index, "shape": its dims}}')
    ((index, times),) = Counter(entry["tfl"] for entry in entries.values()).most_common(1)
    if times > 1:
        raise BadFileError(f"{path}: two ONNX tensors are mapped to tensor {index} of the .tflite")
    return entries


def have_same_bytes(finals: Mapping[str, Array], with_taps: Mapping[str, Array]) -> bool | None:
    """Returns whether the run with taps gave the same bytes for these final outputs; None if there are none, or if it
    lacks one and none differs."""
    known = [(value, with_taps[n]) for n, value in finals.items() if n in with_taps]
    if any((a.dtype, a.shape, a.tobytes()) != (b.dtype, b.shape, b.tobytes()) for a, b in known):
        return False
    return True if known and len(known) == len(finals) else None


def _simulate_nodes(graph: Graph, nodes: Any, values: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the values and the outputs of these nodes, computed from them."""
    computed = dict(values)
    for node in nodes:
        computed |= simulate_node(graph, node, computed)
    return computed


def _pack_model(model: bytes, tensors: TensorMap, inner: Graph, offered: Iterable[str]) -> bytes:
    """Returns a zip of the .tflite and the names of its inputs and of the `offered` tensors. Equal models give equal
    bytes."""
    names = {
        "inputs": [entry_of(n, tensors, inner) for n in inner.inputs],
        "outputs": [entry_of(n, tensors, inner) for n in offered],
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(zipfile.ZipInfo("model.tflite", EPOCH), model)
        archive.writestr(zipfile.ZipInfo("tensors.json", EPOCH), json.dumps(names))
    return packed.getvalue()
