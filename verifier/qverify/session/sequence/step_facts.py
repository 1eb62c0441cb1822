"""What the steps of a sequence show: the curve, the heat map, wrong states in words, tokens and drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qverify.arithmetic.functions64 import log10_of
from qverify.compare.options import Options
from qverify.compare.reference_distance import has_gate, measure_outputs
from qverify.compare.values import Values
from qverify.model_bin.graph import Graph
from qverify.report.distance import Distance
from qverify.report.document import Pair, ReportDocument, worst
from qverify.report.sequence import (
    FREE,
    MAX_HEAT,
    MAX_WORDS,
    CurvePoint,
    Drift,
    Feed,
    HeatCell,
    SequenceFacts,
    StateWords,
)
from qverify.sequences.chain import Chain, same_bytes
from qverify.sequences.loop import Loop
from qverify.sequences.slots import Held, describe_state
from qverify.sequences.state import State
from qverify.sequences.tokens import judge_tokens, tokens_of
from qverify.session.sequence.step_evidence import StepEvidence
from qverify.tensors.real_values import to_float64
from qverify.tensors.recording import Array


class StepFacts:
    """Collects the facts of all steps. token_output: the output of logits, "" without a gate for tokens."""

    def __init__(self, graph: Graph, loop: Loop, options: Options, facts: SequenceFacts):
        self.loop, self.facts, self._graph, self._options = loop, facts, graph, options
        self.token_output = ""
        self._ran_before: dict[str, dict[str, Array]] = {}
        self._before: dict[str, dict[str, Array]] = {}
        self._came_before: dict[str, Array] = {}
        self._first: dict[str, Array] = {}
        facts.states = [state.shown for state in loop.states.values()]
        facts.step_inputs = [step.shown for step in loop.steps.values()]

    def begin_with(self, step: int, lead: Chain, initial: dict[str, Array]) -> None:
        """Begins with a later step, whose states a snapshot has. initial: the values of the first step, by input."""
        states = [s for s in self.loop.states.values() if not s.via]
        self.facts.first = step
        self._ran_before = self._before = {lead.side: {s.output: lead.values[s.input] for s in states}}
        self._came_before = {s.output: lead.before[s.input] for s in states if s.input in lead.before}
        self._first = {s.output: initial[s.input] for s in states}

    def use(self, graph: Graph, loop: Loop) -> None:
        """Takes the network that runs the next steps."""
        self._graph, self.loop = graph, loop

    def judge(
        self, step: int, feed: Feed, evidence: StepEvidence, lead: Chain, own: Chain, report: ReportDocument
    ) -> None:
        """Adds what one feed of a step shows, and judges its tokens and states."""
        right = evidence.outputs(lead.side)
        self._judge_states(report, evidence, feed)
        sides = list(dict.fromkeys(p.b for p in report.pairs if p.b != lead.side))
        given = {side: evidence.outputs(side) for side in sides}
        came_in = {n: np.asarray(v) for n, v in evidence.inputs.arrays().items()}
        hosts = {lead.side: right, **{side: given[side] for side in given if side == "simulator"}}
        wrong = {p.b for p in report.pairs if p.verdict != "PASSED"}
        for side, outputs in ((s, o) for s, o in given.items() if s in wrong):
            self._describe_states(step, feed, side, outputs, {s: o for s, o in hosts.items() if s != side}, came_in)
        tokens = self._judge_tokens(report, {lead.side: right, **given}) if self.token_output else {}
        self._add_points(step, feed, report, given, right, tokens)
        self._remember(hosts, came_in, feed)

    def _remember(self, hosts: Mapping[str, Mapping[str, Array]], came_in: Mapping[str, Array], feed: Feed) -> None:
        """Keeps what the next step is compared with: the right states of this run, and of the last forced one."""
        states = [s for s in self.loop.states.values() if not s.via]
        self._ran_before = {side: {s.output: o[s.output] for s in states if s.output in o} for side, o in hosts.items()}
        if feed == FREE and self.facts.feeds != [FREE]:
            return
        self._before = self._ran_before
        self._came_before = {s.output: came_in[s.input] for s in states if s.input in came_in}
        self._first = self._first or dict(self._came_before)

    def _describe_states(
        self,
        step: int,
        feed: Feed,
        side: str,
        outputs: Mapping[str, Array],
        hosts: Mapping[str, Mapping[str, Array]],
        came_in: Mapping[str, Array],
    ) -> None:
        """Adds what each wrong state of a side shows. hosts: the right outputs, by the side that computed them."""
        for state in (s for s in self.loop.states.values() if not s.via and s.output in outputs):
            given = outputs[state.output]
            right = {host: o for host, o in hosts.items() if state.output in o}
            if not right or len(self.facts.words) >= MAX_WORDS:
                continue
            if any(same_bytes(given, o[state.output]) for o in right.values()):
                continue
            found = [describe_state(given, self._held(state, host, o, came_in)) for host, o in right.items()]
            shows = next((f for f in reversed(found) if f.is_named), found[-1])
            text = f"{state.output} of the {side}: {shows.text}"
            self.facts.words.append(StateWords(step, feed, side, state.output, text, shows.is_named))

    def _held(self, state: State, host: str, right: Mapping[str, Array], came_in: Mapping[str, Array]) -> Held:
        """Returns what is known of a state in a step, as one side of this host computed it."""
        others = {s.output for s in self.loop.states.values() if not s.via} - {state.output}
        return Held(
            state.output,
            right[state.output],
            came_in.get(state.input),
            self._before.get(host, {}).get(state.output),
            self._ran_before.get(host, {}).get(state.output),
            self._came_before.get(state.output),
            self._first.get(state.output),
            {name: right[name] for name in right if name in others},
        )

    def _judge_states(self, report: ReportDocument, evidence: StepEvidence, feed: Feed) -> None:
        """Makes pairs INCONCLUSIVE whose sides have NaN in a state, or lack one."""
        sides = dict.fromkeys(side for pair in report.pairs for side in (pair.a, pair.b))
        wrong = {side: self._find_wrong_state(evidence, side) for side in sides}
        for pair in report.pairs:
            for why, cause in (found for side in (pair.a, pair.b) if (found := wrong[side]) is not None):
                _weaken(pair, why, cause)
        report.verdict = worst([report.verdict, *(pair.verdict for pair in report.pairs)])

    def _find_wrong_state(self, evidence: StepEvidence, side: str) -> tuple[str, str] | None:
        """Returns why the first state of a side that is missing or has NaN cannot pass, and the cause; None without one."""
        outputs = evidence.outputs(side)
        for state in self.loop.states.values():
            value = outputs.get(state.output)
            why = f"the state {state.output} of the {side} "
            if value is None:
                return why + "is missing", "coverage"
            if value.dtype.kind == "f" and np.isnan(value).any():
                return why + "has NaN" + _first_nan(evidence, side), "not_finite"
        return None

    def _judge_tokens(self, report: ReportDocument, given: Mapping[str, Mapping[str, Array]]) -> dict[str, int]:
        """Fails pairs whose tokens miss the gate. Returns the token of each side."""
        name = self.token_output
        for pair in report.pairs:
            if name in given.get(pair.a, {}) and name in given.get(pair.b, {}):
                a, b = given[pair.a][name], given[pair.b][name]
                if why := judge_tokens(self._options.tokens_top, a, b):
                    pair.notes += [pair.why] if pair.why and pair.verdict != "FAILED" else []
                    if pair.verdict != "FAILED":
                        pair.verdict, pair.cause, pair.why = "FAILED", "tokens", f"{name}: {why}"
            else:
                _weaken(pair, f"{name} is missing, so that its tokens are not judged", "coverage")
        report.verdict = worst([report.verdict, *(pair.verdict for pair in report.pairs)])
        found = {side: tokens_of(name, outputs) for side, outputs in given.items()}
        return {side: token for side, token in found.items() if token is not None}

    def _add_points(
        self,
        step: int,
        feed: Feed,
        report: ReportDocument,
        given: Mapping[str, Mapping[str, Array]],
        right: Mapping[str, Array],
        tokens: dict[str, int],
    ) -> None:
        """Adds the points of the curve and the cells of the heat map: how far each side's tensors lie from the reference's."""
        for side, outputs in given.items():
            if feed != FREE:
                self._add_point(step, feed, side, outputs, right, report, tokens)
            rows = [row for p in report.pairs if p.b == side and p.a == report.pairs[0].a for row in p.tensors]
            apart = {row.name: row.metrics.get("max_abs") for row in rows if not row.bit_equal}
            for name, found in apart.items():
                if len(self.facts.heat) < MAX_HEAT:
                    is_number = isinstance(found, (int, float)) and np.isfinite(found)
                    value_of = float(found) if is_number and isinstance(found, (int, float)) else None
                    self.facts.heat.append(HeatCell(step, feed, side, name, value_of))

    def _add_point(
        self,
        step: int,
        feed: Feed,
        side: str,
        outputs: Mapping[str, Array],
        right: Mapping[str, Array],
        report: ReportDocument,
        tokens: Mapping[str, int] | None = None,
    ) -> None:
        """Adds a point of the curve: the output of a side that is farthest from the right one."""
        point = CurvePoint(step, feed, worst([p.verdict for p in report.pairs if side == p.b]), side)
        others = {p.b for p in report.pairs} - {side}
        point.tokens = {s: t for s, t in (tokens or {}).items() if s not in others}
        for name, value in outputs.items():
            if name in right and not same_bytes(value, right[name]):
                largest = _largest(right[name], value)
                if not point.tensor or (largest or 0.0) > (point.max_abs or 0.0):
                    point.tensor, point.max_abs = name, largest
        if point.tensor:
            point.sqnr_db = _sqnr(right[point.tensor], outputs[point.tensor])
        self.facts.curve.append(point)

    def measure_drift(
        self, step: int, leads: StepEvidence, owns: StepEvidence, lead: str, own: str, report: ReportDocument
    ) -> None:
        """Measures how far the side's own run lies from the reference's own run after a step, and holds it to the gate
        that was given, if one was."""
        given, right = owns.outputs(own), leads.outputs(lead)
        if owns is leads:
            self._note_drift(step, own, [n for n, v in given.items() if n in right and not same_bytes(v, right[n])])
            return
        tokens = {side: tokens_of(self.token_output, o) for side, o in ((lead, right), (own, given))}
        known = {s: t for s, t in tokens.items() if t is not None}
        self._add_point(step, FREE, own, given, right, report, known if self.token_output else {})
        a, b = leads.recording(lead), owns.recording(own)
        if a is None or b is None:
            return
        found: Distance = measure_outputs(
            Values(a), Values(b, owns.pull), self._graph, replace(self._options, frame=step)
        )
        if found.verdict != "PASSED" and has_gate(self._options):
            for pair in (p for p in report.pairs if own in (p.a, p.b)):
                if worst([pair.verdict, found.verdict]) != pair.verdict:
                    pair.notes += [pair.why] if pair.why else []
                    pair.verdict, pair.cause = found.verdict, "drift"
                    pair.why = f"{own} ~ {lead}, each with its own state: {found.misses}"
            report.verdict = worst([report.verdict, *(pair.verdict for pair in report.pairs)])
        apart = [o for o in found.outputs if o.differing]
        self._note_drift(step, own, [o.output for o in apart])
        if (drift := self.facts.drift) is None or not apart:
            return
        most = max(apart, key=lambda o: o.max_abs or 0.0)
        if (most.max_abs or 0.0) > drift.max_abs:
            drift.max_abs, drift.at, drift.worst = float(most.max_abs or 0.0), step, most.output
        drift.misses = drift.misses or found.misses

    def _note_drift(self, step: int, side: str, names: list[str]) -> None:
        """Notes the first step at which outputs of a side's own run differ."""
        if names and self.facts.drift is None:
            self.facts.drift = Drift(side, step, names[0])

    def add_words(self, step: int, feed: Feed, side: str, text: str, report: ReportDocument) -> None:
        """Adds what a whole step shows, before the words on its single states."""
        wrong = (r.name for p in report.pairs if p.b == side for r in p.tensors if r.final and r.verdict != "PASSED")
        words = StateWords(step, feed, side, next(wrong, ""), text)
        at = next(
            (k for k, w in enumerate(self.facts.words) if (w.step, w.feed) == (step, feed)), len(self.facts.words)
        )
        self.facts.words.insert(at, words)

    def shown_words(self) -> list[StateWords]:
        """Returns the words that the text shows: of each step, feed and side the known mistakes, or else the first state."""
        groups: dict[tuple[int, str, str], list[StateWords]] = {}
        for words in self.facts.words:
            groups.setdefault((words.step, words.feed, words.side), []).append(words)
        return [w for group in groups.values() for w in ([w for w in group if w.is_named] or group[:1])]


