"""Makes the rungs from the reference to the board out of the main job's reports. The worst frame of each pair
counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from qverify.compare.drawings.add_drawings import ORDER
from qverify.compare.forced import Located
from qverify.errors import BadFileError, UsageError
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit, units
from qverify.plural import count
from qverify.report.document import Blame, Forced, Pair, ReportDocument, TensorRow, worst
from qverify.report.drawings import TensorDrawing
from qverify.report.triage_document import OutputRow, Rung
from qverify.report.untapped import describe_untapped
from qverify.report.weakenings import list_pair_caveats
from qverify.session.models import Models
from qverify.session.offline.read_dumps import read_in_place
from qverify.session.request import BoardDump
from qverify.sides.dumps.array_dump import find_arrays, open_array_dump
from qverify.sides.dumps.open_dump import add_scales
from qverify.tensors.recording import Recording, Tensors
from qverify.tensors.spec import TensorSpec
from qverify.triage.ladder import DEFAULT_GATES, RungGate, describe_worst
from qverify.triage.neighbourhood import MAX_DRAWN, neighbourhoods, numbers

FINAL_CAUSES = ("does_not_run", "not_finite", "not_deterministic")  # no gate turns these into PASSED
ABSURD_LSB = 16  # no runtime of this model differs by more at most of its nodes when forced
FAR_LSB = 2  # no runtime quantizes the same input with a larger difference
BLAMED = {"simulator": ("compiler", "simulator", "reference"), "board": ("board", "compiler", "reference")}


@dataclass(slots=True)
class DeviceRungs:
    """The rungs collected from the reports of all frames. gates: the gates that the user gave, by `A~B`; other pairs
    are judged by their own gate (compare/gate.py)."""

    gates: dict[str, RungGate]
    _rungs: dict[tuple[str, str], Rung] = field(default_factory=dict)

    def add(self, report: ReportDocument, located: list[Located], graph: Graph) -> None:
        """Adds the report of one frame. located: as judge_all filled it for this report."""
        parts = units(graph)
        for pair in report.pairs:
            where = next((x for x in located if (x.a, x.b) == (pair.a, pair.b)), None)
            rung = self._make_rung(pair, report, where, parts, graph)
            before = self._rungs.get((pair.a, pair.b))
            if before is None or (
                rung.verdict != before.verdict and worst([rung.verdict, before.verdict]) == rung.verdict
            ):
                self._rungs[(pair.a, pair.b)] = rung
            kept = self._rungs[(pair.a, pair.b)]  # keeps the caveats of all frames, also of those that passed
            caveats = [*rung.caveats, *(before.caveats if before is not None else [])]
            kept.caveats = list(dict.fromkeys([*kept.caveats, *caveats]))

    def rungs(self) -> dict[tuple[str, str], Rung]:
        """Returns the rung of each pair of sides."""
        return self._rungs

    def _choose_gate(self, pair: Pair) -> RungGate | None:
        """Returns the gate by which to judge the pair; None if the pair's own verdict counts, for example for `exact`
        between simulator and board."""
        gate = self.gates.get(f"{pair.a}~{pair.b}", DEFAULT_GATES[("reference", "dump")] if pair.b == "dump" else None)
        return (
            None if gate is not None and gate.kind == "exact" and (pair.a, pair.b) == ("simulator", "board") else gate
        )

    def _make_rung(
        self, pair: Pair, report: ReportDocument, where: Located | None, parts: list[Unit], graph: Graph
    ) -> Rung:
        """Returns the rung of one pair in one frame. where: the forced verdicts of the pair. parts: the model's
        units."""
        rung = Rung(pair.a, pair.b, pair.gate, pair.verdict, pair.cause or "", pair.why)
        gate, bits = self._choose_gate(pair), (pair.a, pair.b) == ("simulator", "board")
        finals = {r.name: r for r in pair.tensors if r.name in graph.outputs}
        rung.outputs = [_output(r, gate) for r in finals.values() if r.metrics]
        failed = {n: f for n, f in where.forced.items() if f.verdict == "FAILED"} if where is not None else {}
        failing = [n for n, f in failed.items() if f.mismatched is not None or pair.b != "dump"]
        final = pair.verdict == "INCONCLUSIVE" or pair.cause in FINAL_CAUSES or bool(pair.not_judged)
        final = final or (pair.untapped is not None and pair.untapped.verdict != "PASSED")
        if gate is not None and not final:
            rows = {r.name: r for r in pair.tensors} if bits else finals
            rung.outputs = [_output(r, gate) for r in rows.values() if r.metrics]
            _judge_again(rung, gate, rows, [n for n in graph.outputs if n not in graph.inputs])
            _check_complete(rung, report)
            if rung.verdict == "PASSED" != pair.verdict:
                rung.caveats.append(_describe_milder(rung, pair))
        doubt = _find_doubt(where, parts, graph, failed) if pair.b == "dump" else None
        if doubt is not None:
            rung.verdict, (rung.kind, rung.why) = "INCONCLUSIVE", doubt
            return rung
        if pair.scope.startswith("final outputs only"):
            rung.gate += f"; {pair.scope}"
        rung.caveats += [f"{pair.a} ~ {pair.b}: {text}" for text in list_pair_caveats([pair], rung.verdict == "PASSED")]
        if failing and pair.b == "dump":  # even where the final outputs pass
            rung.verdict, rung.why = "FAILED", rung.why or f"{failing[0]} fails when forced"
            rung.kind = "node" if any(failed[n].region is None for n in failing) else "region"
        if where is not None:
            rung.forced = sum(f.verdict != "INCONCLUSIVE" for f in where.forced.values())
            rung.not_forced = len(graph.observable()) - rung.forced
        rung.first_divergence, rung.forced_failures = pair.first_divergence, failing
        rung.blame = _find_blame(pair, report, where, parts, failing)
        if where is not None and (rung.verdict == "FAILED" or failing):
            first = pair.first_divergence
            around = [*failing, *([first.tensor, *first.also] if first is not None else [])]
            on_host = {n for island in graph.islands for n in island.made}
            rung.neighbourhoods = neighbourhoods(
                parts, graph.inputs, where.same, where.forced, list(dict.fromkeys(around)), on_host
            )
        if rung.blame is not None:
            rung.evidence.append(f"blame: {rung.blame.side} {rung.blame.place}: {rung.blame.why}")
            rung.evidence += [rung.blame.cause.line] if rung.blame.cause is not None else []
        if rung.verdict == "FAILED" and pair.a == "reference" and graph.rounding != "ref-exact":
            rung.evidence.append(f"model.bin rounds as {graph.rounding}, the reference exactly")
        if pair.untapped is not None and pair.untapped.changed != 0:
            rung.evidence.append(describe_untapped(pair.untapped))
            rung.caveats.append(f"{pair.a} ~ {pair.b}: {describe_untapped(pair.untapped)}")
        rung.arithmetics = list(pair.arithmetics)
        rung.evidence += [n for n in pair.notes if rung.verdict != "PASSED"]
        rung.drawings = _drawings(pair, report)
        return rung


def _describe_milder(rung: Rung, pair: Pair) -> str:
    """Returns a caveat of a rung that passes although the pair's own gate does not."""
    which = "that of compare" if pair.b == "dump" else "the main job's"
    return f"{pair.a} ~ {pair.b}: {rung.gate} is milder than {which}, {pair.gate}, by which it is {pair.verdict}"


