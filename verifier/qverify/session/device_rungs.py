"""The rungs from the reference to the board, out of the main job's own reports: the worst frame of each pair counts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from qverify.compare.forced import Located
from qverify.errors import UsageError
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit, units
from qverify.report.document import Blame, Pair, Report, TensorRow, worst
from qverify.report.triage import OutputRow, Rung
from qverify.session.compare_dumps import named
from qverify.sides.dump import dump
from qverify.tensors.recording import Recording
from qverify.triage.ladder import DEFAULT_GATES, Gate
from qverify.triage.neighbourhood import neighbourhoods, numbers

BLAMED = {"simulator": ("compiler", "simulator", "reference"), "board": ("board", "compiler", "reference")}


@dataclass(slots=True)
class DeviceRungs:
    """gates: those the user gave, by `A~B`; otherwise a pair's own gate (compare/gate.py) decides."""

    gates: dict[str, Gate]
    _found: dict[tuple[str, str], Rung] = field(default_factory=dict)

    def add(self, report: Report, located: list[Located], graph: Graph) -> None:
        """One frame's report."""
        parts = units(graph)
        for pair in report.pairs:
            where = next((x for x in located if (x.a, x.b) == (pair.a, pair.b)), None)
            rung = self._rung(pair, report, where, parts, graph)
            before = self._found.get((pair.a, pair.b))
            if before is None or (
                rung.verdict != before.verdict and worst([rung.verdict, before.verdict]) == rung.verdict
            ):
                self._found[(pair.a, pair.b)] = rung

    def rungs(self) -> dict[tuple[str, str], Rung]:
        return self._found

    def _rung(self, pair: Pair, report: Report, where: Located | None, parts: list[Unit], graph: Graph) -> Rung:
        rung = Rung(pair.a, pair.b, pair.gate, pair.verdict, pair.cause or "", pair.why)
        gate = self.gates.get(f"{pair.a}~{pair.b}", DEFAULT_GATES[("reference", "dump")] if pair.b == "dump" else None)
        finals = [r for r in pair.tensors if r.name in graph.outputs]
        rung.outputs = [_output(r, gate) for r in finals if r.metrics]
        failing = [n for n, f in where.forced.items() if f.verdict == "FAILED"] if where is not None else []
        if gate is not None and pair.verdict != "INCONCLUSIVE" and pair.cause != "does_not_run":
            _regate(rung, gate)
        if failing and pair.b == "dump":  # whatever the final outputs say
            rung.verdict, rung.kind, rung.why = "FAILED", "node", rung.why or f"{failing[0]} fails forced"
        if where is not None:
            rung.forced = sum(f.verdict != "INCONCLUSIVE" for f in where.forced.values())
            rung.not_forced = len(graph.observable()) - rung.forced
        rung.first_divergence, rung.forced_failures = pair.first_divergence, failing
        rung.blame = _blame(pair, report, where, parts, failing)
        if where is not None and (rung.verdict == "FAILED" or failing):
            first = pair.first_divergence
            around = [*failing, *([first.tensor, *first.also] if first is not None else [])]
            rung.neighbourhoods = neighbourhoods(
                parts, graph.inputs, where.same, where.forced, list(dict.fromkeys(around))
            )
        if rung.blame is not None:
            rung.evidence.append(f"blame: {rung.blame.side} at {rung.blame.node}: {rung.blame.why}")
        if rung.verdict == "FAILED" and pair.a == "reference" and graph.rounding != "ref-exact":
            rung.evidence.append(f"model.bin rounds as {graph.rounding}, the reference exactly")
        rung.evidence += [n for n in pair.notes if rung.verdict != "PASSED"]
        return rung


def _output(row: TensorRow, gate: Gate | None) -> OutputRow:
    found = {n: float(row.metrics[n] or 0) for n in ("max_abs", "cosine", "rmse", "sqnr_db")}  # type: ignore[arg-type]
    holds = row.verdict == "PASSED" if gate is None else gate.holds(found["max_abs"], found["cosine"])
    return OutputRow(row.name, row.elements, holds, found["max_abs"], found["cosine"], found["rmse"], found["sqnr_db"])


def _regate(rung: Rung, gate: Gate) -> None:
    """The verdict of another gate over the final outputs."""
    bad = [o for o in rung.outputs if not o.holds]
    rung.gate, rung.verdict, rung.why = gate.describe(), "PASSED", ""
    if bad:
        rung.verdict, rung.why = (
            "FAILED",
            f"{bad[0].name}: cosine {bad[0].cosine:.4f}, off by up to {bad[0].max_abs:.4g}",
        )
    elif not rung.outputs:
        rung.verdict, rung.why = "INCONCLUSIVE", "no final output was compared"
    rung.kind = "" if rung.verdict == "PASSED" else rung.kind


def _blame(pair: Pair, report: Report, where: Located | None, parts: list[Unit], failing: list[str]) -> Blame | None:
    if pair.b == "dump" and failing and where is not None:
        unit = next(u for u in parts if failing[0] in u.outputs)
        return Blame(
            "dump",
            unit.name,
            f"{unit.op}: {numbers(where.forced[failing[0]])} (limit {where.forced[failing[0]].limit})",
        )
    if not failing:
        return None
    return next((b for side in BLAMED.get(pair.b, ()) for b in report.blamed if b.side == side), None)


def with_dump(path: str, graph: Graph) -> Recording:
    """Arrays of another runtime as a side: stored integers get the graph's scales; a final output that is only there as the
    integers it is dequantized from is made of them."""
    found = named(dump(path, "dump"), graph)
    tensors = {n: found.tensors[n] for n in found.tensors if n in graph.tensors}
    specs = {n: found.specs[n] for n in tensors}
    makers = graph.producers()
    for name in graph.outputs:
        maker = makers.get(name)
        if name in tensors or maker is None or maker.op != "dequantize" or maker.inputs[0] not in tensors:
            continue
        source = str(maker.inputs[0])
        tensors[name] = specs[source].dequantized(tensors[source]).astype("float32")
        specs[name] = graph.spec(name)
        found.notes.append(f"{name} of the dump is dequantized from its {source}")
    if not tensors:
        raise UsageError(f"{path}: none of its arrays has the name of a tensor of the model")
    return replace(found, tensors=tensors, specs=specs, finals=graph.outputs)
