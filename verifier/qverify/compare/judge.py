"""Judges two Recordings as one Pair: compares every expected tensor in full, applies the gate, and keeps the coverage
ledger."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from qverify.compare import coverage, decimals, gate
from qverify.compare.agreement import measure_agreement
from qverify.compare.judge_roles import RoleJudge
from qverify.compare.later import JUDGED, Later
from qverify.compare.measured_rows import Measured, MeasuredRows, copy_measures
from qverify.compare.metrics import Context, make_measures, measure_equal
from qverify.compare.options import Options
from qverify.compare.paired_values import PairedValues, bits_equal
from qverify.compare.pairing import NamePair
from qverify.compare.values import Values, both_keep_arrays
from qverify.model_bin.channel_axes import default_axis, find_channel_axes
from qverify.model_bin.graph import Graph, Node
from qverify.plural import count
from qverify.report.document import MissingTensor, Pair, TensorRow, Verdict, worst
from qverify.report.facts import Finding
from qverify.report.side_names import named, within
from qverify.tensors.codes import store_as
from qverify.tensors.recording import ASKED, FINALS_ONLY, Array, Recording
from qverify.tensors.spec import TensorSpec

if TYPE_CHECKING:
    from qverify.compare.exchange import Exchange

SHOWN = 3  # names in a note


@dataclass(slots=True)
class Judged:
    """A judged pair, with everything that forcing and blame need.

    Attributes:
        pair: the pair as the report shows it.
        a, b: the values of both sides.
        gate: the gate by which the pair is judged.
        names: the names of each judged tensor on both sides, by its name in the report.
        rows: all rows by tensor, whether the report shows them or not.
        declared: every tensor that both sides declare, whether it is judged or not.
        decimals_only: tensors that fail the decimals, or bit equality, and nothing else.
        untried: tensors that would have failed the decimals, which were not requested, with the reason.
        not_finite: tensors that fail only because elements are NaN or Inf on one side, or that fail only the decimals
            while elements are NaN or Inf on both sides. The two numbers count the elements that are so on one side, and
            on both (without equal infinities, if the tensor is no final output).
        orders: findings on tensors of b that are in another order.
        moved: tensors of b whose elements are exactly those of a in another order, or under another name: nothing but their
            place is wrong.
        exchanges: which of them are under other tensors' names.
    """

    pair: Pair
    a: Values
    b: Values
    gate: gate.Gate
    names: dict[str, NamePair]
    rows: dict[str, TensorRow]
    declared: list[NamePair] = field(default_factory=list)
    decimals_only: set[str] = field(default_factory=set)
    untried: dict[str, str] = field(default_factory=dict)
    not_finite: dict[str, tuple[int, int]] = field(default_factory=dict)
    orders: list[Finding] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)
    known_equality: dict[str, bool] | None = field(
        default=None, init=False, repr=False
    )  # once it is known of every tensor
    exchanges: list[Exchange] = field(default_factory=list)

    def has_equal_local_bytes(self, p: NamePair) -> bool | None:
        """Returns whether the bytes of this tensor that both sides have sent are equal, or None if one has not sent
        it."""
        value_a, value_b = self.a.get_local(p.a), self.b.get_local(p.b)
        return None if value_a is None or value_b is None else bits_equal(value_a, value_b)

    def stands_for_equal(self, name: str) -> bool:
        """Returns whether a side gives the real values of a quantized tensor, and they stand for the other's integers."""
        p = next(p for p in self.declared if p.name == name)
        a, b = self.a.get_local(p.a), self.b.get_local(p.b)
        spec_a, spec_b = (side.recording.specs.get(n) for side, n in ((self.a, p.a), (self.b, p.b)))
        if a is None or b is None or spec_a is None or a.dtype == b.dtype or a.shape != b.shape:
            return False
        stored = store_as(b, spec_b, spec_a)
        return not isinstance(stored, str) and bits_equal(a, stored)


