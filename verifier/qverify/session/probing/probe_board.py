"""Runs probes on a board, each twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from qverify.engines import ChosenSide
from qverify.errors import BoardError, NotDeterministicError
from qverify.model_bin.graph import Graph
from qverify.session.chosen_sides import LITERT, choose_board, choose_sides
from qverify.session.probing.probe_models import ProbeModel, write_files
from qverify.session.probing.probe_store import ProbeStore
from qverify.session.request import Request
from qverify.session.runner import connect_board, open_with_board_model
from qverify.tensors.codes import restore_codes
from qverify.tensors.digest import tensor_digest
from qverify.tensors.one_op import OneOp
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.recording import Array, Recording

ALONE = 1  # probes in a model for a board with a runner, whose tool may take one operator only
TOGETHER = 64


@dataclass(frozen=True)
class ProbedBoard:
    """The board that is asked. uri: its address. engine: what the user says of it (firmware, toolchain). build: the
    command that builds its model, or None. packed: probes in one model; 0 for what suits the board."""

    uri: str
    deadline_s: float = 120.0
    reach: dict[str, str] = field(default_factory=dict)
    runner: tuple[tuple[str, str], ...] = ()
    build: str | None = None
    engine: str = ""
    packed: int = 0

    @cached_property
    def side(self) -> ChosenSide:
        """The runtime or runner on it."""
        return choose_board(self.uri, self.runner, self.reach)

    @property
    def is_litert(self) -> bool:
        """Whether it runs a .tflite."""
        return self.side.engine == LITERT

    @property
    def most(self) -> int:
        """The number of probes in one model."""
        return self.packed or (TOGETHER if self.side.page is None else ALONE)

    def states(self) -> dict[str, str]:
        """Returns what the user states of the board."""
        page = self.side.page
        words = "" if page is None else repr(sorted(page.options.items()))
        stated = {"address": self.uri, "runner": words, "build command": self.build or "", "engine": self.engine}
        reach = {k: v for k, v in self.reach.items() if k in ("runtime", "providers", "python")}
        return {k: v for k, v in {**stated, **reach}.items() if v}


@dataclass(frozen=True)
class Answer:
    """What a board gave for a model. values: the stored integers of the outputs, and of the inputs if the board gives
    them, by name. states: what it states of itself."""

    values: Mapping[str, Array]
    states: Mapping[str, str]


def ask(model: ProbeModel, store: ProbeStore, board: ProbedBoard) -> Answer:
    """Runs a model twice on the board and returns the answer. Raises BoardError if the board fails,
    NotDeterministicError if it gives other values in the second run, LinkError if it cannot be reached."""
    paths = write_files(model, store, board.build, board.is_litert)
    request = Request(
        paths,
        board.uri,
        deadline_s=board.deadline_s,
        reach=board.reach,
        runner=board.runner,
        allow_other_model=True,
        arithmetic=None,
        pull="all",
    )
    models, vendor = open_with_board_model(request, choose_sides(request))
    graph = models.graph
    prepared = prepare(model, graph)
    connected = connect_board(request, board.side, vendor, models)
    try:
        recording = connected.run(prepared)
        if recording.state != "complete" or recording.missing:
            raise BoardError(recording.why or next(iter(recording.missing.values())))
        wanted = [n for n in recording.specs if n not in recording.tensors]
        tensors = {**recording.tensors, **(connected.pull(wanted) if wanted else {})}
        digests = {n: tensor_digest(v) for n, v in tensors.items()}
        again, values = connected.repeat_run(digests)
    finally:
        connected.close()
    if changed := next((n for n in again if n in tensors and again[n] != digests[n]), ""):
        raise NotDeterministicError(describe_change(model, changed, tensors[changed], values.get(changed)))
    found = {p.output: stored for p in model.probes if (stored := read_stored(p, tensors, graph)) is not None}
    if lost := next((p.name for p in model.probes if p.output not in found), ""):
        raise BoardError(f"{lost}: the board gave no integers of its output")
    inputs = {n: tensors[n] for p in model.probes for n in input_names(p) if n in tensors}
    return Answer({**inputs, **found}, _stated(recording))


def _stated(recording: Recording) -> dict[str, str]:
    """Returns what a board states of itself in a recording."""
    facts = {key: recording.settings.get(key) for key in ("arch", "system")}
    facts |= {"program": recording.engine, "version": recording.version}
    return {key: str(value) for key, value in facts.items() if value}


def prepare(model: ProbeModel, graph: Graph) -> PreparedInputs:
    """Returns the inputs of a model."""
    feeds = {n: v for probe in model.probes for n, v in probe.feeds().items()}
    inputs = []
    for name in graph.inputs:
        spec = graph.spec(name)
        inputs.append(PreparedInput(spec, spec.aligned_bytes(feeds[name].reshape(spec.shape)), "probe"))
    return PreparedInputs(tuple(inputs))


def input_names(probe: OneOp) -> list[str]:
    """Returns the names of a probe's inputs, as stored integers."""
    return [f"{name}_q" for name in probe.feeds()]


def read_stored(probe: OneOp, tensors: Mapping[str, Array], graph: Graph) -> Array | None:
    """Returns the stored integers of a probe's output, as they are or from real values; None if there are none."""
    spec = graph.spec(probe.output)
    for name in (probe.output, f"{probe.output}_real"):
        value = tensors.get(name)
        if value is not None and value.shape == spec.shape:
            codes = restore_codes(value, spec) if value.dtype.kind == "f" else value
            if not isinstance(codes, str) and codes.dtype == spec.numpy_dtype:
                return codes
    return None


def describe_change(model: ProbeModel, name: str, first: Array, second: Array | None) -> str:
    """Returns the evidence that a board is not deterministic."""
    probe = next((p.name for p in model.probes if name.startswith(f"{p.key}_")), name)
    text = f"the board is not deterministic: probe {probe!r}"
    if second is None or second.shape != first.shape:
        return f"{text}: its digest differs between two runs on the same inputs"
    at = np.argwhere(first != second)
    if not len(at):
        return f"{text}: its bytes differ between two runs on the same inputs"
    place = [int(i) for i in at[0]]
    values = f"{first[tuple(at[0])]}, then {second[tuple(at[0])]}"
    return f"{text}: {len(at)} of {first.size} elements differ between two runs on the same inputs, first at {place}: {values}"
