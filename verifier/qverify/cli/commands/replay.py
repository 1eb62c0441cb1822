"""Judges again without the board: a capture of the main job (`--capture`), by other thresholds or with sides run again;
or the output of a bundle's run.sh."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from qverify.cli.reporting import emit_judged, read_reports, require_no_input
from qverify.cli.takes import takes_all
from qverify.cli.view_options import read_view
from qverify.files import require_writable

if TYPE_CHECKING:
    from qverify.options.given import Given
    from qverify.session.job import JobOutcome


@click.command(help=__doc__)
@takes_all("replay")
def command(given: Given) -> int:
    from qverify.cli.frame_printer import FramePrinter
    from qverify.cli.live_progress import live_progress
    from qverify.session.offline.rejudge import RejudgeRequest, rejudge
    from qverify.session.offline.replay_bundle import replay
    from qverify.session.requests.offline import replay_request

    view, reports, npz = read_view(given), read_reports(given), given["npz"]
    if npz is not None:
        require_writable("--npz", npz, regular=True)
        require_no_input(npz, "--npz")
        reports.check_other(npz, "--npz")
    request = replay_request(replace(given, drawings=reports.drawings))
    with live_progress() as live:
        if isinstance(request, RejudgeRequest):
            outcome = rejudge(request, FramePrinter(live, view, 0, reports.stdout_taken), live.watch)
        else:
            outcome = replay(request, live.watch)
    _write_tensors(npz, outcome)
    return emit_judged(outcome, view, reports)


def _write_tensors(npz: str | None, outcome: JobOutcome) -> None:
    """Writes the tensors to --npz, if it was given. Raises UsageError if the capture has several frames."""
    from qverify.session.write_tensors import write_tensors

    if npz is None:
        return
    if outcome.evidence is None:
        raise click.UsageError("--npz takes one frame, and this capture has several; qverify extract writes those")
    write_tensors(npz, outcome.evidence)
