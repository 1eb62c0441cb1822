"""Triage: runs every stage of the ladder on every frame, judges every rung, and reports evidence and a next step for
failures."""

from __future__ import annotations

import time
from dataclasses import replace

from qverify_agents.errors import LinkError

from qverify.errors import BadFileError, QVerifyError, UsageError
from qverify.plural import count
from qverify.printable import printable
from qverify.report.frames_left_out import describe_counts
from qverify.report.triage_document import TriageDocument
from qverify.session.host_sides import Watch
from qverify.session.many_frames import FrameSource, error_with_draft, frame_sources
from qverify.session.request import Request
from qverify.session.triage.bisect_builds import OnLine
from qverify.session.triage.locate_by_builds import locate
from qverify.session.triage.run_ladder import Ladder
from qverify.session.triage.triage_request import TriageRequest


def triage(request: TriageRequest, watch: Watch | None = None) -> TriageDocument:
    """Returns the report of triage. A board that cannot be reached makes its rung INCONCLUSIVE; one of several frames
    that cannot be prepared makes a PASSED verdict INCONCLUSIVE. Raises QVerifyError (exit 2) for the user's
    mistakes."""
    return run_triage(request, watch)[0]


def run_triage(
    request: TriageRequest, watch: Watch | None = None, on_line: OnLine | None = None
) -> tuple[TriageDocument, Request | None]:
    """Returns the report of triage, and the request of the first frame whose board fails (for a reduction), None
    without one. on_line: called with a line for each cut of --build-cmd."""
    start, of_step = time.perf_counter(), ""
    if request.sequence is not None:
        from qverify.session.sequence.wrong_step import at_wrong_step

        request, of_step = at_wrong_step(request, watch)
    frames = _frames(request)
    if len(frames) > 1 and (request.app_input or request.app_output):
        raise UsageError("--app-input and --app-output are of one frame; give one with -i")
    ladder, problems, first_error = Ladder(request, watch), list[str](), None
    if len(frames) > 1 and ladder.files.dumps:
        ladder.close()
        raise UsageError(f"{ladder.files.dumps[0]}: a dump is of one frame; give that one with -i")
    try:
        for number, frame in enumerate(frames):
            try:
                if frame.wrong:
                    raise BadFileError(frame.wrong)
                frame_request = replace(request.inputs, files=frame.files or None, prepared=frame.stated)
                ladder.frame(frame_request, frame.source, number)
            except QVerifyError as error:
                if len(frames) == 1:
                    raise
                first_error = first_error or error
                ladder.add_draft(error)
                ladder.record_not_run(number, frame.source, str(error))
                problems.append(f"{printable(frame.source)}: {error}")
        ladder.finish_frames()
        ladder.finish_capture()
    except (QVerifyError, LinkError) as error:
        ladder.discard_empty_capture(error)
        raise
    finally:
        ladder.close()
    if len(problems) == len(frames):
        raise error_with_draft(f"none of {count(len(frames), 'frame')} could be prepared: {problems[0]}", first_error)
    if (build := request.build or ladder.build) is not None:
        _locate(ladder, request, build, on_line or (lambda line: None))
    ladder.judge_in_place()
    report = ladder.conclude()
    lost = sum(frame.board_lost for frame in frames)
    report.caveats += describe_counts(len(problems) - lost, lost)
    problems += (
        [f"the capture is incomplete: {request.capture.incomplete}"]
        if request.capture and request.capture.incomplete
        else []
    )
    if problems:
        report.notes += problems
        report.verdict = "INCONCLUSIVE" if report.verdict == "PASSED" else report.verdict
        report.next_step = report.next_step or f"fix this first: {problems[0]}"
    report.notes = [*([f"sequence: triage is of {of_step}"] if of_step else []), *report.notes]
    report.timings["total"] = time.perf_counter() - start
    return report, ladder.failing


def _locate(ladder: Ladder, request: TriageRequest, build: str, on_line: OnLine) -> None:
    """Bisects with the build command if the board fails and no node is blamed yet."""
    rung = ladder.devices.rungs().get(("reference", "board"))
    if (
        ladder.failing is None
        or ladder.job is None
        or ladder.sides.board is None
        or rung is None
        or rung.verdict != "FAILED"
        or rung.blame is not None
    ):
        return
    gate = request.gates.get("reference~board")
    try:
        locate(ladder.job.models, ladder.failing, ladder.sides.board, rung, gate, build, on_line)
    except (QVerifyError, LinkError) as error:
        rung.evidence.append(f"bisection by --build-cmd ended: {error}")


def _frames(request: TriageRequest) -> list[FrameSource]:
    """Returns the frames of the capture, or those of -i. Raises BadFileError for a capture without frames."""
    if (capture := request.capture) is not None:
        if not capture.frames:
            raise BadFileError(
                f"{capture.folder}: the capture contains no frame ({capture.incomplete or 'nothing ran'})"
            )
        return [
            FrameSource("", str(row["source"]), wrong=capture.why(n), board_lost=capture.board_lost(n))
            for n, row in enumerate(capture.frames)
        ]
    files = request.inputs.files
    several = frame_sources(files if isinstance(files, str) else None)
    return [FrameSource(files or "", request.inputs.source or str(files or "random"))] if several is None else several
