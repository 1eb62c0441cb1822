"""Runs the main job on a farm and prints its results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qverify.cli.live_progress import live_progress
from qverify.cli.say_line import say
from qverify.printable import printable

if TYPE_CHECKING:
    from qverify.renderers.text_view import TextView
    from qverify.report.document import ReportDocument
    from qverify.session.verify_boards import VerifyJob


def verify_on_farm(job: VerifyJob, view: TextView, quiet: bool) -> ReportDocument:
    """Runs the job on its farm, prints each board's result unless `quiet`, and returns the report of all boards."""
    from qverify.renderers import frame_lines, heading, terminal
    from qverify.session.requests.farm import load

    request = job.on_farm
    if load("http").is_open_to_listeners(request.server) and request.token:
        say(f"qverify: {request.server}: the token goes there unencrypted; https:// protects it", err=True)

    with live_progress() as live:

        def show_result(result: Any, number: int, boards: int) -> None:
            report = result.report
            if (quiet or view.detail == "quiet") and not report.pairs and not report.frames:
                for note in report.notes:  # the reason, which no verdict line has
                    live.say(printable(f"qverify: {note}"), err=True)
            if quiet:
                return
            if boards > 1:
                live.say(("\n" if number else "") + heading.section(result.board, number + 1, boards, view))
            finals = list(dict.fromkeys(r.name for pair in report.pairs for r in pair.tensors if r.final))
            live.say(frame_lines.render(report, view) if report.frames else terminal.render(report, finals, view))

        def say_wait(line: str) -> None:
            live.say(printable(f"qverify: {line}"), err=True)

        whole: ReportDocument = load("verify_on_farm").verify_on_farm(request, live.watch, show_result, say_wait)
    return whole