def _drawings(pair: Pair, report: ReportDocument) -> list[TensorDrawing]:
    """Returns the drawings of tensors that differ in the pair, in the order of report.drawings.RULE; a drawing of
    another pair with exactly the same bytes is used as well."""
    name = f"{pair.a} ~ {pair.b}"
    drawings = [d for p in report.pairs for d in p.drawings if d.first and (p is pair or name in d.also)]
    order = {why: at for at, why in enumerate(ORDER)}
    return sorted(drawings, key=lambda d: order.get(d.why, len(order)))[:MAX_DRAWN]


def _output(row: TensorRow, gate: RungGate | None) -> OutputRow:
    metrics = {n: float(row.metrics[n] or 0) for n in ("max_abs", "cosine", "rmse", "sqnr_db", "norm_ratio")}  # type: ignore[arg-type]
    passes = (
        row.verdict == "PASSED"
        if gate is None
        else gate.holds(metrics["max_abs"], metrics["cosine"], metrics["norm_ratio"])
    )
    passes = passes and row.verdict != "INCONCLUSIVE"
    return OutputRow(
        row.name,
        row.elements,
        passes,
        metrics["max_abs"],
        metrics["cosine"],
        metrics["rmse"],
        metrics["sqnr_db"],
        norm_ratio=metrics["norm_ratio"],
    )


