"""Makes the rungs from float: runs every float stage on each frame, compares its outputs with those of the next stage,
and locates failures."""

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
from qverify.triage.ladder import OutputComparison, RungGate, default_gate
from qverify.triage.loudness import OutputStep
from qverify.triage.neighbourhood import neighbourhoods

Note = Callable[[str], None]  # receives a line for the notes of the report, or ""


class FloatRungs:
    """The rungs between float stages, and from the last float stage to the first compiled stage. gates: the gates that
    the user gave, by `A~B`. steps: quantization steps of the final outputs, by name."""

    def __init__(
        self,
        floats: Sequence[FloatStage],
        gates: Mapping[str, RungGate],
        note: Note,
        steps: Mapping[str, OutputStep] | None = None,
    ):
        self._floats, self._gates, self._note, self.steps = floats, gates, note, steps or {}
        self._outputs = dict[tuple[str, str], OutputComparison]()
        self._first_feed: dict[str, Array] = {}

    def add(self, feed: Mapping[str, Array], first: Stage | None, finals: Values | None) -> None:
        """Runs the float stages on one frame and compares their outputs. feed: the network's inputs, by name. first,
        finals: the first compiled stage and its final outputs for the same feed, None without one."""
        self._first_feed = self._first_feed or dict(feed)
        results: list[tuple[Stage, Values]] = []
        for stage in self._floats:
            stage_feed, note = feed_network(stage.file, feed) if stage.file is not None else ({}, "")
            self._note(note)
            results.append((stage.stage, stage.run(stage_feed)))
        if finals is not None and first is not None:
            results.append((first, finals))
        for (a, a_values), (b, b_values) in pairwise(results):
            self._outputs_between(a, b, a_values, b_values).add(a_values, b_values)

    def _outputs_between(self, a: Stage, b: Stage, a_values: Values, b_values: Values) -> OutputComparison:
        """Returns the comparison of two neighbouring stages, whose outputs are paired by the first frame's values."""
        if (a.name, b.name) not in self._outputs:
            shapes: Any = (lambda n: a_values[n][0].shape, lambda n: b_values[n][0].shape)
            names, note = pair_ends(list(a_values), list(b_values), shapes, f"outputs of {a.name} and {b.name}")
            self._note(note)
            pairs = {n: names.get(n, "") for n in a_values} | {n: n for n in set(b_values) - set(names.values())}
            gate = self._gates.get(f"{a.name}~{b.name}", default_gate(a.kind, b.kind))
            steps = self.steps if a.kind == "float" and b.kind not in ("float", "application") else {}
            self._outputs[(a.name, b.name)] = OutputComparison(a.name, b.name, gate, pairs, steps=steps)
        return self._outputs[(a.name, b.name)]

    def rungs(self) -> dict[tuple[str, str], Rung]:
        """Returns the rung of each pair of stages."""
        return {key: outputs.rung() for key, outputs in self._outputs.items()}

    def gate_below(self, name: str) -> RungGate:
        """Returns the gate between this stage and the next."""
        return next(o.gate for (a, _), o in self._outputs.items() if a == name)

    def explain(self, rung: Rung) -> None:
        """Adds the first divergence on the first frame to a FAILED rung between two float files, in terms of the second
        file's graph."""
        files = {s.stage.name: s for s in self._floats if s.file is not None}
        if rung.verdict == "FAILED" and rung.a in files and rung.b in files:
            _locate_divergence(rung, files[rung.a], files[rung.b], self._first_feed)


def _locate_divergence(rung: Rung, a: FloatStage, b: FloatStage, feed: Mapping[str, Array]) -> None:
    """Sets the first divergence, the forced failures and the neighbourhoods of a rung between two float files."""
    assert a.file is not None and b.file is not None
    common = [n for n in a.file.view.producer if n in b.file.view.producer]
    feeds = [feed_network(f, feed)[0] for f in (a.file, b.file)]
    tensors = dict(a.file.tensors(feeds[0], common))
    agrees = agreeing(tensors, dict(b.file.tensors(feeds[1], common)))
    parts = pieces(b.file.view, agrees)
    forced = forced_pieces(parts, agrees, tensors | feeds[1], b.file.compute_from)
    first = find_first_divergence(parts, lambda name: agrees.get(name, True))
    failed = [name for name, verdict in forced.items() if verdict.verdict == "FAILED"]
    names = [*([first.node, *first.also] if first is not None else [])]
    rung.first_divergence = first_of(parts, names)
    rung.kind = "node" if failed else rung.kind
    rung.forced_failures, rung.forced, rung.not_forced = failed, len(forced), len(agrees) - len(forced)
    around = list(dict.fromkeys([*names, *failed]))
    rung.neighbourhoods = neighbourhoods(parts, tuple(b.file.view.inputs), agrees.get, forced, around)