def _weaken(pair: Pair, why: str, cause: str) -> None:
    """Makes a pair that would pass INCONCLUSIVE, with this reason."""
    if pair.verdict == "PASSED":
        pair.verdict, pair.why, pair.cause = "INCONCLUSIVE", why, cause


def _first_nan(evidence: StepEvidence, side: str) -> str:
    """Returns the first tensor of a side's recording that has NaN, in words."""
    recording = evidence.recording(side)
    for name in recording.specs if recording is not None else ():
        value = recording.tensors.get(name) if recording is not None else None
        if value is not None and value.dtype.kind == "f" and np.isnan(value).any():
            return f", the first tensor with one is {name}"
    return ""


def _largest(right: Array, given: Array) -> float | None:
    """Returns the largest difference of real values; None where it is not defined."""
    if not _are_comparable(right, given):
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        largest = float(np.abs(to_float64(right) - to_float64(given)).max())
    return largest if np.isfinite(largest) else None


def _sqnr(right: Array, given: Array) -> float | None:
    """Returns the SQNR in dB; None where it is not defined."""
    if not _are_comparable(right, given):
        return None
    a, b = to_float64(right), to_float64(given)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = a - b
        noise, power = float((apart * apart).sum()), float((a * a).sum())
    is_defined = np.isfinite(noise) and noise > 0 and power > 0
    return 10 * log10_of(power / noise) if is_defined else None


def _are_comparable(right: Array, given: Array) -> bool:
    same = (right.shape, right.dtype) == (given.shape, given.dtype)
    return same and right.dtype.kind in "iuf" and bool(right.size)
