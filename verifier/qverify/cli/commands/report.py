"""Reports of earlier runs: a capture drawn again as files, the difference of two runs, the matrix of many, the schemas of
the documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qverify.cli.commands.schema import command as schema
from qverify.cli.report_diff import diff
from qverify.cli.report_matrix import matrix
from qverify.cli.reporting import emit_judged, read_reports
from qverify.cli.takes import takes
from qverify.cli.view_options import read_view
from qverify.options.commands import DRAWN_REPORT, VIEW

if TYPE_CHECKING:
    from qverify.options.given import Given


class CaptureGroup(click.Group):
    """A group of commands that also accepts a capture as its first word: `report CAPTURE` means `report capture
    CAPTURE`."""

    default = "capture"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *self.get_help_option_names(ctx)):
            args = [self.default, *args]
        return super().parse_args(ctx, args)


EPILOG = """A page draws some tensors and shows some tables, by rules that it states: at most 40 tensors of a frame, the tables
of the 16 worst of many frames, the inputs of the 6 worst. The JSON report has every number, never the tensors (--npz, --capture). There
is no PDF (print the page) and no SARIF. report diff compares two runs, report matrix shows many beside each other."""


@click.group(cls=CaptureGroup, help=__doc__, epilog=EPILOG, subcommand_metavar="CAPTURE|COMMAND [OPTIONS]")
def command() -> None:
    pass


@command.command("capture", short_help="Draw a capture (the word may be left out)")
@click.argument("folder", metavar="CAPTURE", type=click.Path(exists=True, file_okay=False))
@takes(*VIEW, *DRAWN_REPORT)
def draw_capture(folder: str, given: Given) -> int:
    """Draws a capture of the main job (`--capture`) again in the formats given, judged by the options of its run."""
    from qverify.capture.reader import is_capture
    from qverify.cli.frame_printer import FramePrinter
    from qverify.cli.live_progress import live_progress
    from qverify.compare.options import Options
    from qverify.session.offline.rejudge import RejudgeRequest, rejudge

    view, reports = read_view(given), read_reports(given)
    if not reports.files and reports.plots is None:
        raise click.UsageError("where to? Give --html FILE, --report FORMAT=PATH ... (qverify replay prints it)")
    if not is_capture(folder):
        raise click.UsageError(
            f"{folder}: not a capture (it has no capture.json); a run with --capture {folder} makes one"
        )
    with live_progress() as live:
        outcome = rejudge(
            RejudgeRequest(folder, Options(drawings=reports.drawings)),
            FramePrinter(live, view, 0, reports.stdout_taken),
            live.watch,
        )
    return emit_judged(outcome, view, reports)


command.add_command(diff)
command.add_command(matrix)
command.add_command(schema, "schema")
