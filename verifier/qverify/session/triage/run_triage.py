"""Triage: runs every stage of the ladder once a frame, judges every rung, and gives evidence and a next step for
failures."""

from __future__ import annotations

import time
from dataclasses import replace

from qverify_agents.errors import LinkError

from qverify.errors import BadFileError, QVerifyError, UsageError
from qverify.plural import count
from qverify.printable import printable
from qverify.report.frames_left_out import describe_counts
from qverify.report.triage_document import Triage
from qverify.session.host_sides import Watch
from qverify.session.many_frames import FrameSource, error_with_draft, frame_sources
from qverify.session.request import Request
from qverify.session.triage.bisect_builds import Tell
from qverify.session.triage.locate_by_builds import locate
from qverify.session.triage.run_ladder import Ladder
from qverify.session.triage.triage_request import TriageRequest


def triage(request: TriageRequest, watch: Watch | None = None) -> Triage:
    """Returns the report of triage. Raises QVerifyError (exit 2) for the user's mistakes. A board that cannot be
    reached leaves its rung INCONCLUSIVE; so does one of several frames that cannot be prepared."""
    return run_triage(request, watch)[0]


def run_triage(
    request: TriageRequest, watch: Watch | None = None, tell: Tell | None = None
) -> tuple[Triage, Request | None]:
    """Returns the report of triage, and the request of the first frame whose board fails, which can be reduced.
    tell: called with a line for each cut of --build-cmd."""
    start = time.perf_counter()
    frames = _frames(request)
    if len(frames) > 1 and (request.app_input or request.app_output):
        raise UsageError("--app-input and --app-output are of one frame; give one with -i")
    ladder, wrong, first_error = Ladder(request, watch), list[str](), None
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
                wrong.append(f"{printable(frame.source)}: {error}")
        ladder.finish_capture()
    except (QVerifyError, LinkError) as error:
        ladder.discard_empty_capture(error)
        raise
    finally:
        ladder.close()
    if len(wrong) == len(frames):
        raise error_with_draft(f"none of {count(len(frames), 'frame')} could be prepared: {wrong[0]}", first_error)
    if request.build is not None:
        _locate(ladder, request, request.build, tell or (lambda line: None))
    report = ladder.conclude()
    lost = sum(frame.board_lost for frame in frames)
    report.caveats += describe_counts(len(wrong) - lost, lost)
    wrong += (
        [f"the capture is incomplete: {request.capture.incomplete}"]
        if request.capture and request.capture.incomplete
        else []
    )
    if wrong:
        report.notes += wrong
        report.verdict = "INCONCLUSIVE" if report.verdict == "PASSED" else report.verdict
        report.next_step = report.next_step or f"fix this first: {wrong[0]}"
    report.timings["total"] = time.perf_counter() - start
    return report, ladder.failing


def _locate(ladder: Ladder, request: TriageRequest, build: str, tell: Tell) -> None:
    """Bisects by the build command where the board fails and no node is known yet."""
    rung = ladder.devices.rungs().get(("reference", "board"))
    if (
        ladder.failing is None
        or ladder.job is None
        or rung is None
        or rung.verdict != "FAILED"
        or rung.blame is not None
    ):
        return
    gate = request.gates.get("reference~board")
    try:
        locate(ladder.job.models, ladder.failing, rung, gate, build, tell)
    except (QVerifyError, LinkError) as error:
        rung.evidence.append(f"bisection by --build-cmd ended: {error}")


def _frames(request: TriageRequest) -> list[FrameSource]:
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
