"""The rungs from float: runs every float stage on each frame, compares its outputs with the next stage's, locates
failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from qverify.compare.blame import find_first_divergence
from qverify.report.triage_document import Rung, Stage
from qverify.session.triage.float_stages import FloatStage, Values, feed_network
from qverify.tensors.recording import Array
from qverify.triage.divergence import agreeing, first_of, forced_pieces, pieces
from qverify.triage.float_pairing import pair_ends
from qverify.triage.ladder import Outputs, RungGate, default_gate
from qverify.triage.loudness import OutputStep
from qverify.triage.neighbourhood import neighbourhoods

Note = Callable[[str], None]


class FloatRungs:
    """The rungs between float stages, and from the last one to the first compiled stage. gates: those the user gave, by
    `A~B`. note: receives lines for the report. steps: quantization steps of the final outputs, by name."""

    def __init__(
        self,
        floats: Sequence[FloatStage],
        gates: Mapping[str, RungGate],
        note: Note,
        steps: Mapping[str, OutputStep] | None = None,
    ):
        self._floats, self._gates, self._note, self.steps = floats, gates, note, steps or {}
        self._outputs = dict[tuple[str, str], Outputs]()
        self._first_feed: dict[str, Array] = {}

    def add(self, feed: Mapping[str, Array], first: Stage | None, finals: Values | None) -> None:
        """Adds one frame. first, finals: the first compiled stage, and its final outputs for the same feed."""
        self._first_feed = self._first_feed or dict(feed)
        ran: list[tuple[Stage, Values]] = []
        for one in self._floats:
            own_feed, note = feed_network(one.file, feed) if one.file is not None else ({}, "")
            self._note(note)
            ran.append((one.stage, one.run(own_feed)))
        if finals is not None and first is not None:
            ran.append((first, finals))
        for (a, values), (b, others) in pairwise(ran):
            self._between(a, b, values, others).add(values, others)

    def _between(self, a: Stage, b: Stage, values: Values, others: Values) -> Outputs:
        if (a.name, b.name) not in self._outputs:
            shapes: Any = (lambda n: values[n][0].shape, lambda n: others[n][0].shape)
            names, note = pair_ends(list(values), list(others), shapes, f"outputs of {a.name} and {b.name}")
            self._note(note)
            wanted = {n: names.get(n, "") for n in values} | {n: n for n in set(others) - set(names.values())}
            gate = self._gates.get(f"{a.name}~{b.name}", default_gate(a.kind, b.kind))
            steps = self.steps if a.kind == "float" and b.kind not in ("float", "application") else {}
            self._outputs[(a.name, b.name)] = Outputs(a.name, b.name, gate, wanted, steps=steps)
        return self._outputs[(a.name, b.name)]

    def rungs(self) -> dict[tuple[str, str], Rung]:
        """Returns the rung of each pair of stages."""
        return {key: outputs.rung() for key, outputs in self._outputs.items()}

    def gate_below(self, name: str) -> RungGate:
        """Returns the gate between this stage and the next."""
        return next(o.gate for (a, _), o in self._outputs.items() if a == name)

    def explain(self, rung: Rung) -> None:
        """Adds to a rung that failed between two float files the first divergence in the second's graph, on the first
        frame."""
        files = {s.stage.name: s for s in self._floats if s.file is not None}
        if rung.verdict == "FAILED" and rung.a in files and rung.b in files:
            _divergence(rung, files[rung.a], files[rung.b], self._first_feed)


def _divergence(rung: Rung, one: FloatStage, other: FloatStage, feed: Mapping[str, Array]) -> None:
    assert one.file is not None and other.file is not None
    common = [n for n in one.file.view.producer if n in other.file.view.producer]
    feeds = [feed_network(f, feed)[0] for f in (one.file, other.file)]
    tensors = dict(one.file.tensors(feeds[0], common))
    known = agreeing(tensors, dict(other.file.tensors(feeds[1], common)))
    parts = pieces(other.file.view, known)
    forced = forced_pieces(parts, known, tensors | feeds[1], other.file.alone)
    first = find_first_divergence(parts, lambda name: known.get(name, True))
    failed = [name for name, verdict in forced.items() if verdict.verdict == "FAILED"]
    names = [*([first.node, *first.also] if first is not None else [])]
    rung.first_divergence = first_of(parts, names)
    rung.kind = "node" if failed else rung.kind
    rung.forced_failures, rung.forced, rung.not_forced = failed, len(forced), len(known) - len(forced)
    around = list(dict.fromkeys([*names, *failed]))
    rung.neighbourhoods = neighbourhoods(parts, tuple(other.file.view.inputs), known.get, forced, around)
