"""Compares every tensor of two dumps by name: folders of .npy files (as qverify infer writes), .npz files, captures,
with -m dumps of run.sh and of qvrt infer, with --dtype or -m folders of raw NAME.bin files, and vendors' dumps,
recognised by their content or by --profile. Without B, A is a vendor's folder with the sides of one run (golden,
simulator, runtime), which are compared rung by rung. With -m, dumps that differ are located: the nodes of each are recomputed
from its own tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from qverify.cli.grouped_help import GroupedCommand
from qverify.cli.reporting import emit, read_reports
from qverify.cli.takes import takes_all
from qverify.cli.view_options import read_view

if TYPE_CHECKING:
    from qverify.options.given import Given

EPILOG = (
    """A tensor that one side lacks, or whose name, dtype or axes are not certain, counts as missing: never PASSED."""
)


EXAMPLES = (
    (
        "qverify compare host/ board.npz -m quant.onnx",
        "two dumps; the node that is wrong, recomputed from its own inputs",
    ),
    ("qverify compare snapshot/", "a vendor's ladder: float network, simulator, board"),
    (
        "qverify compare snapshot/golden snapshot/runtime --criteria rockchip",
        "two rungs, by the vendor's own thresholds",
    ),
)


class WithProfiles(GroupedCommand):
    """A command whose help lists, below the options, what each profile reads."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from qverify import profiles

        with formatter.section("Profiles (verifier/PROFILES.md of a clone)"):
            formatter.write_dl([(name, profiles.page(name).WANTED) for name in profiles.names()])
        super().format_epilog(ctx, formatter)


@click.command(cls=WithProfiles, help=__doc__, epilog=EPILOG, examples=EXAMPLES, page="docs/how-to/vendor-dumps.md")
@takes_all("compare")
def command(given: Given) -> int:
    from qverify.renderers import frame_lines, terminal
    from qverify.session.offline.compare_frames import compare_frames
    from qverify.session.offline.compare_ladder import compare_ladder
    from qverify.session.requests.offline import compare_request

    view, reports = read_view(given), read_reports(given)
    dumps, options = compare_request(replace(given, drawings=reports.drawings))
    report = compare_frames(dumps, options) if given["b"] is not None else compare_ladder(dumps, options)
    if not report.frames:
        return emit(report, terminal.render(report, [], view), reports)
    lines = [frame_lines.frame_line(row, view) for row in report.frames] if view.detail != "quiet" else []
    return emit(report, "\n".join([*lines, frame_lines.render(report, view)]), reports)
