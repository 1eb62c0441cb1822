"""Verifies a sequence: runs and judges every step, forced and free-running, and makes one report of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

from qverify_agents.errors import LinkError

from qverify.compare.combine_reports import combine
from qverify.compare.later import Later
from qverify.errors import QVerifyError, UsageError
from qverify.plural import count
from qverify.printable import printable
from qverify.report.document import ReportDocument, worst
from qverify.report.facts import Finding
from qverify.report.sequence import BOTH, FORCED, FREE, Feed, SequenceFacts
from qverify.sequences.chain import Chain
from qverify.sequences.loop import Loop, find_loop, find_prefill
from qverify.sequences.other_runs import explains
from qverify.sequences.sequence_request import SequenceRequest
from qverify.sequences.step_inputs import StepInputs, join, named_inputs
from qverify.sequences.tokens import token_output
from qverify.session.host_sides import Watch
from qverify.session.job import Job, JobOutcome
from qverify.session.many_frames import FrameSource, KeptReports, OnFrame, frame_row, not_run_row
from qverify.session.request import Request
from qverify.session.sequence.snapshots import CHAINS, TIMES, check_folder, read_snapshot, write_snapshot
from qverify.session.sequence.step_evidence import StepEvidence
from qverify.session.sequence.step_facts import StepFacts
from qverify.session.sequence.step_jobs import StepJobs
from qverify.tensors.prepared import PreparedInput, PreparedInputs

MAX_EXPLAINED = 3  # wrong steps that are computed again from other inputs
MAX_FINDINGS = 16  # of states, in the text
OnLoop = Callable[[list[str]], None]  # receives the states and step inputs, in lines, before the first step


def verify_sequence(
    request: Request,
    frames: list[FrameSource] | None,
    on_step: OnFrame,
    watch: Watch | None = None,
    job: Job | None = None,
    on_loop: OnLoop | None = None,
) -> JobOutcome:
    """Verifies the sequence of the request (request.sequence), and calls on_step(row) after each step. frames: the files of
    each step, if -i is a folder or a list. job: a job for this request, which is closed at the end; a new one if None. on_loop:
    is called before the first step. Raises UsageError for mistakes of the user, before any step where that is possible."""
    job = Job(request) if job is None else job
    run = None
    try:
        run = SequenceRun(request, frames, job)
        if on_loop is not None:
            on_loop(run.facts.loop.shown)
        outcome = run.run(on_step, watch)
        run.jobs.job.finish_capture(outcome.report)
        return outcome
    except (QVerifyError, LinkError) as error:
        job.discard_empty_capture(error)
        raise
    finally:
        (job if run is None else run.jobs).close()


class SequenceRun:
    """One run of a sequence. facts: what the steps showed so far. jobs: what runs them. last_inputs: what the sides got in the
    last step."""

    def __init__(self, request: Request, frames: list[FrameSource] | None, job: Job):
        assert request.sequence is not None
        self._request, self._sequence = request, _with_variables(request.sequence, job)
        self.jobs = StepJobs(request, self._sequence, job)
        sources = None if frames is None else [_frame_request(request, frame) for frame in frames]
        self._named = named_inputs(request.inputs, sources)
        find = find_prefill(job.models.graph, self._sequence.tables, self._named) if self._sequence.decode else None
        loop = find or find_loop(job.models.graph, self._sequence.tables, self._sequence.steps, self._named)
        _check(request, loop)
        self._inputs = StepInputs(job.models.graph, loop, request.inputs, self._sequence.steps, sources)
        has_reference = (job.models.compiled is not None or job.models.alone is not None) and job.sides.reference
        lead = "reference" if has_reference or job.models.engine is not None else "simulator"
        tested = "board" if job.sides.board is not None else "simulator"
        feeds: list[str] = [FORCED] * self._sequence.is_forced + [FREE] * self._sequence.is_free
        self._explained = 0
        self.last_inputs: PreparedInputs | None = None
        self._last_feed, self._last_passed = "", True
        self._lead, self._own = Chain(lead), Chain(tested)
        self.facts = StepFacts(
            job.models.graph, loop, request.options, SequenceFacts(self._sequence.steps, feeds=feeds, leads=lead)
        )
        self._kept, self._rows, self._unreached = KeptReports(), list[dict[str, Any]](), ""
        self._later, self._snapshot = Later(), ""
        self._begin()
        if request.options.tokens_top:
            self.facts.token_output = token_output(job.models.graph, loop)

    @property
    def _loop(self) -> Loop:
        return self.facts.loop

    def _begin(self) -> None:
        """Takes the initial values, or the states of a snapshot. Raises UsageError for one that does not fit."""
        for chain in (self._lead, self._own):
            chain.begin(self._loop)
        if self._sequence.snapshot is not None:
            check_folder(self._sequence.snapshot[1])
        if not self._sequence.begin:
            return
        snapshot, initial = read_snapshot(self._sequence.begin), dict(self._lead.values)
        snapshot.check(self._loop, self._model_sha256, self._sequence.steps)
        if self._sequence.snapshot is not None and self._sequence.snapshot[0] < snapshot.step:
            raise UsageError(
                f"--snapshot {self._sequence.snapshot[0]}: the run begins with step {snapshot.step} (--from-snapshot); "
                "give this step or a later one"
            )
        for side, chain in zip(CHAINS, (self._lead, self._own), strict=True):
            chain.values, chain.before = ({**snapshot.states[side, time]} for time in TIMES)
        self.facts.begin_with(snapshot.step, self._lead, initial)
        inputs = self._inputs.at(snapshot.step)
        others = [n for n, item in inputs.items() if snapshot.inputs.get(n, item.sha256) != item.sha256]
        self.facts.facts.notes.append(
            f"it begins with step {snapshot.step}, on the states of the snapshot {printable(snapshot.folder)}"
            + (f"; {others[0]} is another input there than in the run that took it" if others else "")
        )

    @property
    def _model_sha256(self) -> str:
        return hashlib.sha256(self.jobs.job.models.binary).hexdigest()

    def _take_snapshot(self, step: int, external: dict[str, PreparedInput]) -> bool:
        """Starts the capture of this step and keeps the states before it, if a snapshot of it is asked. Returns whether one is."""
        wanted = self._sequence.snapshot
        if wanted is None or wanted[0] != step:
            return False
        self.jobs.job.start_capture(wanted[1])
        own = self._lead if self._own.lost or not self._sequence.is_free else self._own
        chains = dict(zip(CHAINS, (self._lead, own), strict=True))
        write_snapshot(wanted[1], step, self._model_sha256, external, chains)
        self._snapshot = wanted[1]
        return True

    def run(self, on_step: OnFrame, watch: Watch | None) -> JobOutcome:
        """Runs all steps and returns the outcome."""
        steps = self._sequence.steps
        for step in range(self.facts.facts.first, steps):
            why = self._run_step(step, watch)
            on_step(self._rows[-1])
            if why:
                late = UsageError(why)
                self._rows += [not_run_row(n, f"step {n}", late, board_lost=True) for n in range(step + 1, steps)]
                break
        for row in self._rows:
            row["board"] = self._request.board
        return JobOutcome(self._report(), list(self.jobs.graph.outputs), self._unreached)

    def run_to_first_wrong(self, watch: Watch | None) -> str:
        """Runs the steps up to the first that is not PASSED, or all. Returns which it is, in words; last_inputs are then its
        inputs."""
        for step in range(self.facts.facts.first, self._sequence.steps):
            why = self._run_step(step, watch)
            row = self._rows[-1]
            if row["verdict"] != "PASSED" or why:
                return f"step {step} of {self._sequence.steps}, the first that is not PASSED ({self._last_feed})"
        return f"step {self._sequence.steps - 1} of {self._sequence.steps}: all are PASSED"

    def _run_step(self, step: int, watch: Watch | None) -> str:
        """Runs one step in its feeds, and adds its row. Returns why no further step can run, "" if one can."""
        first = self.facts.facts.first
        if step > first:
            self._open_step(step)
        job, external = self.jobs.job, self._inputs.at(step)
        is_kept = self._take_snapshot(step, external)
        source = _describe_source(step, external)
        states = {n: v for n, v in self._lead.values.items()}
        together = not self._own.lost and self._lead.equals(self._own)
        reports, leads = [], None
        if self._sequence.is_forced or together:
            feed = self._feed(together)
            leads, report = self._run_feed(job, step, external, states, feed, watch, source)
            reports.append(report)
        else:
            inputs = join(self._loop, step, external, states, FORCED)
            ran = job.run_host(inputs)
            leads = StepEvidence(ran.recordings, None, inputs)
        owns = leads if together else None
        if not together and self._sequence.is_free and not self._own.lost and not self._unreached:
            own, report = self._run_feed(job, step, external, self._own.values, FREE, watch, source)
            self.facts.measure_drift(step, leads, own, self._lead.side, self._own.side, report)
            reports.append(report)
            owns = own
        elif together and self._sequence.is_free:
            self.facts.measure_drift(step, leads, leads, self._lead.side, self._own.side, reports[0])
        if step == first:
            job.leave_out_original()
        whole = combine(reports) if reports else None
        if whole is None:
            self._rows.append(not_run_row(step, source, UsageError(self._own.lost), board_lost=True))
            return self._own.lost
        self._rows.append(frame_row(step, source, whole))
        if is_kept:
            self._later.finish(is_shown=True)
            job.end_capture(whole)
        self._later.finish(is_shown=self._kept.add(whole, self._rows[-1]))
        self.facts.facts.ran += 1
        return self._advance(leads, owns)

    def _feed(self, together: bool) -> Feed:
        """Returns the feed of a run on the reference's states. together: the tested side has the same ones."""
        if self._sequence.is_forced:
            return BOTH if together and self._sequence.is_free else FORCED
        return FREE

    def _run_feed(
        self,
        job: Job,
        step: int,
        external: dict[str, PreparedInput],
        states: dict[str, Any],
        feed: Feed,
        watch: Watch | None,
        source: str,
    ) -> tuple[StepEvidence, ReportDocument]:
        """Runs one feed of a step on these states. Returns what the sides gave, and the report."""
        inputs = join(self._loop, step, external, states, FREE if feed == FREE else FORCED)
        is_further = feed == FREE and self._sequence.is_forced
        job.on_lost = partial(self._note_lost, step, feed)
        outcome = job.run_prepared(inputs, step, watch, source, is_further, self._later)
        self._unreached = outcome.unreached
        if self._last_passed or feed != FREE:  # of a step that fails in both feeds, the forced one
            self.last_inputs, self._last_feed = inputs, feed
        self._last_passed = outcome.report.verdict == "PASSED"
        assert outcome.evidence is not None
        evidence = StepEvidence(outcome.evidence.results.recordings, outcome.evidence.pull, inputs)
        for pair in outcome.report.pairs:
            pair.feed = feed
        self.facts.judge(step, feed, evidence, self._lead, self._own, outcome.report)
        self._explain(job, step, feed, external, states, evidence, outcome.report)
        return evidence, outcome.report

    def _note_lost(self, step: int, feed: Feed, why: str, resumed: bool) -> None:
        """States that the board lost its state in a step. The host has the states before each step, its snapshot."""
        went_on = "it was connected again and ran the step again" if resumed else "it broke off again"
        self.facts.facts.notes.append(
            f"step {step}, {feed}: the board lost its state ({why}); {went_on} from the snapshot of step {step}"
        )

    def _explain(
        self,
        job: Job,
        step: int,
        feed: Feed,
        external: dict[str, PreparedInput],
        states: dict[str, Any],
        evidence: StepEvidence,
        report: ReportDocument,
    ) -> None:
        """Finds out whether a wrong step of the tested side is the right step of other inputs, for the first wrong steps."""
        side, lead = self._own.side, self._lead.side
        wrong = any(p.verdict == "FAILED" and side == p.b for p in report.pairs)
        if not wrong or self._explained >= MAX_EXPLAINED or side == lead:
            return
        self._explained += 1
        given, right = evidence.outputs(side), evidence.outputs(lead)
        for text, other_external, other_states in self._alternatives(step, feed, external, states):
            shapes = {name: value.shape for name, value in states.items()}
            if any(value.shape != shapes.get(name) for name, value in other_states.items()):
                continue  # a network of another length
            ran = job.run_host(join(self._loop, step, other_external, other_states, FORCED))
            other = StepEvidence(ran.recordings, None, evidence.inputs).outputs(lead)
            if how := explains(given, right, other):
                self.facts.add_words(step, feed, side, f"the {side} computes {how} this step {text}", report)
                return

    def _alternatives(
        self, step: int, feed: Feed, external: dict[str, PreparedInput], states: dict[str, Any]
    ) -> Iterator[tuple[str, dict[str, PreparedInput], dict[str, Any]]]:
        """Yields other inputs that a step may have read: in words, the external inputs and the states."""
        before = (self._own if feed == FREE else self._lead).before
        first = {state.input: self._loop.initial(state) for state in self._loop.states.values()}
        if step:
            yield "from the state of the step before: one step late", external, {**states, **before}
            yield "from the initial state: the state was lost (reset)", external, first
            for name in before if len(before) > 1 else ():
                yield f"with {name} of the step before: one step late", external, {**states, name: before[name]}
                yield f"with {name} at its initial value: lost (reset)", external, {**states, name: first[name]}
        if self._loop.external and step:
            yield "with the inputs of the step before", self._inputs.at(step - 1), states
        if self._loop.external and step + 1 < self._sequence.steps:
            yield "with the inputs of the next step: a step was lost", self._inputs.at(step + 1), states
        for a, b in combinations(states, 2):
            if states[a].shape == states[b].shape and states[a].dtype == states[b].dtype:
                yield f"with {a} and {b} exchanged", external, {**states, a: states[b], b: states[a]}

    def _advance(self, leads: StepEvidence, owns: StepEvidence | None) -> str:
        """Takes the outputs of a step as the next states. Returns why no further step can run, "" if one can."""
        outputs = leads.outputs(self._lead.side)
        self._lead.advance(self._loop, outputs, leads.why(self._lead.side), outputs)
        if owns is not None and not self._own.lost:
            own = owns.outputs(self._own.side)
            self._own.advance(self._loop, own, owns.why(self._own.side), outputs)
        if self._unreached:
            return "the board was not reached"
        if self._lead.lost:
            return self._lead.lost
        return self._own.lost if self._own.lost and not self._sequence.is_forced else ""

    def _open_step(self, step: int) -> None:
        """Opens the models of a step, if they are others than those of the step before."""
        before, decode = self.jobs.job, step == 1 and bool(self._sequence.decode)
        if decode:
            self.jobs.next_phase()
        elif any(state.grows is not None for state in self._loop.states.values()):
            self.jobs.grown(self._loop, self._lead.values)
        if self.jobs.job is before:
            return
        loop = find_loop(self.jobs.graph, self._sequence.tables, self._sequence.steps, self._named)
        if decode:
            _take_states(loop, self._lead, self._own)
        self.facts.use(self.jobs.graph, loop)
        self._inputs.use(self.jobs.graph, loop)
        if self.facts.token_output:
            self.facts.token_output = token_output(self.jobs.graph, loop)

    def _report(self) -> ReportDocument:
        """Returns the report of all steps."""
        if not self._kept.reports:
            raise UsageError(f"no step could run: {self._rows[0]['why'] if self._rows else 'none was asked'}")
        whole = self._kept.combine(self._rows, "step")
        facts, job = self.facts.facts, self.jobs.job
        facts.models = self.jobs.count
        whole.sequence = facts
        whole.findings = job.history.put_frozen_first(whole.verdict, whole.findings)
        words = self.facts.shown_words()[:MAX_FINDINGS]
        whole.findings += [Finding("state", w.tensor, f"step {w.step}, {w.feed}: {w.text}", w.step) for w in words]
        if facts.models > 1:
            whole.notes.append(f"{count(facts.models, 'network')} were compiled, {self.jobs.bytes} bytes in all")
        if facts.leads == "simulator":
            whole.caveats.append("no reference: forced steps get the simulator's states")
        if (wanted := self._sequence.snapshot) is not None:
            kept = (
                f"step {wanted[0]} is kept in {printable(wanted[1])}: qverify replay, qverify triage, --from-snapshot"
            )
            facts.notes.append(kept if self._snapshot else f"no snapshot: the run ended before step {wanted[0]}")
        if self._sequence.is_free and self._own.lost:
            facts.ended = self._own.lost.partition(": ")[0]
            facts.notes.append(f"free-running ended: {self._own.lost}")
            whole.verdict = worst([whole.verdict, "INCONCLUSIVE"])
        whole.notes += [*self._inputs.notes, *facts.notes]
        return whole


