"""--check order: runs the frames of a run again in the reverse order, which finds a state that a frame leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qverify_agents.errors import LinkError

from qverify.plural import count
from qverify.printable import printable
from qverify.report.checks import CheckDifference, CheckResult
from qverify.report.document import ReportDocument
from qverify.session.host_sides import Watch
from qverify.session.run_evidence import RunEvidence
from qverify.tensors.prepared import PreparedInputs

if TYPE_CHECKING:
    from qverify.session.checks.checked_job import CheckedJob

MAX_FRAMES = 64  # that run again, the first ones


@dataclass(frozen=True, slots=True)
class _Frame:
    """A frame that ran. digests: of the board's tensors in its first run."""

    number: int
    source: str
    prepared: PreparedInputs
    digests: dict[str, str]

    @property
    def name(self) -> str:
        return f"frame {self.number} ({printable(self.source)})"


class OrderCheck:
    """The frames of a run, and what the board gave for each."""

    def __init__(self) -> None:
        self._frames = list[_Frame]()
        self._left_out = 0

    def add(self, number: int, source: str, evidence: RunEvidence | None) -> None:
        """Adds a frame. A frame that the board did not complete is none of the check's; its own verdict says so."""
        from qverify.session.other_inputs import board_digests

        board = evidence.results.recordings.get("board") if evidence is not None else None
        if evidence is None or board is None or board.state != "complete":
            return
        if len(self._frames) < MAX_FRAMES:
            self._frames.append(_Frame(number, source, evidence.prepared, board_digests(board)))
        else:
            self._left_out += 1

    def finish(self, job: CheckedJob, report: ReportDocument, watch: Watch | None = None) -> None:
        """Runs the frames again and adds the result to the report. Of a single frame, other random inputs run before its
        second run."""
        from qverify.session.checks.mark_check import mark_check

        result = self._run(job, watch)
        result.board = job.request.board
        mark_check(report, result)

    def _run(self, job: CheckedJob, watch: Watch | None) -> CheckResult:
        from qverify.session.other_inputs import other_inputs

        if not self._frames:
            return _open("no frame ran to its end on the board")
        order, before = self._frames[::-1], ""
        if len(order) == 1:
            drawn = other_inputs(job.models.graph, order[0].prepared, job.request.spot_seed)
            if drawn is None:
                return _open("no inputs with other bytes were found to run between two runs of the frame")
            if why := self._run_before(job, drawn[0], watch):
                return _open(why)
            before = f"random inputs (PCG64 seed {drawn[1]})"
        makers, differing, tensors = job.models.graph.producers(), list[CheckDifference](), 0
        for number, frame in enumerate(order):
            now, why = _digests_of(job, frame.prepared, watch)
            common = [name for name in job.models.graph.observable() if name in now and name in frame.digests]
            why = why or _describe_lacking(frame.digests, now, common)
            if why and differing:
                break  # what is known is a fault
            if why:
                return _open(f"{frame.name} again: {why}", number)
            tensors = max(tensors, len(common))
            changed = [name for name in common if now[name] != frame.digests[name]]
            if changed:
                after = before if number == 0 else order[number - 1].name
                node = makers[changed[0]].name if changed[0] in makers else changed[0]
                differing.append(CheckDifference(frame.number, None, after, changed[0], node, len(changed)))
        return self._judge(differing, tensors, before)

    def _run_before(self, job: CheckedJob, prepared: PreparedInputs, watch: Watch | None) -> str:
        return _digests_of(job, prepared, watch)[1]

    def _judge(self, differing: list[CheckDifference], tensors: int, before: str) -> CheckResult:
        runs = len(self._frames)
        left = (
            f"; the {count(self._left_out, 'frame')} after the first {MAX_FRAMES} did not run again"
            if self._left_out
            else ""
        )
        if not differing:
            how = f"after {before}" if before else "in the reverse order"
            why = f"{count(runs, 'frame')} again {how}: the bytes of {count(tensors, 'tensor')} are the same{left}"
            return CheckResult("order", "PASSED", why, runs, tensors)
        first = differing[-1]  # the earliest frame, which ran last
        where = f"first {first.tensor}" + (f", node {first.node}" if first.node != first.tensor else "")
        name = next(frame.name for frame in self._frames if frame.number == first.frame)
        after = f" after {first.after}" if first.after else " when it ran again"
        more = f"; {len(differing)} of {runs} frames differ" if len(differing) > 1 else ""
        why = (
            f"{name} gives other bytes{after} than in the first order: {where} ({count(first.tensors, 'tensor')} in "
            f"all): a state is left behind{more}{left}"
        )
        return CheckResult("order", "FAILED", why, runs, tensors, differing[::-1])


def _describe_lacking(before: dict[str, str], now: dict[str, str], common: list[str]) -> str:
    """Returns why the two runs of a frame cannot be compared whole, "" if they can."""
    if not common:
        return "no tensor of the board is known of both runs"
    lacking = next((name for name in before if name not in now), "")
    return f"the board gave {printable(lacking)} in the first run only" if lacking else ""


def _open(why: str, runs: int = 0) -> CheckResult:
    return CheckResult("order", "INCONCLUSIVE", f"--check order: {why}", runs)


def _digests_of(job: CheckedJob, prepared: PreparedInputs, watch: Watch | None) -> tuple[dict[str, str], str]:
    """Returns the digests of the board's tensors in one more run, and why the run is incomplete, "" if it is not."""
    from qverify.session.other_inputs import board_digests

    try:
        board = job.run_board(prepared, watch)
    except LinkError as error:
        return {}, " ".join(str(error).split())
    if board is None:
        return {}, "the board is not connected any more"
    if board.state != "complete":
        return {}, board.why or board.state
    return board_digests(board), ""
