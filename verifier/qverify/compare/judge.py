"""Two Recordings to one Pair: every expected tensor compared in full, the gate applied, the ledger kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qverify.compare import coverage, gate
from qverify.compare.agreement import agreement
from qverify.compare.metrics import Context, measures
from qverify.compare.options import Options
from qverify.compare.paired_values import PairedValues, bits_equal
from qverify.compare.pairing import NamePair
from qverify.compare.values import Values
from qverify.model_bin.graph import Graph, Node
from qverify.report.document import MissingTensor, Pair, TensorRow, Verdict, worst
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec


@dataclass(slots=True)
class Judged:
    """A Pair with what forcing and blame need: the values of both sides and every row, shown or not."""

    pair: Pair
    a: Values
    b: Values
    names: dict[str, NamePair]
    rows: dict[str, TensorRow]


class Judge:
    """Compares side a with side b; a is the one to measure by."""

    def __init__(self, a: Values, b: Values, graph: Graph | None, options: Options):
        self.a, self.b, self.graph, self.options = a, b, graph, options
        self.gate = gate.choose(a.recording, b.recording, options)
        self.makers = graph.producers() if graph is not None else {}
        self.outputs = {*a.recording.finals, *b.recording.finals, *(graph.outputs if graph is not None else ())}

    def run(self, label_a: str, label_b: str) -> Judged:
        a, b = self.a.recording, self.b.recording
        pair = Pair(label_a, label_b, "INCONCLUSIVE", frame=self.options.frame, gate=self.gate.describe())
        pair.board = next((s.host or None for s in (a, b) if s.side == "board"), None)
        judged = Judged(pair, self.a, self.b, {}, {})
        for side in (a, b):
            if side.state == "did not run":
                pair.cause, pair.why = "does_not_run", f"the {side.side} did not run: {side.why or 'no reason given'}"
                pair.coverage.expected = len(self.outputs)
                return judged
        pairs, pair.coverage = coverage.expected(a, b, self.graph)
        pair.scope = self._scope()
        pair.notes += [
            f"{p.a} of {label_a} and {p.b} of {label_b} pair through covers" for p in pairs if p.through_covers
        ]
        self._compare(judged, self._wanted(pairs, pair))
        self._conclude(judged)
        return judged

    def _scope(self) -> str:
        lacking = [s.recording.side for s in (self.a, self.b) if "per_node" not in s.recording.capabilities]
        if len(lacking) == 1:
            return f"final outputs only: the {lacking[0]} offers no per-node dump"
        if not self.options.dump_all:
            return "final outputs and every digest" if self.gate.bits and not lacking else "final outputs"
        return "all tensors"

    def _wanted(self, pairs: list[NamePair], pair: Pair) -> list[NamePair]:
        """All pairs with dump_all; otherwise the final outputs and, where the gate is bits, whatever has come."""
        if self.options.dump_all:
            return pairs
        kept = [p for p in pairs if p.name in self.outputs or (self.gate.bits and self._came(p))]
        pair.coverage.expected -= len(pairs) - len(kept)
        pair.coverage.missing = [m for m in pair.coverage.missing if m.tensor in self.outputs]
        return kept

    def _came(self, p: NamePair) -> bool:
        return all(
            name in side.recording.digests or name in side.recording.tensors
            for side, name in ((self.a, p.a), (self.b, p.b))
        )

    def _compare(self, judged: Judged, pairs: list[NamePair]) -> None:
        differing = [p for p in pairs if not self._digests_equal(p)]
        self.a.fetch([p.a for p in differing])
        self.b.fetch([p.b for p in differing])
        for p in pairs:
            row = self._row(p, judged.pair)
            judged.names[p.name] = p
            if row is not None:
                judged.rows[p.name] = row
                coverage.enter(judged.pair.coverage, row, bool(row.digests_equal) and not self._both_sent(p))
        judged.pair.agreement = [
            agreement(name, one, two)
            for name in judged.rows
            if name in self.outputs
            for one, two in [(self.a.held(judged.names[name].a), self.b.held(judged.names[name].b))]
            if one is not None and two is not None
        ]

    def _both_sent(self, p: NamePair) -> bool:
        """Whether both sides gave the tensor's bytes, not its digest alone."""
        return self.a.sent(p.a) and self.b.sent(p.b)

    def _digests_equal(self, p: NamePair) -> bool | None:
        one, two = self.a.digest(p.a), self.b.digest(p.b)
        return None if one is None or two is None else one == two

    def _row(self, p: NamePair, pair: Pair) -> TensorRow | None:
        """The compared tensor, or None with an entry in the ledger."""
        spec_a, spec_b = self._spec(self.a, p.a), self._spec(self.b, p.b)
        for side, name, why in [(s, n, s.failed[n]) for s, n in ((self.a, p.a), (self.b, p.b)) if n in s.failed]:
            pair.coverage.missing.append(MissingTensor(name, side.recording.side, why))
            return None
        equal = self._digests_equal(p)
        if spec_a and spec_b and equal and spec_a.same_meaning(spec_b) and spec_a.shape == spec_b.shape:
            one = self.a.held(p.a)
            one = self.b.held(p.b) if one is None else one
            if spec_a.numpy_dtype.kind != "f":
                return self._same_bytes(p, spec_a, equal)
            one = self.b.get(p.b) if one is None else one
            if one is not None and bool(np.isfinite(one).all()):
                return self._same_bytes(p, spec_a, equal)
        a, b = self.a.get(p.a), self.b.get(p.b)
        if equal and (a is None) != (b is None):  # equal digests: one copy stands for both
            a = b = b if a is None else a
        for value, side, name in ((a, self.a, p.a), (b, self.b, p.b)):
            if value is None:
                pair.coverage.missing.append(
                    MissingTensor(name, side.recording.side, side.failed.get(name, "it did not come"))
                )
                return None
        assert a is not None and b is not None
        spec_a, spec_b = spec_a or _bare(p.a, a), spec_b or _bare(p.b, b)
        if wrong := _mismatch(a, spec_a, pair.a) or _mismatch(b, spec_b, pair.b) or _sizes(a, b, pair):
            return self._entry(p, spec_a, "FAILED", equal, False, wrong)
        if equal is None and spec_a.numpy_dtype.kind != "f" and spec_a.same_meaning(spec_b) and bits_equal(a, b):
            return self._same_bytes(p, spec_a, None)
        return self._measured(p, PairedValues(a, b, spec_a, spec_b), equal)

    def _spec(self, side: Values, name: str) -> TensorSpec | None:
        return side.recording.specs.get(name) or (self.graph.tensors.get(name) if self.graph is not None else None)

    def _same_bytes(self, p: NamePair, spec: TensorSpec, digests_equal: bool | None) -> TensorRow:
        context = Context(self.gate.rule, self.gate.digits, spec.elements, spec.numpy_dtype.kind in "iub")
        row = self._entry(p, spec, "PASSED", digests_equal, True, "")
        row.metrics, row.failing = {name: m.result() for name, m in measures(context).items()}, 0
        return row

    def _measured(self, p: NamePair, values: PairedValues, digests_equal: bool | None) -> TensorRow:
        counted = gate.GateCount(self.gate)
        found = measures(Context(self.gate.rule, self.gate.digits, values.a.size, values.integers))
        for block in values.blocks():
            counted.add(block)
            for measure in found.values():
                measure.add(block)
        row = self._entry(p, values.spec_a, "PASSED", digests_equal, bits_equal(values.a, values.b), "")
        row.metrics, row.failing = {name: m.result() for name, m in found.items()}, counted.failing
        refusals = counted.refusals(row.bit_equal, row.metrics)
        if values.one_sided:
            refusals.insert(0, f"{values.one_sided} elements are NaN or Inf on one side, or differently")
        if refusals:
            row.verdict, row.why = "FAILED", "; ".join(refusals)
        elif values.both_sided and not self.options.nan_equal:
            row.verdict = "INCONCLUSIVE"
            row.why = f"{values.both_sided} elements are NaN or Inf on both sides; --nan-equal accepts them"
        return row

    def _entry(
        self, p: NamePair, spec: TensorSpec, verdict: Verdict, digests_equal: bool | None, bit_equal: bool, why: str
    ) -> TensorRow:
        maker: Node | None = self.makers.get(p.name)
        return TensorRow(
            p.name,
            maker.name if maker else "",
            maker.op if maker else "",
            list(maker.covers) if maker else [],
            spec.dtype,
            list(spec.shape),
            verdict,
            digests_equal,
            bit_equal,
            spec.elements,
            p.name in self.outputs,
            maker.integer_reference if maker else spec.integer_reference,
            why=why,
        )

    def _conclude(self, judged: Judged) -> None:
        pair, rows = judged.pair, judged.rows
        pair.bit_equal = bool(rows) and all(r.bit_equal for r in rows.values())
        hole = coverage.hole(pair)
        pair.verdict = worst([r.verdict for r in rows.values()] + (["INCONCLUSIVE"] if hole else []))
        bad = [r for r in rows.values() if r.verdict == pair.verdict]
        if pair.verdict == "FAILED":
            pair.why = f"{bad[0].name}: {bad[0].why}" + (f" (and {len(bad) - 1} more tensors)" if len(bad) > 1 else "")
        elif pair.verdict == "INCONCLUSIVE":
            pair.cause = "coverage" if hole else "not_finite"
            pair.why = hole or f"{bad[0].name}: {bad[0].why}"
        if hole and pair.verdict == "FAILED":
            pair.notes.append(hole)
        for side in (self.a.recording, self.b.recording):
            if side.state == "partial" and pair.verdict == "PASSED":
                pair.verdict, pair.cause, pair.why = (
                    "INCONCLUSIVE",
                    "does_not_run",
                    f"the {side.side} ran only partly: {side.why}",
                )
        if (
            pair.verdict == "PASSED"
            and not pair.bit_equal
            and not self.gate.bits
            and (pair.a, pair.b) == ("simulator", "board")
        ):
            pair.notes.append("bit equality is lost: simulator and board differ within the gate")


def _bare(name: str, value: Array) -> TensorSpec:
    return TensorSpec(name, value.dtype.name, value.shape)


def _mismatch(value: Array, spec: TensorSpec, side: str) -> str:
    if value.shape == spec.shape and value.dtype == spec.numpy_dtype:
        return ""
    return f"the {side} gave {value.dtype}{list(value.shape)}, its model says {spec.dtype}{list(spec.shape)}"


def _sizes(a: Array, b: Array, pair: Pair) -> str:
    return "" if a.shape == b.shape else f"shape {list(a.shape)} on the {pair.a}, {list(b.shape)} on the {pair.b}"