class Judge:
    """Compares side b with side a, which is the standard that b is measured against. measured: rows that the pairs of one
    comparison share. only: the metrics to measure, if nothing else is asked, neither by a gate nor of channels. later: takes what
    no verdict needs; None to measure everything at once."""

    def __init__(
        self,
        a: Values,
        b: Values,
        graph: Graph | None,
        options: Options,
        measured: MeasuredRows | None = None,
        only: Collection[str] = (),
        later: Later | None = None,
    ):
        self._only, self._later = only, later
        is_shared = both_keep_arrays(a, b) and not options.roles and not options.role_gates
        self._measured = measured if is_shared else None
        self.a, self.b, self.graph, self.options = a, b, graph, options
        self.gate = gate.choose_gate(a.recording, b.recording, options)
        self.roles = RoleJudge(options, self.gate)
        self.exact = gate.requires_equal_bits(a.recording, b.recording)
        self.makers = graph.once(Graph.producers) if graph is not None else {}
        self.outputs = {*a.recording.finals, *b.recording.finals, *(graph.outputs if graph is not None else ())}

    @cached_property
    def axes(self) -> dict[str, int]:
        """The axis of each tensor's channels, of those that the network knows."""
        return self.graph.once(find_channel_axes) if self.graph is not None else {}

    def run(self, label_a: str, label_b: str) -> Judged:
        """Returns the judged pair. label_a, label_b: the names of the sides in the report."""
        a, b = self.a.recording, self.b.recording
        pair = Pair(
            label_a,
            label_b,
            "INCONCLUSIVE",
            frame=self.options.frame,
            gate=self.gate.describe() + self.roles.describe(),
        )
        pair.board = next((s.host or None for s in (a, b) if s.side == "board"), None)
        pair.relaxed = [*self.gate.relaxed, *self.roles.describe_relaxation()]
        judged = Judged(pair, self.a, self.b, self.gate, {}, {})
        if why := _check_runs(a, b):
            pair.cause, pair.why = "does_not_run", why
            pair.coverage.expected = len(self.outputs)
            return judged
        pairs, pair.coverage = coverage.expect_tensors(a, b, self.graph)
        pair.scope, judged.declared = self._describe_scope(), pairs
        pair.notes += [
            f"{p.a} of {label_a} and {p.b} of {label_b} are paired by the nodes they cover"
            for p in pairs
            if p.through_covers
        ]
        self._compare(judged, self._select(pairs, pair))
        conclude(judged)
        self._add_notes(judged)
        return judged

    def _describe_scope(self) -> str:
        lacking = [s.recording.side for s in (self.a, self.b) if "per_node" not in s.recording.capabilities]
        if [s.recording.settings.get(FINALS_ONLY) for s in (self.a, self.b) if s.recording.side in lacking] == [ASKED]:
            return f"final outputs only: {ASKED} was given"
        foreign = all(s.recording.runtime != "qvrt" for s in (self.a, self.b) if s.recording.side in lacking)
        if lacking and foreign and not self.options.dump_all:
            return f"final outputs only; -r True judges every node that {' and '.join(map(named, lacking))} gives"
        if lacking:
            offers = "offers" if len(lacking) == 1 else "offer"
            return f"final outputs only: {' and '.join(map(named, lacking))} {offers} no per-node dump"
        if self.options.dump_all:
            return "all tensors"
        return "final outputs and every digest" if self.exact else "final outputs"

    def _select(self, pairs: list[NamePair], pair: Pair) -> list[NamePair]:
        """Returns the tensors in scope: all of them with dump_all or if equal bytes are required, else the final
        outputs."""
        if self.options.dump_all or self.exact:
            return pairs
        kept = [p for p in pairs if p.name in self.outputs]
        pair.coverage.expected -= len(pairs) - len(kept)
        pair.coverage.missing = [m for m in pair.coverage.missing if m.tensor in self.outputs]
        return kept

    def _compare(self, judged: Judged, pairs: list[NamePair]) -> None:
        differing = [p for p in pairs if not self._has_equal_digests(p)]
        self.a.fetch([p.a for p in differing])
        self.b.fetch([p.b for p in differing])
        for p in pairs:
            row = self._compare_tensor(p, judged)
            judged.names[p.name] = p
            if row is not None:
                judged.rows[p.name] = row
                coverage.count_tensor(
                    judged.pair.coverage, row, bool(row.digests_equal) and not self._is_sent_by_both(p)
                )
        judged.pair.agreement = [
            measure_agreement(name, value_a, value_b)
            for name in judged.rows
            if name in self.outputs
            for value_a, value_b in [(self.a.get_local(judged.names[name].a), self.b.get_local(judged.names[name].b))]
            if value_a is not None and value_b is not None
        ]

    def _is_sent_by_both(self, p: NamePair) -> bool:
        """Returns whether both sides sent the tensor's bytes, not only its digest."""
        return self.a.was_sent(p.a) and self.b.was_sent(p.b)

    def _has_equal_digests(self, p: NamePair) -> bool | None:
        """Returns whether the digests are equal, or None if one side has not sent its digest."""
        digest_a, digest_b = self.a.digest(p.a), self.b.digest(p.b)
        return None if digest_a is None or digest_b is None else digest_a == digest_b

    def _compare_tensor(self, p: NamePair, judged: Judged) -> TensorRow | None:
        """Returns the row of the compared tensor. If the tensor is missing, enters it in the ledger and returns
        None."""
        pair = judged.pair
        spec_a, spec_b = self._find_spec(self.a, p.a), self._find_spec(self.b, p.b)
        for side, name, why in [(s, n, s.failed[n]) for s, n in ((self.a, p.a), (self.b, p.b)) if n in s.failed]:
            pair.coverage.missing.append(MissingTensor(name, side.recording.side, why))
            return None
        equal = self._has_equal_digests(p)
        if spec_a and spec_b and equal and spec_a.same_meaning(spec_b) and spec_a.shape == spec_b.shape:
            if spec_a.numpy_dtype.kind != "f":
                return self._accept_equal(p, spec_a, equal)
            value = self.a.get_local(p.a)
            value = self.b.get(p.b) if value is None else value
            if value is not None and not bool((np.isnan(value) if self._is_inner(p) else ~np.isfinite(value)).any()):
                return self._accept_equal(p, spec_a, equal)
        a, b = self.a.get(p.a), self.b.get(p.b)
        if equal and (a is None) != (b is None):  # the digests are equal, so one copy is enough
            a = b = b if a is None else a
        for value, side, name in ((a, self.a, p.a), (b, self.b, p.b)):
            if value is None:
                pair.coverage.missing.append(
                    MissingTensor(name, side.recording.side, side.failed.get(name, "it was not sent"))
                )
                return None
        assert a is not None and b is not None
        spec_a, spec_b = spec_a or _make_spec(p.a, a), spec_b or _make_spec(p.b, b)
        other_runtime = self.exact and self.b.recording.runtime != "qvrt"  # a board whose arithmetic is stated
        if other_runtime and b.dtype != spec_a.numpy_dtype and b.shape == spec_a.shape:
            stored = store_as(b, spec_b, spec_a)  # its real values are read as integers
            if isinstance(stored, str):
                pair.coverage.missing.append(MissingTensor(p.b, self.b.recording.side, stored))
                return None
            b, spec_b = stored, spec_a
        if wrong := _check_type(a, spec_a, pair.a) or _check_type(b, spec_b, pair.b) or _check_shapes(a, b, pair):
            if not self.gate.decimals and not self.gate.bits:
                judged.untried[p.name] = wrong
            return self._make_row(p, spec_a, "FAILED", equal, False, wrong)
        if equal is None and spec_a.numpy_dtype.kind != "f" and spec_a.same_meaning(spec_b) and bits_equal(a, b):
            return self._accept_equal(p, spec_a, None)
        values = PairedValues(a, b, spec_a, spec_b, self.a.share_histograms(self.b))
        if self._measured is None:
            return self._measure(p, values, equal, judged)
        return self._measure_once(self._measured, p, values, equal, judged)

    def _measure_once(
        self, shared: MeasuredRows, p: NamePair, values: PairedValues, equal: bool | None, judged: Judged
    ) -> TensorRow:
        """Returns the row of a tensor, measured here or for another pair."""
        name, found = p.name, shared.find(p.name, values, equal, self.gate)
        if found is None or found.row.final != (name in self.outputs):
            row = self._measure(p, values, equal, judged)
            only = name in judged.decimals_only
            found = Measured(row, only, judged.untried.get(name), judged.not_finite.get(name), row)
            shared.keep(name, values, equal, self.gate, found)
            return row
        judged.decimals_only |= {name} if found.decimals_only else set()
        judged.untried |= {} if found.untried is None else {name: found.untried}
        judged.not_finite |= {} if found.not_finite is None else {name: found.not_finite}
        if self._later is not None:
            self._later.add(partial(copy_measures, found.first, found.row))
        return found.row

    def _find_spec(self, side: Values, name: str) -> TensorSpec | None:
        return side.recording.specs.get(name) or (self.graph.tensors.get(name) if self.graph is not None else None)

    def _accept_equal(self, p: NamePair, spec: TensorSpec, digests_equal: bool | None) -> TensorRow:
        context = Context(
            self.gate.rule,
            self.gate.digits,
            spec.elements,
            spec.numpy_dtype.kind in "iub",
            "" if spec.scale else spec.dtype,
        )
        row = self._make_row(p, spec, "PASSED", digests_equal, True, "")
        row.metrics, row.failing = measure_equal(context), 0
        row.beyond = 0 if gate.GateCount(self.gate).close else None
        row.roles = self.roles.list_equal(p.name, spec, self._axis(p, spec))
        return row

    def _axis(self, p: NamePair, spec: TensorSpec) -> int:
        """Returns the axis of a tensor's channels, as the network knows it, or else as its dump states the order of its axes."""
        last = len(spec.shape) - 1
        known = self.axes.get(p.name, last if spec.layout in ("NHWC", "NWC") else default_axis(spec.shape))
        return known if known < len(spec.shape) else default_axis(spec.shape)

    def _measure(self, p: NamePair, values: PairedValues, digests_equal: bool | None, judged: Judged) -> TensorRow:
        from qverify.compare.channel_errors import measure_channels

        counted = gate.GateCount(self.gate)
        context = Context(self.gate.rule, self.gate.digits, values.a.size, values.integers, values.dtype)
        metrics, now = make_measures(context), self._measured_now()
        if now:
            metrics = {name: metric for name, metric in metrics.items() if name in now}
        for block in values.blocks():
            counted.add(block)
            for measure in metrics.values():
                measure.add(block)
        row = self._make_row(p, values.spec_a, "PASSED", digests_equal, bits_equal(values.a, values.b), "")
        row.metrics, row.failing = {name: m.result() for name, m in metrics.items()}, counted.failing
        row.beyond = counted.beyond if counted.close else None
        places = p.name not in self.axes and values.a.shape[1:] == (values.a.size, 1)  # [1, anchors, 1] of a detector
        is_whole = row.bit_equal or places or self._only
        axis = None if is_whole else self._axis(p, values.spec_a)
        if self._later is None or self._only:
            row.channels = None if axis is None else measure_channels(values, axis)
        else:
            self._later.add(partial(_measure_rest, row, values, context, axis))
        row.roles = self.roles.measure(p.name, values, self._axis(p, values.spec_a))
        if (rest := self.roles.rest_of(p.name, values, self._axis(p, values.spec_a))) is not None:
            counted.failing = gate.count_failing(self.gate, rest)
        refusals, missed = counted.list_refusals(row.bit_equal, row.metrics), counted.describe_missed_decimals()
        unknown = values.both_sided - (values.infinite if self._is_inner(p) else 0)
        plainly = not values.one_sided and not unknown
        if plainly and ((missed and refusals == [missed]) or (self.gate.bits and refusals)):
            judged.decimals_only.add(p.name)
        if missed and not self.gate.decimals and not self.gate.bits:
            judged.untried[p.name] = missed
        if (values.one_sided or unknown) and refusals in ([], [missed]):
            judged.not_finite[p.name] = values.one_sided, unknown
        refusals += [f"role {role.role}: {role.why}" for role in row.roles if role.why]
        if values.one_sided:
            some = count(values.one_sided, "element", "is", "are")
            refusals.insert(0, f"{some} NaN or Inf on one side only, or not the same on both")
        if refusals:
            row.verdict, row.why = "FAILED", "; ".join(refusals)
        elif unknown and not self.options.nan_equal:
            row.verdict, row.why = "INCONCLUSIVE", describe_alike(unknown)
        return row

    def _measured_now(self) -> Collection[str]:
        """Returns the metrics that are measured at once; none for all."""
        return self._only or ({*JUDGED, *self.gate.extra} if self._later is not None else ())

    def _is_inner(self, p: NamePair) -> bool:
        """Returns whether the tensor is known to be no final output. Equal infinities in such a tensor are ordinary
        values, for example of a mask, and agree. In a final output they show nothing."""
        return self.graph is not None and p.name not in self.outputs

    def _make_row(
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

    def _add_notes(self, judged: Judged) -> None:
        """Adds notes that a reader of the pair needs besides its verdict."""
        pair = judged.pair
        hole = coverage.describe_gap(pair)
        if hole and pair.verdict == "FAILED":
            pair.notes.append(hole)
        if not self.gate.decimals and not self.gate.bits and judged.rows:
            passed = f"been INCONCLUSIVE ({pair.why})" if pair.verdict == "INCONCLUSIVE" else "PASSED"
            outcome = next((f"FAILED ({name}: {why})" for name, why in judged.untried.items()), passed)
            pair.notes.append(
                f"{decimals.describe(self.gate.rule, self.gate.digits)}: not requested, would have {outcome}"
            )
        floats = [row.name for row in judged.rows.values() if row.dtype.startswith(("float", "bfloat"))]
        if floats and "max_lsb" in self.gate.extra and not self.gate.bits:
            pair.notes.append(self._describe_lsb_of_floats(floats))
        if self.exact and not self.gate.bits:
            lost, compared = [r.name for r in judged.rows.values() if not r.bit_equal], len(judged.rows)
            pair.relaxed.append(
                f"not bit-equal in {len(lost)} of {count(compared, 'tensor')}, first {lost[0]}"
                if lost
                else f"bit-equal in {'all ' if compared > 1 else ''}{count(compared, 'tensor')} compared"
            )

    def _describe_lsb_of_floats(self, floats: list[str]) -> str:
        """Returns the note that the gate of stored integers does not judge these tensors, and what does."""
        others = self.gate.decimals or len(self.gate.extra) > 1
        judged_by = "the other gates judge them" if others else "their bytes must be equal; --atol or -c limits them"
        shown = ", ".join(floats[:SHOWN]) + (" ..." if len(floats) > SHOWN else "")
        are = count(len(floats), "tensor", "is", "are")
        return f"--max-lsb counts steps of stored integers and cannot apply to float outputs: {are} float ({shown}); {judged_by}"


def _measure_rest(row: TensorRow, values: PairedValues, context: Context, axis: int | None) -> None:
    """Measures what a row lacks: the other metrics, and the channels along an axis."""
    from qverify.compare.channel_errors import measure_channels

    measures = {name: m for name, m in make_measures(context).items() if name not in row.metrics}
    for block in values.blocks():
        for measure in measures.values():
            measure.add(block)
    found = row.metrics | {name: m.result() for name, m in measures.items()}
    row.metrics = {name: found[name] for name in make_measures(context)}
    row.channels = None if axis is None else measure_channels(values, axis)


def describe_alike(elements: int) -> str:
    """Returns the reason why a tensor is INCONCLUSIVE in which this many elements are NaN or Inf on both sides."""
    return f"{count(elements, 'element', 'is', 'are')} NaN or Inf on both sides; --nan-equal accepts this"


def _check_runs(a: Recording, b: Recording) -> str:
    """Returns the reason why the two sides cannot be compared (one did not run, or they ran different models), or "" if
    they can."""
    for side in (a, b):
        if side.state == "not read":
            return f"{named(side.side)} ran, but what it left could not be read: {side.why or 'no reason given'}"
        if side.state == "did not run":
            return f"{named(side.side)} did not run: {side.why or 'no reason given'}"
    if b.runtime == "qvrt" and gate.requires_equal_bits(a, b) and _ran_other_models(a, b):
        return f"{a.side} and {b.side} ran different models"
    return ""


def _ran_other_models(a: Recording, b: Recording) -> bool:
    return bool(a.model_sha256 and b.model_sha256 and a.model_sha256 != b.model_sha256)


def conclude(judged: Judged) -> None:
    """Sets the pair's verdict, cause and reason according to its rows and its ledger."""
    pair, rows = judged.pair, judged.rows
    pair.bit_equal, pair.cause, pair.why = bool(rows) and all(r.bit_equal for r in rows.values()), None, ""
    hole = coverage.describe_gap(pair)
    pair.verdict = worst([r.verdict for r in rows.values()] + (["INCONCLUSIVE"] if hole else []))
    bad = [r for r in rows.values() if r.verdict == pair.verdict]
    if pair.verdict == "FAILED":
        pair.why = f"{bad[0].name}: {bad[0].why}{_describe_more(judged, bad)}"
    elif pair.verdict == "INCONCLUSIVE":
        pair.cause = "coverage" if hole else "not_finite"
        pair.why = hole or f"{bad[0].name}: {bad[0].why}"
    for side in (judged.a.recording, judged.b.recording):
        if side.state == "partial" and pair.verdict == "PASSED":
            pair.verdict, pair.cause = "INCONCLUSIVE", "does_not_run"
            pair.why = f"{named(side.side)} ran only partly: {side.why}"


def _describe_more(judged: Judged, bad: list[TensorRow]) -> str:
    """Returns how many tensors failed besides the first, with the first of those that failed by their norms, if it did
    not itself: the cosine beside that one passes."""
    if len(bad) == 1:
        return ""
    norms = {row.name: gate.describe_norms(judged.gate, row.metrics) for row in bad}
    by_norms = next((name for name, why in norms.items() if why), bad[0].name)
    named_too = f"; {by_norms}: {norms[by_norms]}" if by_norms != bad[0].name else ""
    return f" (and {count(len(bad) - 1, 'more tensor')}{named_too})"


def _make_spec(name: str, value: Array) -> TensorSpec:
    return TensorSpec(name, value.dtype.name, value.shape)


def _check_type(value: Array, spec: TensorSpec, side: str) -> str:
    if value.shape == spec.shape and value.dtype == spec.numpy_dtype:
        return ""
    return f"{named(side)} gave {value.dtype}{list(value.shape)}, wanted {spec.dtype}{list(spec.shape)} by its model"


def _check_shapes(a: Array, b: Array, pair: Pair) -> str:
    if a.shape == b.shape:
        return ""
    return f"shape {list(a.shape)} {within(pair.a)}, {list(b.shape)} {within(pair.b)}"
