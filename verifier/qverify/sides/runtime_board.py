"""A board that runs the quantized ONNX with onnxruntime: the board side of runtimes other than qvrt that use the
protocol."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from qverify_agents.errors import AgentError, Contradiction, LinkError
from qverify_agents.resolve_address import find_option

from qverify.errors import UsageError
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.onnx_model.find_optimizer import are_close
from qverify.onnx_model.light_model import LightModel, with_data
from qverify.printable import printable
from qverify.sides.board import Board
from qverify.sides.board_events import digests_of
from qverify.sides.untapped_model import UntappedModel
from qverify.tensors.placement import Placement
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording, Untapped

Cut = Callable[[Collection[str], Collection[str]], onnx.ModelProto]
UNSUPPORTED = -4  # status code of the protocol
CPU_PROVIDERS = ("", "CPU", "CPUExecutionProvider")  # values of the option that select onnxruntime's own kernels


class RuntimeBoard(Board):
    """A Board whose runtime opens ONNX. model: the integer form, in which every tensor of the graph has its own name.
    cut: returns the nodes between given inputs and outputs as a separate model. runtime: name of the runtime. untapped:
    the unchanged ONNX, of which each run takes the final outputs, too. Raises UsageError for a model.bin with nodes that
    the ONNX does not have."""

    def __init__(
        self,
        uri: str,
        model: LightModel,
        cut: Cut,
        graph: Graph,
        runtime: str,
        untapped: UntappedModel,
        deadline_s: float = 120.0,
        options: Mapping[str, str] | None = None,
        spot_seed: int | None = None,
    ):
        if graph.islands:
            raise UsageError(f"a board whose runtime is {runtime} runs no model of which the host computes a part")
        computed = {o for node in model.model.graph.node for o in node.output}
        names = _observable_outputs(graph)
        if missing := next((n for n in names if n not in computed), None):
            raise UsageError(
                f"{missing}: model.bin computes it and the quantized ONNX does not (a prepared input?), so a board whose "
                f"runtime is {runtime} cannot run it. Next: give -m the quantized ONNX alone"
            )
        self._cut, self.runtime, self._untapped = cut, runtime, untapped
        self._units = dict[tuple[str, ...], bytes]()
        self._fed = [i.name for i in model.model.graph.input if i.name in graph.inputs]
        self._names = frozenset(names)
        self._providers = find_option(uri, options or {}, "providers")
        if self._providers in CPU_PROVIDERS:
            self.kernels = "onnxruntime"
        super().__init__(uri, _expose_tensors(model, names), graph, deadline_s, options, spot_seed)

    def send(self, prepared: PreparedInputs) -> None:
        """Sends the model and the inputs as dense arrays, unless the board has them already."""
        self._agent.put(self._sha256, self._model)
        self._contents, self._inputs = {self._sha256: self._model}, []
        values = prepared.arrays()
        self._send_inputs(map(_hashed_bytes, (values[n] for n in self._fed)))

    def _run(
        self, prepared: PreparedInputs, recording: Recording, progress: Callable[[int, int], None] | None, pull: str
    ) -> None:
        """Runs the unchanged ONNX, then the integer form with every tensor as an output."""
        recording.untapped = self._untapped.run(self._agent, prepared, self.capabilities)
        super()._run(prepared, recording, progress, pull)
        recording.placement = self._placed()
        recording.untapped = self._completed(recording, recording.untapped)
        self._search(prepared, recording, recording.untapped)

    def _completed(self, recording: Recording, untapped: Untapped) -> Untapped:
        """Returns the outputs of the unchanged model in the shapes of the graph."""
        name = self._untapped.bounding
        if not name or not untapped.tensors:
            return untapped
        known = name in recording.digests or name in recording.tensors
        value = (
            (recording.tensors.get(name) if name in recording.tensors else self.pull([name])[name]) if known else None
        )
        kept = None if value is None else int((np.asarray(value)[:, 0] != -1).sum())
        return self._untapped.complete(untapped, recording.tensors, kept)

    def _search(self, prepared: PreparedInputs, recording: Recording, untapped: Untapped) -> None:
        """Finds the optimization that makes the outputs differ from those of the run with taps, if they do. A link that
        fails meanwhile leaves it unknown, as the run that is judged is over. Raises Contradiction if the board contradicts
        itself."""
        with_taps = {n: recording.tensors[n] for n in untapped.tensors if n in recording.tensors}
        if not untapped.tensors or len(with_taps) < len(untapped.tensors) or are_close(untapped.tensors, with_taps):
            return
        facts, self._values_are_of_the_run = self._agent.done_text, False
        try:
            found = self._untapped.find_optimizer(self._agent, prepared, self.capabilities, untapped.tensors, with_taps)
        except Contradiction:
            raise
        except LinkError as error:
            recording.notes.append(
                f"the optimization that changes the outputs was not searched for to the end: {error}"
            )
            return
        finally:
            self._agent.done_text = facts  # of the run that is judged
        untapped.level, untapped.optimizers = found.level, found.names

    def start_unit(self, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, str]:
        """Runs one unit on the board as a separate model. Returns digests by name."""
        part, fed = self._part(unit)
        contents = [_hashed_bytes(inputs[n]) for n in fed]
        model = hashlib.sha256(part).hexdigest()
        for sha256, data in ((model, part), *contents):
            self._agent.put(sha256, data)
        self._values_are_of_the_run = False
        names = self._visible(unit)
        return digests_of(
            self._agent.run(model, [sha256 for sha256, _ in contents], nodes="all", names=names, events=names)
        )

    def _part(self, unit: Unit) -> tuple[bytes, list[str]]:
        """Returns a model of this unit alone, and the names of the model's inputs in their order."""
        model = self._cut(unit.inputs, unit.outputs)
        names = self._visible(unit)
        shown = {o.name: o for o in model.graph.output}
        del model.graph.output[:]
        model.graph.output.extend(shown.get(n) or onnx.ValueInfoProto(name=n) for n in names)
        constants = {t.name for t in model.graph.initializer}
        return model.SerializeToString(deterministic=True), [
            i.name for i in model.graph.input if i.name not in constants
        ]

    def run_other(self, model: bytes, graph: Graph, unit: Unit, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Raises AgentError, since only qvrt runs a model.bin."""
        raise AgentError(UNSUPPORTED, f"this board runs {self.runtime}, which takes no model.bin")

    def time_nodes(self, runs: int) -> list[dict[str, float]]:
        """Runs the model `runs` times. Returns, for each run, the seconds of the ONNX nodes behind each node, according
        to the runtime's profile. A node that the runtime fused with another one is left out. Raises LinkError if the
        profile contains no times."""
        names = [n.name for n in self.graph.nodes if n.name in self._names]
        events = self._agent.run(self._sha256, self._inputs, nodes=names, digests=False, repeat=runs, names=names)
        self._values_are_of_the_run = False
        times: list[dict[str, float]] = [{} for _ in range(runs)]
        for event in events:
            if event.tensor in self._names and event.iteration < runs and event.elapsed_ns:
                times[event.iteration][event.tensor] = event.elapsed_ns / 1e9
        if not all(times):
            raise LinkError(f"{self.uri}: {self.runtime} reported no times of nodes")
        return times

    def placement(self) -> Counter[str]:
        """Returns the number of nodes that ran on each execution provider in the last run, or an empty Counter if the
        runtime does not report it."""
        return placement_of(parse_run_facts(self._agent.done_text))

    def _placed(self) -> tuple[Placement, ...]:
        """Returns the numbers of nodes by execution provider. What ran on the processor though the user named another
        provider fell back."""
        first = self._providers.partition("+")[0].partition(",")[0]
        asked_cpu = self._providers in CPU_PROVIDERS
        return tuple(
            Placement(
                "", "", name, fallback=not asked_cpu and "cpu" in name.lower() and "cpu" not in first.lower(), nodes=n
            )
            for name, n in self.placement().items()
        )

    def notes(self) -> list[str]:
        """Returns lines on what ran and where, since a node meant for an accelerator may have run on the processor."""
        ran = f"{self.runtime} ran the integer form of the quantized ONNX, with every tensor as an output"
        counts = self.placement()
        return [ran, f"{self.runtime}: {describe_placement(counts)}"] if counts else [ran]


def model_of_boards(model: LightModel, graph: Graph) -> bytes:
    """Returns the model that RuntimeBoard sends to its board. The arguments are those of RuntimeBoard."""
    return _expose_tensors(model, _observable_outputs(graph))


def _observable_outputs(graph: Graph) -> list[str]:
    return [o for node in graph.nodes for o in node.outputs if not graph.spec(o).interior]


def parse_run_facts(text: str) -> dict[str, Any]:
    """Parses the text with which a worker ends a run. Returns {} for anything but a JSON object."""
    try:
        facts: Any = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def placement_of(facts: Mapping[str, Any]) -> Counter[str]:
    """Returns the number of nodes by execution provider. facts: from parse_run_facts()."""
    nodes = facts.get("nodes_by_provider")
    if not isinstance(nodes, dict):
        return Counter()
    return Counter({printable(str(k)[:80]): v for k, v in nodes.items() if type(v) is int and 0 < v < 1 << 31})


def describe_placement(counts: Counter[str]) -> str:
    """Returns the numbers of nodes by execution provider in words, the largest number first."""
    total = sum(counts.values())
    return "; ".join(f"{number} of {total} nodes ran on {name}" for name, number in counts.most_common())


def _expose_tensors(model: LightModel, names: Sequence[str]) -> bytes:
    """Returns the model with these tensors, in this order, as its only outputs."""
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model.model)
    _name_nodes(exposed, names)
    existing = {o.name: o for o in model.model.graph.output}
    del exposed.graph.output[:]
    exposed.graph.output.extend(existing.get(n) or onnx.ValueInfoProto(name=n) for n in names)
    return with_data(exposed, model.constants).SerializeToString(deterministic=True)


def _name_nodes(model: onnx.ModelProto, names: Sequence[str]) -> None:
    """Names each node qverify.K.N, where K is the index of the first tensor in `names` that depends on it. A profile of
    the runtime then states the time of each tensor (agents/PROTOCOL.md)."""
    maker = {o: node for node in model.graph.node for o in node.output}
    exposed, named, number = frozenset(names), set[int](), 0
    for k, name in enumerate(names):
        todo = [name]
        while todo:
            node = maker.get(todo.pop())
            if node is None or id(node) in named:
                continue
            named.add(id(node))
            node.name, number = f"qverify.{k}.{number}", number + 1
            todo += [i for i in node.input if i not in exposed]


def _hashed_bytes(value: Array) -> tuple[str, bytes]:
    data = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False).tobytes()
    return hashlib.sha256(data).hexdigest(), data