def _judge_again(rung: Rung, gate: RungGate, rows: Mapping[str, TensorRow], wanted: list[str]) -> None:
    """Judges the final outputs by another gate than the pair's. An output that is missing or has another shape or type
    never passes; one that is not finite on both sides stays INCONCLUSIVE. wanted: the outputs that must be compared."""
    doubtful = [r for r in rows.values() if r.verdict == "INCONCLUSIVE"]
    bad = [o for o in rung.outputs if not o.holds and o.name not in {r.name for r in doubtful}]
    misfits = [r for r in rows.values() if not r.metrics and r.verdict == "FAILED"]
    missing = [n for n in wanted if n not in rows or (not rows[n].metrics and rows[n].verdict != "FAILED")]
    rung.gate, rung.verdict, rung.why = gate.describe(), "PASSED", ""
    if bad:
        why = describe_worst(bad[0], len(bad), len(rung.outputs))
        rung.verdict, rung.why = "FAILED", why
    elif misfits:
        rung.verdict, rung.why = "FAILED", f"{misfits[0].name}: {misfits[0].why}"
    elif missing:
        rung.verdict, rung.why = "INCONCLUSIVE", f"final output {missing[0]} was not compared"
    elif doubtful:
        rung.verdict, rung.kind, rung.why = "INCONCLUSIVE", "not_finite", f"{doubtful[0].name}: {doubtful[0].why}"
    rung.kind = "" if rung.verdict == "PASSED" else rung.kind


def _check_complete(rung: Rung, report: ReportDocument) -> None:
    """Makes a PASSED rung INCONCLUSIVE if one of its sides ran only partly, as the main job does."""
    partial = next((s for s in report.sides if s["name"] in (rung.a, rung.b) and s["state"] == "partial"), None)
    if partial is not None and rung.verdict == "PASSED":
        why = f"the {partial['name']} ran only partly: {partial['why']}"
        rung.verdict, rung.kind, rung.why = "INCONCLUSIVE", "does_not_run", why


def _find_doubt(
    where: Located | None, parts: list[Unit], graph: Graph, failed: Mapping[str, Forced]
) -> tuple[str, str] | None:
    """Returns (kind, why) if a dump is evidently of another model or of other inputs, so that no side is to blame; else
    None."""
    if why := _find_other_inputs(where, parts, graph):
        return "other_inputs", why
    forced = [f for f in where.forced.values() if f.verdict != "INCONCLUSIVE"] if where is not None else []
    absurd = [n for n, f in failed.items() if (f.max_lsb or 0) > ABSURD_LSB]
    if len(absurd) > 2 and 2 * len(absurd) > len(forced):
        why = f"{len(absurd)} of {count(len(forced), 'tensor')} differ by more than {ABSURD_LSB} LSB when forced"
        return "other_model", f"{why}, first {absurd[0]}: another model, other weights or scales"
    misfits = [(n, f.why) for n, f in failed.items() if f.mismatched is None]
    if misfits and len(misfits) == len(failed):
        return "other_model", f"{misfits[0][0]}: {misfits[0][1]}: the dump stores it differently from the model"
    return None


def _find_other_inputs(where: Located | None, parts: list[Unit], graph: Graph) -> str:
    """Returns why a dump must have been computed from other inputs (a quantize node at an input of the network has very
    different values there); "" if nothing suggests that."""
    first = [u for u in parts if set(u.inputs) <= set(graph.inputs) and u.op == "quantize"]
    for unit in first:
        forced = where.forced.get(unit.outputs[0]) if where is not None else None
        if forced is not None and forced.verdict == "FAILED" and (forced.max_lsb or 0) > FAR_LSB:
            return (
                f"the dump was computed from other inputs: its {unit.outputs[0]} differs by up to {forced.max_lsb} LSB from that of "
                "these; give the inputs of the dump with -i"
            )
    return ""


