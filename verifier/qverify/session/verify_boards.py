"""Runs the main job on every board of a command, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from qverify.capture.writer import check_capture_folder
from qverify.compare.combine_reports import combine
from qverify.report.document import ReportDocument, worst
from qverify.session.many_frames import FrameSource
from qverify.session.request import BoardDump, Request


@dataclass(frozen=True, slots=True)
class VerifyJob:
    """A request for the main job on any number of boards.

    Attributes:
        request: the options of the main job, without a board.
        boards: addresses; () for the sides of this host alone.
        frames: the frames to run; None for one frame, the inputs of the request.
        dump: a dump in the board's place; None without one.
        on_farm: the request to a farm (a qverify_farm.client FarmRequest); None to use boards from this host.
    """

    request: Request
    boards: tuple[str, ...] = ()
    frames: list[FrameSource] | None = None
    on_farm: Any = None
    dump: BoardDump | None = None


def verify_boards(
    job: VerifyJob,
    run: Callable[[Request, int], ReportDocument],
    so_far: Callable[[ReportDocument], None] | None = None,
) -> ReportDocument:
    """Runs the job on every board in turn and returns one report. run: verifies one board, given its request and its
    number. so_far: called after each board but the last with a preliminary report, which is never PASSED. Raises
    UsageError before any board runs if a capture could not be created."""
    verified, folders = [], _check_captures(job.request.capture, len(job.boards))
    for number, board in enumerate(job.boards or (None,)):
        verified.append(run(replace(job.request, board=board, capture=folders[number]), number))
        if number + 1 < len(job.boards) and so_far is not None:
            whole = combine(verified)
            whole.verdict = worst([whole.verdict, "INCONCLUSIVE"])
            whole.notes.append(f"{number + 1} of {len(job.boards)} boards ran so far")
            so_far(whole)
    return combine(verified)


def _check_captures(capture: str | None, boards: int) -> list[str | None]:
    """Returns the folder of each board's capture, None without captures. Raises UsageError if one cannot be created."""
    if capture is None:
        return [None] * max(boards, 1)
    folders = capture_folders(capture, boards)
    for folder in folders:
        check_capture_folder(folder)
    return [*folders]


def capture_folders(capture: str, boards: int) -> list[str]:
    """Returns the folder of each board's capture."""
    return [capture] if boards < 2 else [f"{capture}-{at}" for at in range(boards)]