def _with_variables(sequence: SequenceRequest, job: Job) -> SequenceRequest:
    """Returns the sequence with the variables of a .tflite as its states, unless the description states others."""
    if not job.models.variables or sequence.tables.states is not None:
        return sequence
    return replace(sequence, tables=replace(sequence.tables, states=job.models.variables))


def _frame_request(request: Request, frame: FrameSource) -> Any:
    if frame.wrong:
        raise UsageError(f"{frame.source}: {frame.wrong}; every file is a step of the sequence")
    return replace(request.inputs, files=frame.files, prepared=frame.stated)


def _describe_source(step: int, external: dict[str, PreparedInput]) -> str:
    sources = list(dict.fromkeys(i.source for i in external.values() if i.source != "random"))
    return f"step {step}" + (f" {','.join(sources)}" if sources else "")


def _take_states(loop: Loop, *chains: Chain) -> None:
    """Gives the states of the decode network the values that the prefill's outputs have. Raises UsageError for a value that
    does not fit."""
    for chain in chains:
        taken = {}
        for state in loop.states.values():
            spec = loop.inputs[state.input]
            value = chain.outputs.get(state.output)
            value = loop.initial(state) if value is None else value
            if value.shape != spec.shape or value.dtype != spec.numpy_dtype:
                raise UsageError(
                    f"--decode: input {state.input!r} is {spec.dtype}{list(spec.shape)}, the prefill gives {value.dtype}{list(value.shape)}"
                )
            taken[state.input] = value
        chain.values = taken


def _check(request: Request, loop: Loop) -> None:
    """Raises UsageError for options that a sequence cannot have."""
    sequence: SequenceRequest | None = request.sequence
    assert sequence is not None
    several = bool(sequence.decode) or any(state.grows is not None for state in loop.states.values())
    given = {
        "--repeat": request.repeat > 1,
        "--paranoid": request.paranoid,
        "--labels and --task-metric": request.task is not None,
        "--snapshot with --capture": sequence.snapshot is not None and request.capture is not None,
    }
    if option := next((name for name, value in given.items() if value), ""):
        why = "the capture has every step" if option.startswith("--snapshot") else "it is of independent frames"
        raise UsageError(f"{option}: {why}; leave it or --steps out")
    kept = {"--capture": request.capture, "--snapshot": sequence.snapshot, "--from-snapshot": sequence.begin}
    if several and (option := next((name for name, value in kept.items() if value), "")):
        kind = option.removeprefix("--from-").removeprefix("--")
        raise UsageError(
            f"{option}: a sequence of several networks (--decode, an axis that grows) has no {kind}; leave it out"
        )