def _find_blame(
    pair: Pair, report: ReportDocument, where: Located | None, parts: list[Unit], failing: list[str]
) -> Blame | None:
    """Returns the side and node to blame for the pair's failures; None without any. failing: the tensors that fail when
    forced."""
    if pair.b == "dump" and failing and where is not None:
        unit = next(u for u in parts if failing[0] in u.outputs)
        forced = where.forced[failing[0]]
        what = unit.op if forced.region is None else "recomputed as one"
        why = f"{what}: {numbers(forced)} (limit {forced.limit})"
        return Blame("dump", unit.name, why, region=forced.region)
    if not failing:
        return None
    return next(
        (b for side in BLAMED.get(pair.b, (pair.b, "compiler", "reference")) for b in report.blamed if b.side == side),
        None,
    )


def check_dump_shapes(path: str, specs: Mapping[str, TensorSpec], graph: Graph) -> None:
    """Raises BadFileError if most arrays of a dump have other shapes than the model's tensors of the same names."""
    other = [n for n, s in specs.items() if s.shape != graph.spec(n).shape]
    if 2 * len(other) > len(specs):
        name = other[0]
        raise BadFileError(
            f"{path}: {name} has the shape {list(specs[name].shape)} there, {list(graph.spec(name).shape)} in the model, and "
            f"{len(other)} of {count(len(specs), 'array')} differ in shape: a dump of another model"
        )


def read_dump(dump: BoardDump, models: Models, recordings: Mapping[str, Recording]) -> Recording:
    """Returns a dump in the board's place as a side: arrays of which nothing is said are those of another runtime, anything else
    is read as the main job reads it. recordings: those of the run, of which the first has the names of the tensors."""
    is_plain = dump.path.endswith(".npz") or bool(find_arrays(dump.path))
    if is_plain and dump == BoardDump(dump.path):
        return dump_as_side(dump.path, models.graph)
    if not recordings:
        raise UsageError(f"{dump.path}: no side of this host to compare it with: give the quantized ONNX in -m")
    first = recordings.get("reference", next(iter(recordings.values())))
    return _as_side(read_in_place(dump, models, first), dump.path, models.graph)


def dump_as_side(path: str, graph: Graph) -> Recording:
    """Returns the arrays of another runtime's dump as a side. Stored integers get the graph's scales. A final output
    that is present only as the integers before its dequantize node is dequantized from them. An array of another shape
    than the model's tensor is not read here. Raises UsageError if no array has the name of a tensor."""
    return _as_side(add_scales(open_array_dump(path, "dump"), graph), path, graph)


def _as_side(dump: Recording, path: str, graph: Graph) -> Recording:
    """Returns the tensors of a dump that the model has."""
    specs = {n: spec for n, spec in dump.specs.items() if n in graph.tensors}
    if not specs:
        raise UsageError(f"{path}: none of its arrays has the name of a tensor of the model")
    fitting = {n: dump.tensors[n] for n, spec in specs.items() if spec.shape == graph.spec(n).shape}
    makers = graph.producers()
    for name in graph.outputs:
        maker = makers.get(name)
        if name in specs or maker is None or maker.op != "dequantize" or maker.inputs[0] not in fitting:
            continue
        source = str(maker.inputs[0])
        fitting[name] = specs[source].dequantized(fitting[source]).astype("float32")
        specs[name] = graph.spec(name)
        dump.notes.append(f"{name} of the dump is dequantized from its {source}")
    loaders = {n: partial(fitting.__getitem__ if n in fitting else dump.tensors.__getitem__, n) for n in specs}
    missing = {n: why for n, why in dump.missing.items() if n in graph.tensors}
    return replace(dump, side="dump", tensors=Tensors(loaders), specs=specs, missing=missing, finals=graph.outputs)
