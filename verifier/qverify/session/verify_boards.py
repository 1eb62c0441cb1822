"""The main job on every board of a command, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from qverify.capture.writer import check_capture_folder
from qverify.compare.verdict import combine
from qverify.report.document import Report, worst
from qverify.session.many_frames import FrameSource
from qverify.session.request import Request


@dataclass(frozen=True, slots=True)
class VerifyJob:
    """The main job, as asked for. request: without its board. boards: addresses; none: the host's sides alone. frames:
    None for one frame, which the request's inputs are. on_farm: what a farm is asked for instead, None for a job on this
    host's boards."""

    request: Request
    boards: tuple[str, ...] = ()
    frames: list[FrameSource] | None = None
    on_farm: Any = None


def verify_boards(
    job: VerifyJob, run: Callable[[Request, int], Report], so_far: Callable[[Report], None] | None = None
) -> Report:
    """Runs the job on every board in turn and returns the report of all. run: verifies one board, given its request and
    its number. so_far: is given the report after each board but the last, INCONCLUSIVE at best. UsageError where a
    capture could not be made, before any board runs."""
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
    """Returns the folder of each board's capture."""
    if capture is None:
        return [None] * max(boards, 1)
    folders = capture_folders(capture, boards)
    for folder in folders:
        check_capture_folder(folder)
    return [*folders]


def capture_folders(capture: str, boards: int) -> list[str]:
    """Returns the folder of each board's capture."""
    return [capture] if boards < 2 else [f"{capture}-{at}" for at in range(boards)]
